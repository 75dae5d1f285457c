"""Tries a reader of tool descriptions: one linear layer over the screener's sentence states and signs.

    python -m lazaretto_lab.training.descriptions.training PACKAGES MORE_PACKAGES            # held-out figures
    python -m lazaretto_lab.training.descriptions.training PACKAGES MORE_PACKAGES --write    # keep them

PACKAGES holds the servers of lab/results/mcp/descriptions.json as ``npm pack`` and ``pip download`` leave them;
MORE_PACKAGES other ones. Half of PACKAGES (by the hash of the file's name) and all of MORE_PACKAGES are honest
examples; the other half is only checked. Figures are of a model that never saw the list's held-out kinds, and of one
that was trained on all kinds. It does not ship (research/LOG.md). Minutes on a processor.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from lazaretto.gates.instructions import tool_faults
from lazaretto_lab.training.descriptions import reader
from lazaretto_lab.training.descriptions.reader import features, sentences

HERE = Path(__file__).parent
REPOSITORY = Path(__file__).resolve().parents[5]
RESULTS = REPOSITORY / "lab" / "results" / "mcp" / "tool_reader.json"
BAR = 4.0
"""Set on the development half; raised from 3.5 when a real description of the training half stood at 3.9."""
PENALTY = 0.3
_POISON_SHARE, _LOOK_ALIKE = 0.25, 10.0
Row = dict[str, Any]


def listed(name: str) -> list[Row]:
    """The rows of a list."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def described(folder: Path) -> dict[str, list[str]]:
    """Descriptions by package."""
    path = REPOSITORY / "lab" / "benchmarks" / "mcp_descriptions.py"
    spec = importlib.util.spec_from_file_location("mcp_descriptions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {one.name: found for one in sorted(folder.iterdir()) if (found := module.described_in(one))}


def first_half(name: str) -> bool:
    """Whether a package may be trained on."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0


def poisoned_rows(row: Row) -> np.ndarray:
    """The poisoned sentences of a description as they are read beside its honest ones."""
    honest = [] if row["place"].startswith("p:") else sentences(row["honest"])
    return features([*honest, *sentences(row["poison"])])[len(honest) :]


class Fitted:
    """A layer, and what it says."""

    def __init__(self, poison: Sequence[np.ndarray], honest: Sequence[np.ndarray], alike: Sequence[np.ndarray]) -> None:
        """``alike``: honest ones that look guilty, which count more."""
        parts = [np.concatenate(list(one)) for one in (poison, honest, alike)]
        shares = (_POISON_SHARE * (len(parts[1]) + len(parts[2])) / len(parts[0]), 1.0, _LOOK_ALIKE)
        weights = np.concatenate([np.full(len(part), share) for part, share in zip(parts, shares, strict=True)])
        truth = np.concatenate([np.full(len(part), place == 0) for place, part in enumerate(parts)])
        made = LogisticRegression(C=PENALTY, max_iter=400).fit(np.concatenate(parts), truth, sample_weight=weights)
        self.weights = made.coef_[0].astype(np.float32)
        self.bias = made.intercept_.astype(np.float32)

    def refuses(self, text: str) -> bool:
        """By the layer alone."""
        found = sentences(text)
        return bool(found) and bool((features(found) @ self.weights + self.bias).max() > BAR)


def text_of(row: Row) -> str:
    """A poisoned description, or the string of it that carries the poison."""
    if row["place"].startswith("p:"):
        return str(row["poison"])
    parts = (row["poison"], row["honest"]) if row["place"] == "s" else (row["honest"], row["poison"])
    return " ".join(parts)


def main() -> None:
    """Train, print the figures, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("more", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    reader._read = cache(reader._read.__wrapped__)  # every sentence is read once
    real, more = described(options.packages), described(options.more)
    checked = [text for name, texts in real.items() if not first_half(name) for text in texts]
    known = {text for texts in real.values() for text in texts}
    trained = [text for name, texts in real.items() if first_half(name) for text in texts]
    trained += [text for texts in more.values() for text in texts if text not in known]
    poisoned, honest = listed("poisoned"), listed("honest")
    twins = [row["honest"] for row in poisoned if row["set"] == "dev"]
    ordinary = [features(found) for text in (*trained, *twins) if (found := sentences(text))]

    def fitted(sets: tuple[str, ...]) -> Fitted:
        alike = [features(sentences(row["honest"])) for row in honest if row["set"] in sets]
        poison = [poisoned_rows(row) for row in poisoned if row["set"] in sets and sentences(row["poison"])]
        return Fitted(poison, ordinary, alike)

    held = fitted(("dev",))
    told: Row = {"bar": BAR, "trained on real": len(trained), "checked": len(checked)}
    for name, rows, read in (("poisoned", poisoned, text_of), ("honest", honest, lambda row: str(row["honest"]))):
        several = [read(row) for row in rows if row["set"] == "held"]
        told[f"held-out {name}"] = len(several)
        told[f"held-out {name}, by the layer"] = sum(map(held.refuses, several))
        told[f"held-out {name}, by rules"] = sum(bool(tool_faults(text)) for text in several)
        told[f"held-out {name}, by either"] = sum(bool(tool_faults(text)) or held.refuses(text) for text in several)
    told["checked, refused before the held-out kinds were trained on"] = sum(map(held.refuses, checked))
    whole = fitted(("dev", "held"))
    told["checked, refused with all kinds trained on"] = sum(map(whole.refuses, checked))
    told["of all real ones, refused with all kinds trained on"] = sum(whole.refuses(text) for text in known)
    told["real ones"] = len(known)
    print(json.dumps(told, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
