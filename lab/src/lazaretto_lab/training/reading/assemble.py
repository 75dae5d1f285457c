"""Puts the trunk together: its changes packed, the bars of orders, the jury's fitted numbers for texts, the figures.

    python -m lazaretto_lab.training.reading.assemble WORK OUT lab/results/reading/begun_risk_student.npz [--ship]

``WORK`` holds what ``distil.py`` wrote, with ``examples.jsonl`` and ``held.npz.xz`` of ``prepare.py``; the third file
holds the left-out scores of another training, from which the interval of a risk comes. ``--ship`` puts the files under
``src/lazaretto/models/weights``. What rests on the trunk besides is made anew after that: the bar of quiet lies among
claims (``training.claims.quiet``), the jury beside a larger reader (``lab/benchmarks/fused_harm.py``) and the list of
digests (``tools/weight_digests.py``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.reading.trunk import FILE, JURY, ORDERS, WEIGHTS
from lazaretto_lab.studies.debate.held_out import stored_items
from lazaretto_lab.training.jury import assembly
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import SEATS, Items, by_source, fit, judge, load_items
from lazaretto_lab.training.pack import read_trained, write
from lazaretto_lab.training.screener.calibration import calibrate, read_folds
from lazaretto_lab.training.screener.train import LANGUAGES

_SPREAD = 1.0


def assemble(work: Path, out: Path, other: Path) -> dict[str, Any]:
    """Writes trunk.safetensors, orders.json, jury.json and the folds' trunks; gives the figures."""
    write(read_trained(work / "trunk.npz"), out / FILE)
    for fold in sorted(work.glob("trunk-[0-9].npz")):
        write(read_trained(fold), out / "folds" / f"fold{fold.stem[-1]}.safetensors")
    orders = calibrate(read_folds(work), LANGUAGES, _SPREAD)
    (out / ORDERS).write_text(json.dumps(orders, indent=1) + "\n")
    items = load_items(work, SEATS, "jury")
    heads, measured = {}, dict[str, Any]()
    settings, judged = fit(items, "text"), judge(items, "text", assembly.FALSE_ALARMS, assembly.MISSES)
    heads["text"] = assembly._plain(settings, _apart(items, stored_items(other)))
    measured["text"] = assembly._bench(judged)
    measured["sources"], measured["all sources"] = by_source(judged), assembly._macro(judged)
    heads["lettering"] = {**heads["text"], "quick": -30.0}
    measured["hazards"] = assembly.hazard_accuracy(work, SEATS, "jury")
    digest = hashlib.sha256((out / FILE).read_bytes()).hexdigest()
    manifest = {
        "version": "4",
        "sha256": {FILE: digest},
        "hazards": list(HAZARDS),
        "contexts": list(CONTEXTS),
        "heads": heads,
        "measured": measured,
    }
    (out / JURY).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return measured


def _apart(first: Items, second: Items) -> float:
    """How far two trainings lie apart on texts, as 1.96 standard deviations: what training again would change."""
    text = first.head == "text"
    return float(1.96 * np.abs(first.logits[text] - second.logits[text]).mean() / np.sqrt(2))


def main() -> None:
    """Assemble, print the figures, and ship with ``--ship``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--ship", action="store_true")
    given = parser.parse_args()
    shown = assemble(given.work, given.out, given.other)
    print(json.dumps({k: v for k, v in shown.items() if k != "sources"}, indent=1))
    if given.ship:
        WEIGHTS.mkdir(exist_ok=True)
        for name in (FILE, ORDERS, JURY):
            shutil.copyfile(given.out / name, WEIGHTS / name)


if __name__ == "__main__":
    main()
