"""Writes how well each second reader reads each language, from the stored results: the mean AUC over left-out sources.

    python tools/reader_languages.py

Reads ``lab/results/reader/*.json``, writes ``src/lazaretto/models/weights/reader/languages.json``. ``other`` is the
lowest of a reader's languages: what was never measured is taken for no better than the worst that was.
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


def measured(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Language -> mean AUC."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line["auc"] is not None and line["language"] != "mul":
            found[line["language"]].append(line["auc"])
    means = {language: round(fmean(values), 3) for language, values in sorted(found.items())}
    return {**means, "other": min(means.values())}


def main() -> None:
    table: dict[str, dict[str, dict[str, float]]] = {"orders": {}, "harm": {}}
    for file in sorted(RESULTS.glob("*.json")):
        stored = json.loads(file.read_text())
        for task, readers in table.items():
            readers[stored["trunk"]] = measured(stored[task]["lines"])
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
