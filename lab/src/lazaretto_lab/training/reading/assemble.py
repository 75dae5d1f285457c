"""Puts the trunk together: its changes packed, the bars of orders, the fitted numbers of the jury, and the figures.

    python -m lazaretto_lab.training.reading.assemble WORK OUT

``WORK`` holds what ``distil.py`` wrote, with ``examples.jsonl`` and ``held.npz.xz`` of ``prepare.py``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from lazaretto_lab.training.jury import assembly
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import SEATS, by_source, fit, judge, load_items
from lazaretto_lab.training.pack import read_trained, write
from lazaretto_lab.training.screener.calibration import calibrate, read_folds
from lazaretto_lab.training.screener.train import LANGUAGES

_SPREAD = 1.0


def assemble(work: Path, out: Path) -> dict[str, Any]:
    """Writes trunk.safetensors, orders.json, jury.json and the folds' trunks; gives the figures."""
    write(read_trained(work / "trunk.npz"), out / "trunk.safetensors")
    for fold in sorted(work.glob("trunk-[0-9].npz")):
        write(read_trained(fold), out / "folds" / f"fold{fold.stem[-1]}.safetensors")
    orders = calibrate(read_folds(work), LANGUAGES, _SPREAD)
    (out / "orders.json").write_text(json.dumps(orders, indent=1) + "\n")
    items = load_items(work, SEATS, "jury")
    heads, measured = {}, dict[str, Any]()
    for head in assembly.HEADS:
        settings, judged = fit(items, head), judge(items, head, assembly.FALSE_ALARMS, assembly.MISSES)
        heads[head] = assembly._plain(settings, assembly._spread(items, head))
        measured[head] = assembly._bench(judged)
        if head == "text":
            measured["sources"], measured["all sources"] = by_source(judged), assembly._macro(judged)
    heads["lettering"] = {**heads["text"], "quick": -30.0}
    measured["hazards"] = assembly.hazard_accuracy(work, SEATS, "jury")
    digest = hashlib.sha256((out / "trunk.safetensors").read_bytes()).hexdigest()
    manifest = {
        "version": "4",
        "windows": dict.fromkeys(SEATS, assembly.WINDOW),
        "sha256": {"trunk.safetensors": digest},
        "hazards": list(HAZARDS),
        "contexts": list(CONTEXTS),
        "heads": heads,
        "measured": measured,
    }
    (out / "jury.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return measured


if __name__ == "__main__":
    shown = assemble(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({k: v for k, v in shown.items() if k != "sources"}, indent=1))
