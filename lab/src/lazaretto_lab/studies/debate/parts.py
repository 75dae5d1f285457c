"""What debate experiments are made of: labelled items, case libraries, and panels of judges."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.library import CaseLibrary, starter_cases
from lazaretto.gates.content.near_duplicates import NearDuplicateIndex
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import Case, Content, InputKind, Label, Precedent, PreparedContent, Role
from lazaretto.gates.content.settings import content_settings, make_panel, text_embedder, vector_cache
from lazaretto.learn.case_files import case_rows, labelled_rows
from lazaretto.learn.curate import LabelledContent
from lazaretto.models.embedding_cache import EmbeddingCache
from lazaretto.models.protocol import TextEmbedder


def data_folder() -> Path:
    """The folder of AIR-Bench files: ``LAZARETTO_SHARED``/data/air_bench, or beside the checkout."""
    beside = Path(__file__).resolve().parents[6] / "shared"
    folder = Path(os.environ.get("LAZARETTO_SHARED", beside)) / "data" / "air_bench"
    if not folder.is_dir():
        raise InputError(
            "data", f"no AIR-Bench files in {folder}", "Set LAZARETTO_SHARED to the folder that holds data/"
        )
    return folder


def items_of(kind: str, part: str, limit: int, seed: int) -> list[LabelledContent]:
    """Items of ``<part>_<kind>.jsonl``; a limit keeps the share of risky ones."""
    rows = labelled_rows(data_folder() / f"{part}_{InputKind(kind).value}.jsonl")
    if not limit or limit >= len(rows):
        return rows
    rng = random.Random(seed)
    chosen: list[LabelledContent] = []
    for label in Label:
        side = [row for row in rows if row.truth is label]
        rng.shuffle(side)
        chosen += side[: round(limit * len(side) / len(rows))]
    rng.shuffle(chosen)
    return chosen


class RememberingLibrary(CaseLibrary):
    """A library that looks up each question once: the rows of an experiment ask the same ones."""

    def __init__(self, cases: Iterable[Case], embedder: TextEmbedder | None, cache_folder: Path | None) -> None:
        super().__init__(cases, embedder, cache_folder)
        self._found: dict[tuple[str, InputKind, int], tuple[Precedent, ...]] = {}

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """As found the first time."""
        key = (words, kind, limit)
        if key not in self._found:
            self._found[key] = super().nearest(words, kind, limit)
        return self._found[key]


def library_of(name: str, items: Sequence[LabelledContent]) -> CaseLibrary | None:
    """``none``, ``starter`` (cold), or ``imported`` (warm: the starter and the public cases, less what overlaps an
    item).
    """
    if name == "none":
        return None
    if name not in ("starter", "imported"):
        raise InputError("library", f"{name!r} is unknown", "Use none, starter or imported")
    return _library(tuple((i.content.id, words_of(i.content)) for i in items) if name == "imported" else None)


@functools.lru_cache(maxsize=4)
def _library(protected: tuple[tuple[str, str], ...] | None) -> CaseLibrary:
    """The starter library; with the public cases that overlap nothing ``protected``, unless that is None."""
    cases: list[Case] = list(starter_cases())
    if protected is not None:
        index = NearDuplicateIndex()
        for item, words in protected:
            index.add(item, words)
        public = [case for kind in InputKind for case in case_rows(data_folder() / f"cases_{kind.value}.jsonl")]
        cases += [case for case in public if index.find(case.words) is None]
    return RememberingLibrary(cases, remembering_embedder(), vector_cache())


@functools.cache
def remembering_embedder() -> TextEmbedder | None:
    """The encoder of retrieval, which encodes each text once in a process: libraries and rows share their texts."""
    encoder = text_embedder()
    return None if encoder is None else EmbeddingCache(encoder)


def words_of(content: Content) -> str:
    """Content as retrieval sees it."""
    return PreparedContent(content, content.description).words


def panel_of(settings: Mapping[str, Any], library: CaseLibrary | None) -> Panel:
    """Judges by name: ``embedded``, ``held-out`` (the jury's cross-validated scores), or ``chat`` with its models."""
    jury = settings.get("jury", "embedded")
    without = tuple(settings.get("without", ()))
    if jury == "held-out":
        return held_out_panel(settings, library, without)
    if jury == "embedded":
        # A row's time must be its own: models remember what they read, and libraries here what they were asked.
        from lazaretto.gates.content.jury.scorer import shipped_models

        shipped_models.cache_clear()
        library = None if library is None else CaseLibrary(library.cases, text_embedder(), vector_cache())
    gate = {key: settings[key] for key in ("models", "risk_first", "without", "precedents") if key in settings}
    return make_panel(content_settings({"jury": jury, **gate}, "experiment"), library)


def held_out_panel(settings: Mapping[str, Any], library: CaseLibrary | None, without: Sequence[str]) -> Panel:
    """The jury as shipped, but each item is scored by models that never saw it, fitted without its fold."""
    from lazaretto.gates.content.arbitration import Order
    from lazaretto.gates.content.chat_roles import ChatPreprocessor
    from lazaretto.gates.content.jury.debaters import JuryArbiter, JuryDebater
    from lazaretto.gates.content.jury.supporter import JurySupporter
    from lazaretto_lab.studies.debate.held_out import HeldOutModels

    work = settings.get("work") or os.environ.get("LAZARETTO_JURY_WORK", "")
    retrieval = library is not None and not {"retrieval", "supporter"} & set(without)
    models: Any = HeldOutModels(Path(work), data_folder().parent, retrieval=retrieval)
    first = settings.get("risk_first")
    orders = None if first is None else {k: Order.RISK_FIRST if k in first else Order.CONTEXT_FIRST for k in InputKind}
    precedents = int(settings.get("precedents", 3))
    return Panel(
        "held-out jury",
        ChatPreprocessor(),
        JuryArbiter(models, orders),
        None if "supporter" in without else JurySupporter(None if "retrieval" in without else library, precedents),
        None if "strict" in without else JuryDebater(Role.STRICT, models),
        None if "loose" in without else JuryDebater(Role.LOOSE, models),
    )


def figures(truth: Sequence[bool], said: Sequence[bool], undecided: Sequence[bool]) -> dict[str, Any]:
    """Precision, recall and F1 over every item, a bootstrap interval, and the bounds that undecided items leave."""
    from lazaretto_lab.metrics.detection import confusion
    from lazaretto_lab.metrics.intervals import bootstrap_interval

    rows = np.column_stack([np.array(truth, dtype=float), np.array(said, dtype=float)])
    count = confusion(truth, said)

    def f1(sample: Any) -> float:
        value = confusion(sample[:, 0] > 0, sample[:, 1] > 0).f1
        return 0.0 if np.isnan(value) else value

    interval = bootstrap_interval(rows, statistic=f1)
    worst = [(not t) if u else s for t, s, u in zip(truth, said, undecided, strict=True)]
    best = [t if u else s for t, s, u in zip(truth, said, undecided, strict=True)]
    return {
        **{name: value for name, value in count.figures().items() if name in ("precision", "recall", "f1", "fpr")},
        "f1_low": interval.low,
        "f1_high": interval.high,
        "f1_worst": f1(np.column_stack([truth, worst]).astype(float)),
        "f1_best": f1(np.column_stack([truth, best]).astype(float)),
        "items": len(rows),
        "undecided": int(sum(undecided)),
    }
