"""Fits the row that finds orders in mild words, on the states that the screener makes of every text anyway.

    python -m lazaretto_lab.training.screener.mild REPOSITORY --out lab/results/mild_row [--write]

The screener's trunk has seen none of these texts: working days by hands that had read none of the rules (orders,
worms, personas, requests for secrets, and honest texts), lists of orders in mild words with honest texts beside them,
and notes of work. Facts (``lie``, ``redirect``) are left out: they are judged by what is known. Nothing is random.
Every score that is reported was made by a fit that had not seen its list. ABOVE of the ordinary honest texts that the
screener's other bars do not hold lie above the bar; honest texts written to look like orders do not set it. ``--write``
writes the shipped files; run ``python tools/weight_digests.py`` then.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from lazaretto.gates.memory.text_screener import WEIGHTS, has_order_sign, shared_screener
from lazaretto_lab.training.mild import mild_texts

Floats = NDArray[np.float64]
LISTS = {
    **{f"{name}_day": f"tests/data/{name}_day.toml" for name in ("second", "third", "fourth", "fifth")},
    **{
        name: f"lab/results/everyday/{name}/list.toml"
        for name in ("milder_orders", "milder_orders_second", "mild_orders", "copy_orders", "other_hands")
    },
}
NOTES = "tests/data/dev_work_notes.toml"
WRITTEN = "training/mild"
WRITTEN_WEIGHT = 0.2
"""Weight of an order of ``training/mild``: there are more of them than of all others."""
LOOK_ALIKES = ("milder_orders", "milder_orders_second", "mild_orders", "copy_orders", WRITTEN)
"""Lists whose honest texts were written to look like orders."""
ABOVE = 0.005
RIDGE = 300.0
_FACTS = ("lie", "redirect")


@dataclass(frozen=True, slots=True)
class Text:
    """One text of a list, with what the screener makes of it."""

    group: str
    order: bool
    held: bool
    """By the other bars of the screener."""
    numbers: Floats
    """A line for each window: three logits and the mean state."""

    @property
    def strongest(self) -> Floats:
        """The window whose logits are highest."""
        return self.numbers[[int(self.numbers[:, :3].sum(1).argmax())]]


def entries(repository: Path) -> list[tuple[str, bool, str]]:
    """List, whether it is an order, text."""
    files = {name: repository / file for name, file in LISTS.items()}
    files |= {f"days/{file.stem}": file for file in sorted((Path(__file__).parent / "days").glob("*.toml"))}
    found = []
    for name, file in files.items():
        lines = tomllib.loads(file.read_text(encoding="utf-8"))
        found += [(name, False, line["text"]) for line in lines["honest"]]
        found += [(name, True, line["text"]) for line in lines["attack"] if line.get("kind") not in _FACTS]
    notes = tomllib.loads((repository / NOTES).read_text(encoding="utf-8"))
    found += [("dev_work_notes", False, note) for room in notes.values() for note in room["notes"]]
    return found + [(WRITTEN, line.order, line.text) for line in mild_texts()]


def texts(repository: Path) -> list[Text]:
    """All texts as the screener reads them."""
    screener, found = shared_screener(), list[Text]()
    hold_at, faint_at = screener.calibration.threshold(0.01), screener.calibration.threshold(0.05)
    for group, order, text in entries(repository):
        windows = screener.pooled(text)
        numbers = np.array([[*heads, *state] for heads, state in windows], np.float64)
        logit = float(numbers[:, 0].max())
        held = logit > hold_at or (logit > faint_at and has_order_sign(text))
        found.append(Text(group, order, held, numbers))
    return found


def fit(several: Sequence[Text]) -> Floats:
    """Weights of the numbers and a constant, by Newton's steps: all windows of honest texts, one of each order."""
    lines, order, weights = list[Floats](), list[float](), list[float]()
    for text in several:
        windows = text.strongest if text.order else text.numbers
        lines.append(windows)
        order += [float(text.order)] * len(windows)
        weight = WRITTEN_WEIGHT if text.order and text.group == WRITTEN else len(windows) ** -0.5
        weights += [weight] * len(windows)
    numbers, y, w = np.vstack(lines), np.array(order), np.array(weights)
    mean, spread = numbers.mean(0), numbers.std(0) + 1e-6
    x = np.column_stack([(numbers - mean) / spread, np.ones(len(numbers))])
    found, penalty = np.zeros(x.shape[1]), np.diag([RIDGE] * numbers.shape[1] + [0.0])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ found))
        slope = x.T @ (w * (y - p)) - penalty @ found
        found = found + np.linalg.solve((x * (w * p * (1 - p))[:, None]).T @ x + penalty, slope)
    return np.append(found[:-1] / spread, found[-1] - (found[:-1] * mean / spread).sum())


def score(fitted: Floats, text: Text) -> float:
    """The highest log-odds of a window."""
    return float((text.numbers @ fitted[:-1] + fitted[-1]).max())


def main(arguments: Sequence[str] | None = None) -> None:
    """Score all lists by fits that had not seen them, then fit all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--write", action="store_true", help="write the shipped files")
    options = parser.parse_args(arguments)
    several = texts(options.repository)
    groups = list(dict.fromkeys(text.group for text in several))
    left_out = dict[int, float]()
    for group in groups:
        fitted = fit([text for text in several if text.group != group])
        left_out |= {n: score(fitted, text) for n, text in enumerate(several) if text.group == group}
    free = [left_out[n] for n, t in enumerate(several) if not (t.order or t.held) and t.group not in LOOK_ALIKES]
    bar = float(np.quantile(free, 1 - ABOVE))
    fitted = fit(several)
    figures: dict[str, Any] = {"bar": round(bar, 3), "ridge": RIDGE, "above": ABOVE, "lists": {}}
    for group in groups:
        mine = [(t, left_out[n] > bar) for n, t in enumerate(several) if t.group == group]
        figures["lists"][group] = {
            name: [len(some := [(t, above) for t, above in mine if t.order is order]),
                   sum(t.held for t, _ in some), sum(t.held or above for t, above in some)]
            for name, order in (("honest", False), ("orders", True))
        }  # fmt: skip
    for name, line in figures["lists"].items():
        print(f"{name:24} " + "   ".join(f"{kind} {a} held {b} -> {c}" for kind, (a, b, c) in line.items()))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "left_out.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if options.write:
        save_file({"row": fitted[3:-1].astype(np.float32)}, WEIGHTS / "mild.safetensors")
        numbers = dict(zip(("orders", "quiet", "tools"), fitted[:3].round(4).tolist(), strict=True))
        numbers["bias"] = round(float(fitted[-1]) - bar, 4)
        (WEIGHTS / "mild.json").write_text(json.dumps(numbers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
