"""Texts without labels that a small reader learns from a larger one: all that may be trained on, each with its source.

A split's readers see none of the sources that it leaves out, and no text that shares seven words in a row with what
the split is tested on. What shares seven words in a row with a list that judges is left out for all.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training import written
from lazaretto_lab.training.claims.templates import operational_pairs
from lazaretto_lab.training.jury.data import Example
from lazaretto_lab.training.reader.bundle import FAMILIES, left_out
from lazaretto_lab.training.reader.work_notes import LANGUAGES, work_note
from lazaretto_lab.training.screener import leave_one_out, material
from lazaretto_lab.training.screener.training import ORDERS, TOOLS, task_of

WORDS = 7
"""Words in a row that make two texts the same."""
LONGEST = 600
"""Word pieces of a text that are kept; a reader sees a window of them."""
_ROOT = Path(__file__).parents[5]
LISTS = ("tests/data", "lab/benchmarks", "lab/tests")
"""Folders whose lists judge."""
_WORD = re.compile(r"\w+")
_NEVER = ("scr_ambiguous_agent_rules",)
_NOTES, _OPERATIONAL = 8000, 12000


class Text(NamedTuple):
    """A text and where it is from; ``task``: what kind of reader it is for."""

    text: str
    source: str
    task: int = ORDERS
    fold: int = -1


def rows_of_words(text: str) -> Iterator[int]:
    """A number for every seven words in a row, or for all of a shorter text."""
    words = _WORD.findall(text.lower())
    for n in range(max(1, len(words) - WORDS + 1)):
        yield hash(tuple(words[n : n + WORDS]))


def judging_words() -> set[int]:
    """What stands in the lists that judge."""
    found: set[int] = set()
    for folder in LISTS:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in (".toml", ".json", ".jsonl", ".txt"):
                found.update(rows_of_words(path.read_text(encoding="utf-8", errors="replace")))
    return found


def tested_words(
    data: Path, examples: Sequence[Example], folds: Sequence[int], more: Sequence[material.Case]
) -> list[set[int]]:
    """What each split is tested on, in both tasks."""
    found: list[set[int]] = []
    for split, families in FAMILIES.items():
        sources = [source for family in families for source in leave_one_out.FOLDS[family]]
        texts = [sample.text for source in sources for sample, _ in leave_one_out.held_out(data, source, more)]
        for example, fold in zip(examples, folds, strict=True):
            texts += [example.text, example.description] if fold == split else []
        found.append({row for text in texts if text for row in rows_of_words(text)})
    return found


def texts(
    data: Path, examples: Sequence[Example], folds: Sequence[int], more: Sequence[material.Case]
) -> Iterator[Text]:
    """Everything, with repetitions; ``more``: descriptions of real tools."""
    for example, fold in zip(examples, folds, strict=True):
        for text in (example.text, example.description):
            yield Text(text, example.source, ORDERS, fold)
    yield from (Text(line.text, line.source) for line in material.lines(data, 0))
    yield from (Text(context.text, context.source) for context in material.contexts(data, 0))
    for folder in ("moderation", "screening"):
        for path in sorted((data / folder).glob("*.jsonl.gz")):
            if not path.name.startswith(_NEVER):
                rows = material.rows_of(path)
                yield from (Text(r["text"], r["source"]) for r in rows if r.get("lang", "en") in material.KNOWN)
    yield from _claims(data / "claims")
    with (data / "davidson" / "labeled_data.csv").open(encoding="utf-8", newline="") as file:
        yield from (Text(row["tweet"], "davidson") for row in csv.DictReader(file))
    yield from _own(more)


def _claims(folder: Path) -> Iterator[Text]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        name = path.name.partition(".")[0]
        source = "poisonedrag" if name.endswith("poisonedrag") else name
        for row in material.rows_of(path):
            told = [one["text"] for one in (*row.get("memories", ()), *([row["new"]] if "new" in row else []))]
            for text in (*told, row.get("premise", ""), row.get("hypothesis", "")):
                yield Text(text, source)


def _own(more: Sequence[material.Case]) -> Iterator[Text]:
    """Written texts, working days, notes of work, and statements about operations."""
    for case in (*material.written_cases(), *more):
        if case.language in material.KNOWN:
            task = TOOLS if task_of(case.source) == TOOLS else ORDERS
            yield from (Text(text, case.source, task) for text in (case.text, case.host))
    for one in (*written.notes(), *written.short(), *written.harm()):
        if one.language in material.KNOWN:
            yield Text(one.text, f"written_{one.fold}")
    for pair in written.statements():
        if pair.language in material.KNOWN:
            yield from (Text(text, f"stated_{pair.fold}") for text in (pair.first, pair.second))
    for day in written.days():
        if day.language in material.KNOWN:
            yield Text("\n".join(day.notes), f"written_{day.fold}")
    rng = random.Random("transfer/notes")
    for language in LANGUAGES:
        yield from (Text(work_note(language, rng), "work_notes") for _ in range(_NOTES))
    for made in operational_pairs(_OPERATIONAL, seed=77):
        yield from (Text(text, "operational") for text in made[:2] if isinstance(text, str))


def arrays(
    data: Path, examples: Sequence[Example], folds: Sequence[int], more: Sequence[material.Case] = ()
) -> dict[str, NDArray[Any]]:
    """The texts as word pieces, each once, with their sources and the splits that may see them."""
    from lazaretto.models.minilm import minilm_tokenizer

    judging, tested = judging_words(), tested_words(data, examples, folds, more)
    out = [left_out(split) for split in FAMILIES]
    kept: dict[str, tuple[Text, list[bool]]] = {}
    for one in texts(data, examples, folds, more):
        key = material.key_of(one.text)
        if len(key) < 4:
            continue
        seen = [one.source not in names and one.fold != k for k, names in enumerate(out)]
        if key in kept:
            kept[key] = (kept[key][0], [a and b for a, b in zip(kept[key][1], seen, strict=True)])
            continue
        rows = set(rows_of_words(one.text))
        if rows.isdisjoint(judging):
            kept[key] = (one, [a and rows.isdisjoint(b) for a, b in zip(seen, tested, strict=True)])
    sources = sorted({one.source for one, _ in kept.values()})
    place = {source: n for n, source in enumerate(sources)}
    ids, sizes = [], []
    for got in _encoded(minilm_tokenizer(), [one.text[:4000] for one, _ in kept.values()]):
        ids.append(np.array(got[:LONGEST], np.uint16))
        sizes.append(len(ids[-1]))
    return {
        "ids": np.concatenate(ids),
        "starts": np.cumsum([0, *sizes], dtype=np.uint32),
        "seen": np.array([seen for _, seen in kept.values()], bool).T,
        "source": np.array([place[one.source] for one, _ in kept.values()], np.uint16),
        "task": np.array([one.task for one, _ in kept.values()], np.uint8),
        "names": np.frombuffer(json.dumps(sources).encode(), np.uint8),
    }


def _encoded(tokenizer: Any, several: Sequence[str]) -> Iterator[list[int]]:
    for begin in range(0, len(several), 5000):
        for got in tokenizer.encode_batch(list(several[begin : begin + 5000]), add_special_tokens=False):
            yield got.ids


def told(made: Mapping[str, NDArray[Any]]) -> str:
    """How many texts of how many sources there are, and how many each split sees."""
    sources: Iterable[Any] = json.loads(bytes(made["names"]).decode())
    return f"{len(made['task'])} texts of {len(list(sources))} sources, seen by {made['seen'].sum(1).tolist()}"
