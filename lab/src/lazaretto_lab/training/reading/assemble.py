"""Puts the trunk together: its changes packed, the bars of orders, the fitted numbers of the jury, and the figures.

    python -m lazaretto_lab.training.reading.assemble WORK OUT

``WORK`` holds what ``training.py`` wrote, with ``examples.jsonl`` and ``held.npz.xz`` of ``prepare.py``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lazaretto.models.packed_changes import packed_changes
from lazaretto_lab.training.jury import assembly
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import SEATS, by_source, fit, judge, load_items
from lazaretto_lab.training.pack import read_trained, write
from lazaretto_lab.training.screener.calibration import calibrate, read_folds
from lazaretto_lab.training.screener.train import LANGUAGES

_SPREAD = 1.0
WORDS = "embeddings.word_embeddings.weight"


def pack(trained: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file: changes to the layers in four bits, to the words in eight."""
    arrays = read_trained(trained)
    words = {name: value for name, value in arrays.items() if name.startswith(WORDS)}
    layers = {name: value for name, value in arrays.items() if name not in words}
    return packed_changes(layers, 4) | packed_changes(words, 8)


def assemble(work: Path, out: Path) -> dict[str, Any]:
    """Writes trunk.safetensors, orders.json and jury.json; gives the figures."""
    write(pack(work / "trunk.npz"), out / "trunk.safetensors")
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
