"""What a reader is worth on sources that it never saw: the tables behind the model card.

    python -m lazaretto_lab.training.reader.evaluation PACK SCORES TRUNK [--write FOLDER]

``SCORES`` holds what ``training.py`` wrote for the splits. Bars are set as they ship: each is the score that a share of
honest texts reaches, the mean over left-out honest sources in each of their languages, so that a large source does not
decide.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training.reader.training import rows_of

RATES = (0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.001)
LEAST = 70
"""Honest texts that a source must have to have a say in a bar."""


@dataclass(frozen=True, slots=True)
class Line:
    """One left-out source."""

    task: str
    source: str
    language: str
    honest: int
    bad: int
    auc: float | None
    found: float | None
    """Share of the bad above the bar of 1 % false alarms."""
    false_alarms: float | None
    gray: float | None
    """Share of the bad between the bars of 5 % and 1 %."""


def auc(label: NDArray[Any], score: NDArray[Any]) -> float | None:
    """Area under the curve; None where a side is missing."""
    bad, good = score[label == 1], score[label == 0]
    if not len(bad) or not len(good):
        return None
    ranks = np.argsort(np.argsort(np.concatenate([bad, good]), kind="stable"), kind="stable") + 1
    values = np.concatenate([bad, good])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=ranks)
    shared = (sums / counts)[inverse]
    return float((shared[: len(bad)].sum() - len(bad) * (len(bad) + 1) / 2) / (len(bad) * len(good)))


def bars(groups: Sequence[NDArray[Any]]) -> dict[str, float]:
    """The score that each rate of honest texts reaches, mean over the groups."""
    grid = np.quantile(np.concatenate(groups), np.linspace(0.3, 1, 4000))
    found = {}
    for rate in RATES:
        shares = np.mean([[float((group > bar).mean()) for bar in grid] for group in groups], axis=0)
        found[str(rate)] = float(grid[int(np.argmax(shares <= rate))])
    return found


def read_scores(folder: Path, trunk: str, pack: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of both tasks with their scores (``orders``, ``harm``)."""
    tests, harm = rows_of(pack / "orders_test.jsonl.gz"), rows_of(pack / "harm.jsonl.gz")
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for path in sorted(folder.glob(f"{trunk}-[0-9]*.npz")):
        with np.load(path) as scores:
            for name, rows, into in (("orders", tests, found[0]), ("harm", harm, found[1])):
                for n, score in zip(scores[name], scores[f"{name}_score"], strict=True):
                    into.append({**rows[int(n)], "orders": float(score[0]), "harm": float(score[1])})
    return found


def lines(task: str, rows: Sequence[Mapping[str, Any]], bar: Mapping[str, float]) -> list[Line]:
    """A line per source and language."""
    found = []
    for source, language in sorted({(r["s"], r["l"]) for r in rows}):
        mine = [r for r in rows if (r["s"], r["l"]) == (source, language)]
        label = np.array([r["y"] for r in mine])
        score = np.array([r[task] for r in mine])
        bad, good = score[label == 1], score[label == 0]
        found.append(
            Line(
                task, source, language, len(good), len(bad), auc(label, score),
                float((bad > bar["0.01"]).mean()) if len(bad) else None,
                float((good > bar["0.01"]).mean()) if len(good) else None,
                float(((bad > bar["0.05"]) & (bad <= bar["0.01"])).mean()) if len(bad) else None,
            )
        )  # fmt: skip
    return found


def evaluate(pack: Path, folder: Path, trunk: str, languages: frozenset[str] | None) -> dict[str, Any]:
    """Bars and lines of both tasks."""
    orders, harm = read_scores(folder, trunk, pack)
    result: dict[str, Any] = {"trunk": trunk}
    for task, rows in (("orders", orders), ("harm", [r for r in harm if r["k"] == "text"])):
        read = [r for r in rows if languages is None or r["l"] in languages]
        honest: dict[tuple[str, str], list[float]] = {}
        for row in read:
            if row["y"] == 0:
                honest.setdefault((row["s"], row["l"]), []).append(row[task])
        bar = bars([np.array(x) for x in honest.values() if len(x) >= LEAST])
        label, score = np.array([r["y"] for r in read]), np.array([r[task] for r in read])
        result[task] = {
            "bars": bar,
            "auc_all": auc(label, score),
            "found_all": float((score[label == 1] > bar["0.01"]).mean()),
            "lines": [asdict(line) for line in lines(task, rows, bar)],
        }
    for kind in ("text", "image", "pair"):
        mine = [r for r in harm if r["s"] == "dev" and r["k"] == kind]
        label, score = np.array([r["y"] for r in mine]), np.array([r["harm"] for r in mine])
        result[f"air_bench_{kind}_auc"] = auc(label, score)
    return result


def main() -> None:
    """Print the tables; store them with ``--write``."""
    pack, folder, trunk = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    known = None if trunk == "e5" else frozenset({"en", "de", "fr", "es", "it", "pt", "nl", "hi-Latn"})
    result = evaluate(pack, folder, trunk, known)
    for task in ("orders", "harm"):
        part = result[task]
        print(
            f"## {trunk} {task}: AUC of all {part['auc_all']:.3f}, found at 1 % {part['found_all']:.3f}", part["bars"]
        )
        for line in part["lines"]:
            if line["bad"] or (line["false_alarms"] or 0) > 0.02:
                shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items() if k != "task"}
                print("  ", *shown.values())
    print({k: v for k, v in result.items() if k.startswith("air")})
    if "--write" in sys.argv:
        target = Path(sys.argv[sys.argv.index("--write") + 1])
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{trunk}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
