"""Who judges in a debate experiment, and from which case library."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lazaretto.cases.library import CaseLibrary, NearDuplicateIndex, starter_cases
from lazaretto.cases.records import Case, InputKind, Precedent
from lazaretto.errors import InputError
from lazaretto.gates.content.chat_roles import Retriever, RoleModel, chat_panel
from lazaretto.gates.content.gate import content_settings, make_panel, text_embedder, vector_cache
from lazaretto.gates.content.records import DEFAULT_ORDERS, Content, Order, Panel, PreparedContent, Role
from lazaretto.learn.curate import LabelledContent, case_rows
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.studies.debate.air_bench import data_folder
from lazaretto_lab.studies.debate.one_question import one_question

_CODE = "k7q2"


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
    """An item as retrieval sees it."""
    return PreparedContent(content, content.description).words


def panel_of(settings: Mapping[str, Any], library: CaseLibrary | None) -> Panel:
    """Judges by name: ``embedded``, ``held-out`` (the jury's cross-validated scores), ``chat`` with its models,
    ``folder`` (one model of this machine in every seat) or ``question`` (the same model, asked for one word)."""
    jury = settings.get("jury", "embedded")
    without = tuple(settings.get("without", ()))
    if jury == "held-out":
        return held_out_panel(settings, library, without)
    if jury in ("folder", "question"):
        from lazaretto_lab.studies.debate.folder_chat import folder_chat

        return model_panel(settings, library, folder_chat(str(settings["model"])))
    if jury == "embedded":
        # A row's time must be its own: models remember what they read, and libraries here what they were asked.
        from lazaretto.gates.content.jury.scorer import shipped_models

        shipped_models.cache_clear()
        library = None if library is None else CaseLibrary(library.cases, text_embedder(), vector_cache())
    gate = {key: settings[key] for key in ("models", "risk_first", "without", "precedents", "quick") if key in settings}
    return make_panel(content_settings({"jury": jury, **gate}, "experiment"), library)


def model_panel(settings: Mapping[str, Any], library: Retriever | None, model: ChatModel) -> Panel:
    """One language model in every seat, with the product's own prompts and rules; or asked for one word.

    The code that marks data in the prompts is the same in every debate: so equal prompts stay equal.
    """
    if settings["jury"] == "question":
        return one_question(model)
    without = set(settings.get("without", ()))
    most = int(settings.get("max_tokens", 700))
    seats = [role for role in (Role.SUPPORTER, Role.STRICT, Role.LOOSE) if role.value not in without]
    return chat_panel(
        {role: RoleModel(role, model, max_tokens=most) for role in (*seats, Role.ARBITER)},
        None if "retrieval" in without else library,
        orders=DEFAULT_ORDERS if (orders := _orders(settings)) is None else orders,
        code=lambda: _CODE,
        precedents=int(settings.get("precedents", 3)),
    )


def _orders(settings: Mapping[str, Any]) -> dict[InputKind, Order] | None:
    """The order of the rules where the row sets it."""
    first = settings.get("risk_first")
    return None if first is None else {k: Order.RISK_FIRST if k in first else Order.CONTEXT_FIRST for k in InputKind}


@functools.lru_cache(maxsize=1)
def _held_out_models(work: Path | None) -> Any:
    """Fitted once in a process: every row of an experiment asks the same."""
    from lazaretto_lab.studies.debate.held_out import HeldOutModels

    return HeldOutModels(work)


def held_out_panel(settings: Mapping[str, Any], library: CaseLibrary | None, without: Sequence[str]) -> Panel:
    """The jury as shipped, but each item is scored by models that never saw it, fitted without its fold."""
    from lazaretto.gates.content.chat_roles import ChatPreprocessor
    from lazaretto.gates.content.jury.debaters import JuryArbiter, JuryDebater
    from lazaretto.gates.content.jury.supporter import JurySupporter

    work = settings.get("work") or os.environ.get("LAZARETTO_JURY_WORK", "")
    models: Any = _held_out_models(Path(work) if work else None)
    precedents = int(settings.get("precedents", 3))
    return Panel(
        "held-out jury",
        ChatPreprocessor(),
        JuryArbiter(models, _orders(settings)),
        None if "supporter" in without else JurySupporter(None if "retrieval" in without else library, precedents),
        None if "strict" in without else JuryDebater(Role.STRICT, models),
        None if "loose" in without else JuryDebater(Role.LOOSE, models),
    )
