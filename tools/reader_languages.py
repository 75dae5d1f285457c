"""Writes how well each second reader reads each language, from the stored results: the mean AUC over left-out sources.

    python tools/reader_languages.py

Reads ``lab/results/reader/*.json``, writes ``src/lazaretto/models/weights/reader/languages.json``. Where the two larger
readers were measured on the same source in a language, such sources alone count. ``other`` is the lowest of a
reader's languages: what was never measured is taken for no better than the worst that was.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "lab" / "results" / "reader"
TABLE = ROOT / "src" / "lazaretto" / "models" / "weights" / "reader" / "languages.json"


LARGER = ("mpnet", "e5")
LEAST = 10
"""Honest and bad texts that a source must have in a language."""
Line = dict[str, Any]


def counted(lines: list[Line]) -> dict[tuple[str, str], float]:
    """(language, source) -> AUC, where there are enough texts."""
    return {
        (line["language"], line["source"]): line["auc"]
        for line in lines
        if line["auc"] is not None and line["language"] != "mul" and min(line["honest"], line["bad"]) >= LEAST
    }


def measured(mine: dict[tuple[str, str], float], shared: set[tuple[str, str]]) -> dict[str, float]:
    """Language -> mean AUC."""
    found: dict[str, list[float]] = defaultdict(list)
    in_common = {language for language, _ in shared}
    for (language, source), auc in mine.items():
        if language not in in_common or (language, source) in shared:
            found[language].append(auc)
    means = {language: round(fmean(values), 3) for language, values in sorted(found.items())}
    return {**means, "other": min(means.values())}


def main() -> None:
    stored = {one["trunk"]: one for one in (json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json")))}
    table: dict[str, dict[str, dict[str, float]]] = {}
    for task in ("orders", "harm"):
        lines = {trunk: counted(one[task]["lines"]) for trunk, one in stored.items()}
        shared = set.intersection(*(set(lines[trunk]) for trunk in LARGER))
        table[task] = {trunk: measured(mine, shared if trunk in LARGER else set()) for trunk, mine in lines.items()}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
