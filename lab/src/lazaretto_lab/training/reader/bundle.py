"""Writes what a reader is trained on, as texts, so that ``training.py`` can tokenize them for any trunk elsewhere.

    python -m lazaretto_lab.training.reader.bundle DATA OUT

``harm.jsonl.gz``: text, label, weight, source, fold, language. ``lines.jsonl.gz``, ``contexts.jsonl.gz`` and
``cases.jsonl.gz`` (written texts with an order in them): the screener's material, in every language.
``orders_test.jsonl.gz``: what each left-out source of orders is tested on. A *split* leaves out one fold of harm and
the families of orders that belong to it; what is left out of one task is left out of the other too.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lazaretto_lab.training import written
from lazaretto_lab.training.jury.bundle import labelled, weight_class
from lazaretto_lab.training.jury.foreign import FOLD_OF
from lazaretto_lab.training.reader.work_notes import LANGUAGES, work_note
from lazaretto_lab.training.screener import leave_one_out, material
from lazaretto_lab.training.screener.bundle import INSIDE_WEIGHTS, WEIGHTS
from lazaretto_lab.training.screener.days import day_texts

FAMILIES = {
    0: ("bipia", "purplellama"), 1: ("injecagent", "templates"), 2: ("asb", "jailbreaks"), 3: ("xsafety",),
    4: ("triggers",),
}  # fmt: skip
"""Which families of orders are left out together with which fold of harm."""
MULTILINGUAL = (
    "mod_harm_requests", "mod_hate_multilingual", "mod_xsafety_multilingual", "mod_benign_questions",
    "mod_benign_texts",
    "mod_lookalikes",
)  # fmt: skip
_OTHER_FOLDS = {"korean_hate_speech": 0, "cold_test": 1, "germeval2018": 2, "told_br": 4, "xcopa": 2, "phtest_ko": 0}
_OTHER_HEADS = ("rules_", "tools_")
"""How sources begin that are about other heads of the screener."""
_WRITTEN_WEIGHT = 6.0
"""Of a written request: there are few, and in some languages little else."""
_MOST = 400
"""Rows of one source, label and language other than English."""
_NOTES = 3000
"""Notes of everyday work per language."""


def left_out(split: int) -> set[str]:
    """The sources that a split's models never see, in either task."""
    sources = {source for family in FAMILIES[split] for source in leave_one_out.FOLDS[family]}
    sources |= {source for family in FAMILIES[split] for source in leave_one_out.ALSO_OUT.get(family, ())}
    return sources | {source for source, fold in fold_of().items() if fold == split}


def fold_of() -> Mapping[str, int]:
    """The fold of every source of harm."""
    return {**FOLD_OF, **_OTHER_FOLDS}


def write(data: Path, out: Path) -> None:
    """All five files, and ``splits.json``."""
    out.mkdir(parents=True, exist_ok=True)
    _dump(out / "harm.jsonl.gz", [*_english(data), *_other_languages(data), *_written_harm()])
    every = {*material.KNOWN, *material.PURPLE_LANGUAGES.values(), *_languages(data)}
    material.KNOWN = every
    lines = [
        {"t": x.text[:1600], "role": x.role, "s": x.source, "l": x.language} for x in material.lines(data, 0)
    ] + list(_work_notes())
    contexts = [{"t": x.text, "s": x.source, "l": x.language, "places": x.places} for x in material.contexts(data, 0)]
    _dump(out / "lines.jsonl.gz", lines)
    _dump(out / "cases.jsonl.gz", _cases())
    _dump(out / "contexts.jsonl.gz", contexts)
    _dump(out / "orders_test.jsonl.gz", _tests(data))
    splits = {str(split): sorted(left_out(split)) for split in FAMILIES}
    (out / "splits.json").write_text(
        json.dumps({"left_out": splits, "weights": {**WEIGHTS, "work_notes": 8}, "inside": INSIDE_WEIGHTS}, indent=1)
    )


def _english(data: Path) -> Iterator[dict[str, Any]]:
    examples, folds = labelled(data)
    for example, fold in zip(examples, folds, strict=True):
        text = example.text
        if example.description:
            text = f"{text} [picture] {example.description}".strip()
        yield {
            "t": text[:1500], "y": int(example.label), "w": float(example.trust), "s": example.source,
            "c": weight_class(example), "k": example.kind.value, "fold": int(fold), "l": "en",
        }  # fmt: skip
    rng = random.Random("notes/harm")
    for language in LANGUAGES:
        for _ in range(600):
            yield _harm(work_note(language, rng), 0, "work_notes", "own", -1, language)


def _harm(text: str, label: int, source: str, weight: str, fold: int, language: str) -> dict[str, Any]:
    return {"t": text, "y": label, "w": 1.0, "s": source, "c": weight, "k": "text", "fold": fold, "l": language}


def _other_languages(data: Path) -> Iterator[dict[str, Any]]:
    rng, kept = random.Random("languages"), list[dict[str, Any]]()
    folds, count = fold_of(), Counter[tuple[str, str, str]]()
    for name in MULTILINGUAL:
        rows = [row for row in material.rows_of(data / "moderation" / f"{name}.jsonl.gz") if row["lang"] != "en"]
        rng.shuffle(rows)
        for row in rows:
            key = (row["source"], row["label"], row["lang"])
            if row["source"] in folds and count[key] < _MOST:
                count[key] += 1
                label, source = int(row["label"] == "unsafe"), row["source"]
                kept.append(_harm(row["text"][:1500], label, source, "extra", folds[source], row["lang"]))
    yield from kept


def _written_harm() -> Iterator[dict[str, Any]]:
    """Written requests in other languages; written notes of work and honest working days, which harm nobody."""
    for one in written.harm():
        row = _harm(one.text, int(one.bad), "written_harm", "own", one.fold, one.language)
        yield {**row, "w": _WRITTEN_WEIGHT}
    for one in written.notes():
        yield _harm(one.text, 0, "written_notes", "own", one.fold, one.language)
    for day in day_texts():
        if day.kind == "honest":
            yield _harm(day.text[:1500], 0, "days", "own", day.fold, day.language)


def _cases() -> Iterator[dict[str, Any]]:
    for case in material.written_cases():
        if case.source.startswith(("written", "days")):
            yield {"t": case.text, "a": case.start, "b": case.end, "h": case.host, "s": case.source, "l": case.language}


def _languages(data: Path) -> set[str]:
    return {row["lang"] for row in material.screening_rows(data)} | {
        t["plain"]["lang"] for t in material.triples(data).values() if "plain" in t
    }


def _work_notes() -> Iterator[dict[str, Any]]:
    rng = random.Random("notes/lines")
    for language in LANGUAGES:
        for _ in range(_NOTES):
            yield {"t": work_note(language, rng), "role": material.NOTE, "s": "work_notes", "l": language}


def _tests(data: Path) -> Iterator[dict[str, Any]]:
    for split, families in FAMILIES.items():
        for family in families:
            for source in leave_one_out.FOLDS[family]:
                if source.startswith(_OTHER_HEADS):
                    continue
                for sample, language in leave_one_out.held_out(data, source):
                    row = {"t": sample.text[:4000], "y": int(sample.poisoned), "s": source, "l": language}
                    yield {**row, "split": split, "family": family}


def _dump(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    count = 0
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    print(path.name, count)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
