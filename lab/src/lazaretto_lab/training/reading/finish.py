"""What rests on a trunk beside its own bars, made anew from its files: one command after ``assemble.py``.

    python -m lazaretto_lab.training.reading.finish TRUNK WORK ../shared/data [--ship]

``TRUNK`` is what ``assemble.py`` wrote, ``WORK`` holds the left-out scores of the same training. The trunk's file is
left without its vector head, which nothing reads, and the bar of quiet lies among claims is set with the trunk's word
beside the claim's vector. ``--ship`` puts all of it under ``src/lazaretto/models/weights``. What jury and larger
reader say together is fitted by ``lab/benchmarks/fused_harm.py --work WORK --ship``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from lazaretto.gates.memory.claims.quiet import WEIGHTS as CLAIMS
from lazaretto.reading.trunk import FILE, HEADS, JURY, ORDERS
from lazaretto.reading.trunk import WEIGHTS as READING
from lazaretto_lab.training.claims import quiet

NOTES = "screening/scr_clean_notes.jsonl.gz"


def without_vector(trunk: Path) -> None:
    """Takes the vector head out of the file; its digest stands in the jury's numbers."""
    arrays = load_file(trunk / FILE)
    if "head.quiet.weight" in arrays:
        for part in ("weight", "bias"):
            rows = [arrays.pop(f"head.{name}.{part}") for name in ("marks", "quiet", "tools")]
            arrays[f"head.marks.{part}"] = np.concatenate(rows)
    heads = tuple(f"head.{name}." for name in HEADS)
    save_file({k: v for k, v in arrays.items() if not k.startswith("head.") or k.startswith(heads)}, trunk / FILE)
    manifest = json.loads((trunk / JURY).read_text())
    manifest["sha256"] = {FILE: hashlib.sha256((trunk / FILE).read_bytes()).hexdigest()}
    (trunk / JURY).write_text(json.dumps(manifest, indent=1) + "\n")


def main() -> None:
    """Finish, and put it in its place with ``--ship``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trunk", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ship", action="store_true")
    given = parser.parse_args()
    without_vector(given.trunk)
    found = quiet.fit(given.data / NOTES, quiet.screener_marks(given.work))
    print(json.dumps(found.figures, indent=1))
    (given.work / "quiet.json").write_text(json.dumps(found.figures, indent=1) + "\n")
    if given.ship:
        found.ship(CLAIMS)
        READING.mkdir(exist_ok=True)
        for name in (FILE, ORDERS, JURY):
            shutil.copyfile(given.trunk / name, READING / name)


if __name__ == "__main__":
    main()
