"""From settings to judges: the panel with a model in each role, and the case library it retrieves from."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lazaretto.errors import InputError, MissingExtra
from lazaretto.gates.content.arbitration import CONFIRMED, DEFAULT, IN_DOUBT, RULES, UNDECIDED, label_for
from lazaretto.gates.content.casebook import Casebook
from lazaretto.gates.content.library import CaseLibrary, Precedents
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import (
    PLACEHOLDER,
    ArbiterFinding,
    Case,
    DebateState,
    InputKind,
    Precedent,
    Role,
    RoleCost,
)
from lazaretto.gates.content.settings import ClassifierSettings, ContentSettings, ModelSettings
from lazaretto.kept_texts import clear_when_forgotten, is_stale
from lazaretto.ledger import Ledger
from lazaretto.models.guard_model import GuardModel
from lazaretto.models.openai_chat import OpenAIChat
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.processor_time import in_thread

if TYPE_CHECKING:
    from lazaretto.gates.content.chat_roles import RoleModel


@functools.lru_cache(maxsize=32)
def _chat_model(settings: _Frozen) -> ChatModel:
    wanted = settings.settings
    if wanted.backend == "local":
        from lazaretto.models.local_chat import LocalChat

        return LocalChat(wanted.model)
    return OpenAIChat(wanted)


@dataclass(frozen=True)
class _Frozen:
    """Settings as a cache key: roles with equal settings share one client, and so one limit and one breaker."""

    settings: ModelSettings

    def __hash__(self) -> int:
        return hash(repr(self.settings))


def role_model_for(role: Role, wanted: ModelSettings) -> RoleModel:
    """A model in a role."""
    from lazaretto.gates.content.chat_roles import Price, RoleModel

    cached = None if wanted.price_cached < 0 else wanted.price_cached
    price = Price(wanted.price_prompt, wanted.price_completion, cached)
    return RoleModel(role, _chat_model(_Frozen(wanted)), price, wanted.max_tokens)


def make_panel(settings: ContentSettings, library: Precedents | None, limits: Limits = DEFAULT_LIMITS) -> Panel:
    """The panel that the settings describe; it opens pictures within the policy's ``limits``."""
    if "retrieval" in settings.without:
        library = None
    if settings.jury == "embedded":
        return _embedded(settings, library, limits)
    if settings.jury == "classifier":
        return _classified(settings, library, limits)
    from lazaretto.gates.content.chat_roles import chat_panel  # with the answers' schemas: not where no model is asked

    role_models: dict[Role, RoleModel] = {}
    for role in (Role.SUPPORTER, Role.STRICT, Role.LOOSE, Role.ARBITER):
        wanted = settings.models.get(role.value) or settings.models.get("default")
        if role.value not in settings.without and wanted is not None:
            role_models[role] = role_model_for(role, wanted)
    if "vision" in settings.models:
        role_models[Role.PREPROCESSOR] = role_model_for(Role.PREPROCESSOR, settings.models["vision"])
    if Role.ARBITER not in role_models:
        raise InputError("gates.content.models", "no model for the arbiter", "Set models.default or models.arbiter")
    return chat_panel(role_models, library, orders=settings.orders, precedents=settings.precedents, limits=limits)


def _embedded(settings: ContentSettings, library: Precedents | None, limits: Limits) -> Panel:
    from lazaretto.gates.content.jury import embedded_panel
    from lazaretto.gates.content.jury.debaters import ErrorRates

    orders = None if settings.risk_first == "measured" else settings.orders
    rates = ErrorRates(settings.false_alarms, settings.misses)
    panel = embedded_panel(
        library,
        settings.precedents,
        settings.without,
        orders,
        limits,
        rates=rates,
        quick=settings.quick,
        second=settings.add_reader,
    )
    return _seeing(panel, settings, limits)


def _classified(settings: ContentSettings, library: Precedents | None, limits: Limits) -> Panel:
    from lazaretto.gates.content.jury.preprocessor import JuryPreprocessor
    from lazaretto.gates.content.jury.supporter import JurySupporter

    wanted = settings.classifier
    arbiter = ClassifierArbiter(_guard_model(wanted), wanted.allow_below, wanted.unsafe_from)
    supporter = None if "supporter" in settings.without else JurySupporter(library, settings.precedents)
    panel = Panel(arbiter.model.name, JuryPreprocessor(limits=limits), arbiter, supporter)
    return _seeing(panel, settings, limits)


@functools.lru_cache(maxsize=4)
def _guard_model(wanted: ClassifierSettings) -> GuardModel:
    """The user's model, loaded once for all panels that seat it."""
    return GuardModel(wanted.model, wanted.kind, wanted.harmful)


def _seeing(panel: Panel, settings: ContentSettings, limits: Limits) -> Panel:
    """The panel with the policy's vision model before its own preprocessor, where there is one."""
    if "vision" not in settings.models:
        return panel
    from lazaretto.gates.content.chat_roles import DescribingPreprocessor

    vision = role_model_for(Role.PREPROCESSOR, settings.models["vision"])
    return replace(panel, preprocessor=DescribingPreprocessor(vision, panel.preprocessor, limits))


@functools.lru_cache(maxsize=4)
def text_embedder(encoder: str = "") -> TextEmbedder | None:
    """The encoder retrieval uses, or None without the ``models`` extra: retrieval is then by words alone.

    ``encoder``: a folder or ``hf:owner/name`` in place of all-MiniLM-L6-v2.
    """
    if encoder:
        from lazaretto.models.hub_embedder import HubEmbedder

        return HubEmbedder(encoder)
    try:
        from lazaretto.reading.text import ReadVectors

        return ReadVectors()
    except MissingExtra:
        return None


def vector_cache() -> Path:
    """Where case vectors are kept between runs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("lazaretto")) / "cases"


def ready_library(cases: Iterable[Case], encoder: str = "") -> CaseLibrary:
    """Cases to retrieve from, their vectors made or read from the cache: the first debate does not wait for them."""
    library = CaseLibrary(cases, text_embedder(encoder), vector_cache())
    library.prepare()
    return library


class LiveLibrary:
    """The casebook's live version, looked up when precedents are wanted: a text that needs no debate costs no look at
    the ledger. Safe to share between threads; the newest version alone is kept, until something is erased."""

    def __init__(self, ledger: Ledger, encoder: str = "") -> None:
        self._ledger, self._encoder = ledger, encoder
        self._lock = threading.Lock()
        self._kept: tuple[Casebook, tuple[str, ...], CaseLibrary] | None = None
        clear_when_forgotten(self)
        self._library()

    def clear(self) -> None:
        """Forget cases that were made here: they are read again when they are wanted."""
        kept = self._kept
        if kept is not None and kept[0].has_learnt:
            self._kept = None

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """As in ``CaseLibrary``, over the cases that are live now."""
        return self._library().nearest(words, kind, limit)

    def _library(self) -> CaseLibrary:
        with self._lock:
            kept = self._kept
            book = Casebook(self._ledger) if kept is None else kept[0]
            book.refresh()
            live = (book.live, *(case.id for case in book.cases()))
            if kept is None or kept[1] != live:
                kept = book, live, live_library(book, self._encoder)
            self._kept = None if is_stale() and book.has_learnt else kept
            return kept[2]


def live_library(book: Casebook, encoder: str = "") -> CaseLibrary:
    """The casebook's live version, ready."""
    return ready_library(book.cases(), encoder)


@dataclass(frozen=True, slots=True)
class ClassifierArbiter:
    """Rules by one model's number. Nothing is known of how well it is calibrated: the bars are the user's."""

    model: GuardModel
    allow_below: float = 0.3
    unsafe_from: float = 0.7

    async def decide(self, debate: DebateState) -> ArbiterFinding:
        """The finding; a picture without words is undecided, because the model reads text alone."""
        started, prepared = time.perf_counter(), debate.prepared
        words = prepared.words
        if prepared.fault or not words:
            why = prepared.fault or "the picture has no description and no words on it"
            if prepared.description != PLACEHOLDER and not prepared.fault:
                why = "there is nothing to judge"
            return ArbiterFinding(label_for(DEFAULT), 0.5, UNDECIDED, RULES[UNDECIDED], undecided=why)
        found = await in_thread(self.model.score, words)
        ms = (time.perf_counter() - started) * 1000.0
        gray = self.allow_below <= found.risk < self.unsafe_from
        rule = CONFIRMED if found.risk >= (0.5 if gray else self.unsafe_from) else DEFAULT
        reasoning = (
            f"{RULES[IN_DOUBT if gray else rule]} {self.model.name} says {found.label} with {found.risk:.2f}. "
            f"Allowed below {self.allow_below:.2f}, unsafe from {self.unsafe_from:.2f}."
        )
        cost = RoleCost(Role.ARBITER, self.model.name, calls=1, prompt_tokens=found.tokens, ms=ms)
        return ArbiterFinding(
            label_for(rule),
            found.risk,
            IN_DOUBT if gray else rule,
            reasoning,
            (0.0, 1.0),
            prepared.notices,
            role_cost=cost,
            gray=gray,
        )
