"""Writes what ``training.py`` needs on a machine that has neither the data nor this project.

    python -m lazaretto_lab.training.reading.prepare ../shared/data WORK [PACKAGES]

The screener's material and the jury's examples, both in the languages that the encoder's word pieces can carry, with
notes of everyday work in both tasks; which sources each seat leaves out; texts without labels (``transfer.py``); the
encoder; the screener and the jury that ship; the modules that the training needs, under ``WORK/pk``.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto import errors
from lazaretto.cases.records import InputKind
from lazaretto.gates.content.jury.views import clean
from lazaretto.models import weight_files
from lazaretto.models.minilm import minilm_folder
from lazaretto_lab.training import written
from lazaretto_lab.training.jury import multi_seat
from lazaretto_lab.training.jury.bundle import labelled, write_examples, write_input
from lazaretto_lab.training.jury.data import Example
from lazaretto_lab.training.jury.train import ADDRESSES
from lazaretto_lab.training.pack import read_trained
from lazaretto_lab.training.reader.bundle import FAMILIES, MULTILINGUAL, fold_of, left_out
from lazaretto_lab.training.reader.work_notes import LANGUAGES, work_note
from lazaretto_lab.training.reading import batches, distil, scores, teachers, training, transfer, trunk
from lazaretto_lab.training.screener import bundle, leave_one_out, material
from lazaretto_lab.training.screener import training as screener

_WEIGHTS = Path(weight_files.__file__).parent / "weights"
SHIPPED = {
    "screener": _WEIGHTS / "screener" / "screener.safetensors",
    "strict": _WEIGHTS / "jury" / "strict.safetensors",
    "loose": _WEIGHTS / "jury" / "loose.safetensors",
}
NOTES_SOURCE = "work_notes"
_NOTES, _HARMLESS_NOTES, _MOST = 3000, 800, 300
_WRITTEN_TRUST = 3.0
"""Of written requests: there are few."""


def prepare(data: Path, work: Path, packages: Path | None = None) -> None:
    """All files of the work folder; ``packages``: real servers with honest descriptions of tools."""
    work.mkdir(parents=True, exist_ok=True)
    bundle.WEIGHTS[NOTES_SOURCE] = 8
    lines, contexts = [*material.lines(data, 0), *_note_lines()], material.contexts(data, 0)
    more = material.described_cases(packages) if packages else []
    bundle._write(work / "material.npz.xz", bundle._material(lines, contexts, more))
    bundle._write(work / "held.npz.xz", bundle._held(data, lines, more))
    examples, numbers = labelled(data)
    judged = [number >= 0 for number in numbers]
    for example, fold in (*_other_languages(data), *_harmless_notes(), *_written()):
        examples.append(example)
        numbers.append(fold)
        judged.append(False)
    write_input(examples, numbers, ADDRESSES.read_text(encoding="utf-8").splitlines(), work / "input.npz")
    write_examples(examples, numbers, work / "examples.jsonl")
    out = [left_out(split) for split in FAMILIES]
    seen = [[number != k and e.source not in names for e, number in zip(examples, numbers, strict=True)]
            for k, names in enumerate(out)]  # fmt: skip
    families = {family: split for split, several in FAMILIES.items() for family in several}
    rows = list(families.values())
    np.savez_compressed(work / "judged.npz", judged=np.array(judged), seen=np.array(seen)[rows])
    (work / "splits.json").write_text(json.dumps([sorted(left_out_with(family)) for family in families]))
    (work / "families.json").write_text(json.dumps(families))
    shutil.copy(minilm_folder() / "model.safetensors", work / "minilm.safetensors")
    print(f"{len(lines)} lines, {len(contexts)} contexts, {len(examples)} examples, {sum(judged)} of them judged")
    np.savez_compressed(work / "shipped.npz", allow_pickle=False, **shipped_arrays())
    unlabelled = transfer.arrays(data, examples, numbers, more)
    unlabelled["seen"] = unlabelled["seen"][rows]
    np.savez_compressed(work / "transfer.npz", allow_pickle=False, **unlabelled)
    print(transfer.told(unlabelled))
    copy_modules(work / "pk")


def left_out_with(family: str) -> set[str]:
    """The sources of orders that a seat never sees: the family's, and all of its fold of harm."""
    split = next(number for number, several in FAMILIES.items() if family in several)
    own = {*leave_one_out.FOLDS[family], *leave_one_out.ALSO_OUT.get(family, ())}
    return own | {source for source, fold in fold_of().items() if fold == split}


def shipped_arrays() -> dict[str, NDArray[Any]]:
    """The changes and heads of the screener and of the jury that ship, as ``teachers.py`` reads them."""
    found: dict[str, NDArray[Any]] = {}
    for name, file in SHIPPED.items():
        arrays = weight_files.unpacked_changes(read_trained(file))
        found |= {f"{name}/{key}": value.astype(np.float16) for key, value in arrays.items()}
    return found


def copy_modules(folder: Path) -> None:
    """What the training imports, in packages that hold nothing else."""
    for module in (batches, distil, scores, teachers, training, trunk, multi_seat, screener, weight_files, errors):
        target = folder / f"{module.__name__.replace('.', '/')}.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(module.__file__ or ""), target)
    for inner in folder.rglob("*"):
        if inner.is_dir() and inner.name != "__pycache__":
            (inner / "__init__.py").touch()


def _note_lines() -> Iterator[material.Line]:
    rng = random.Random("notes/lines")
    for language in LANGUAGES:
        for _ in range(_NOTES):
            yield material.Line(work_note(language, rng), material.NOTE, NOTES_SOURCE, language)


def _harmless_notes() -> Iterator[tuple[Example, int]]:
    rng = random.Random("notes/harm")
    for language in LANGUAGES:
        for _ in range(_HARMLESS_NOTES):
            yield _example(work_note(language, rng), 0.0, NOTES_SOURCE), -1


def _written() -> Iterator[tuple[Example, int]]:
    """Written requests, harmful and harmless, and written notes of work, which harm nobody; none is judged."""
    for one in written.harm():
        if one.language in material.KNOWN:
            example = _example(one.text, float(one.bad), f"written_{one.fold}")
            yield replace(example, trust=_WRITTEN_TRUST), one.fold
    for one in written.notes():
        if one.language in material.KNOWN:
            yield replace(_example(one.text, 0.0, f"written_{one.fold}"), trust=0.5), one.fold


def _other_languages(data: Path) -> Iterator[tuple[Example, int]]:
    """Moderation texts in the other known languages; the sources keep their fold, and are not judged."""
    rng, folds, count = random.Random("languages"), fold_of(), Counter[tuple[str, str, str]]()
    for name in MULTILINGUAL:
        rows = list(material.rows_of(data / "moderation" / f"{name}.jsonl.gz"))
        rng.shuffle(rows)
        for row in rows:
            key = (row["source"], row["label"], row["lang"])
            if row["lang"] == "en" or row["lang"] not in material.KNOWN or row["source"] not in folds:
                continue
            if count[key] < _MOST:
                count[key] += 1
                label = float(row["label"] == "unsafe")
                yield replace(_example(row["text"][:1500], label, row["source"]), trust=0.7), folds[row["source"]]


def _example(text: str, label: float, source: str) -> Example:
    return Example(InputKind.TEXT, clean(text), "", label, source)


if __name__ == "__main__":
    prepare(*map(Path, sys.argv[1:]))
