"""The content gate as the guard sees it: from settings to judges, from one observation to one verdict."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from lazaretto.cases.casebook import Casebook
from lazaretto.cases.library import CaseLibrary, Precedents, starter_cases
from lazaretto.cases.records import Case, InputKind, Label, Precedent
from lazaretto.errors import InputError, MissingExtra, ModelError, PolicyError
from lazaretto.gates.content.debate import DebateSettings, Transcript, evidence_of, hold_debate, taxonomy
from lazaretto.gates.content.records import (
    CONFIRMED,
    DEFAULT,
    DEFAULT_ORDERS,
    IN_DOUBT,
    PLACEHOLDER,
    RULES,
    UNDECIDED,
    ArbiterFinding,
    Content,
    DebateState,
    Order,
    Panel,
    Role,
    RoleCost,
    label_for,
)
from lazaretto.gates.protocol import MEASURED, UNREAD, GateContext, measured
from lazaretto.kept_texts import clear_when_forgotten, is_stale
from lazaretto.ledger import Ledger
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.models.own_networks import GuardModel
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto.policy import CLOSED, DEFAULT_LIMITS, Limits, RulingWord, Share, TrustPolicy, read_settings
from lazaretto.policy.plugins import require
from lazaretto.processor_time import in_thread
from lazaretto.types import Channel, Evidence, Observation, Ruling, Verdict

if TYPE_CHECKING:
    from lazaretto.gates.content.chat_roles import RoleModel


@dataclass(frozen=True, slots=True)
class ModelSettings(Endpoint):
    """One language model of the debate: where it is, and what it costs."""

    __pydantic_config__ = CLOSED
    backend: Annotated[Literal["openai", "local"], Field(description="An endpoint, or weights on this machine.")] = (
        "openai"
    )
    max_tokens: Annotated[int, Field(ge=16, description="Longest answer.")] = 700
    price_prompt: Annotated[float, Field(ge=0, description="Dollars per million prompt tokens.")] = 0.0
    price_completion: Annotated[float, Field(ge=0, description="Dollars per million completion tokens.")] = 0.0
    price_cached: Annotated[float, Field(ge=-1, description="The same for cached prompt tokens; -1: as prompt.")] = -1.0


@dataclass(frozen=True, slots=True)
class ClassifierSettings:
    """A moderation model of the user's own."""

    __pydantic_config__ = CLOSED
    model: Annotated[str, Field(description="A folder with the weights, or hf:owner/name.")] = ""
    kind: Annotated[
        Literal["auto", "classifier", "safe-unsafe", "yes-no"],
        Field(
            description="A text classifier, or a chat judge that answers safe/unsafe or Yes/No; auto: by its config."
        ),
    ] = "auto"
    harmful: Annotated[tuple[str, ...], Field(description="Classes that count as harmful; empty: by their names.")] = ()
    allow_below: Annotated[Share, Field(description="Its number below which content is allowed.")] = 0.3
    unsafe_from: Annotated[Share, Field(description="Its number from which on content is unsafe.")] = 0.7


@dataclass(frozen=True, slots=True)
class ContentSettings:
    """The policy's ``[gates.content]``."""

    __pydantic_config__ = CLOSED
    jury: Annotated[
        Literal["embedded", "chat", "classifier"],
        Field(description="Trained local models, language models, or a moderation model of your own."),
    ] = "embedded"
    classifier: ClassifierSettings = ClassifierSettings()
    encoder: Annotated[
        str, Field(description="Encoder that finds precedents: a folder or hf:owner/name; empty: all-MiniLM-L6-v2.")
    ] = ""
    hearing_s: Annotated[
        float, Field(gt=0, le=3600, description="Time for a debate of language models, past the channel's timeout.")
    ] = 120.0
    rounds: Annotated[int, Field(ge=1, le=3, description="Rounds of Strict and Loose.")] = 2
    adaptive: Annotated[bool, Field(description="Stop early when nothing can change any more.")] = False
    precedents: Annotated[int, Field(ge=0, le=20, description="Cases the Supporter brings.")] = 3
    unsafe: Annotated[RulingWord, Field(description="Ruling for unsafe content.")] = Ruling.BLOCK
    gray: Annotated[RulingWord, Field(description="Ruling for content neither clearly safe nor unsafe.")] = (
        Ruling.REVIEW
    )
    undecided: Annotated[RulingWord, Field(description="Ruling when no usable verdict came.")] = Ruling.REVIEW
    false_alarms: Annotated[
        float, Field(gt=0, le=0.2, description="Share of harmless content that the embedded jury may call unsafe.")
    ] = 0.01
    misses: Annotated[
        float, Field(gt=0, le=0.5, description="Share of harmful content that the embedded jury may call safe.")
    ] = 0.15
    quick: Annotated[bool, Field(description="No debate about what one look shows to be clearly harmless.")] = True
    add_reader: Annotated[
        bool, Field(description="Where mpnet is set up, add its score to the embedded jury's in doubt.")
    ] = True
    risk_first: Annotated[
        Literal["measured"] | tuple[InputKind, ...],
        Field(description="Kinds of input (text, image, pair) that try the risk rule first, or as was measured best."),
    ] = "measured"
    without: Annotated[
        tuple[Literal["supporter", "retrieval", "strict", "loose"], ...],
        Field(description="Roles left empty (ablation)."),
    ] = ()
    models: Annotated[
        Mapping[str, ModelSettings],
        Field(description="By role (supporter, strict, loose, arbiter, vision) or 'default'."),
    ] = field(default_factory=dict)

    @property
    def debate(self) -> DebateSettings:
        """How long a debate lasts."""
        return DebateSettings(self.rounds, self.adaptive)

    @property
    def orders(self) -> Mapping[InputKind, Order]:
        """Order of the rules by kind of input."""
        if self.risk_first == "measured":
            return DEFAULT_ORDERS
        return {k: Order.RISK_FIRST if k in self.risk_first else Order.CONTEXT_FIRST for k in InputKind}


def content_settings(table: Mapping[str, Any], file: str = "policy") -> ContentSettings:
    """The settings from a policy's table."""
    settings = read_settings(ContentSettings, table, key="gates.content", file=file)
    known = {"default", "vision", *(role.value for role in Role)}
    for name in settings.models:
        if name not in known:
            raise PolicyError(f"gates.content.models.{name}", name, ", ".join(sorted(known)), file)
    if settings.jury == "chat" and "default" not in settings.models and "arbiter" not in settings.models:
        raise PolicyError("gates.content.models", "no model", "[gates.content.models.default] with a model name", file)
    if settings.jury == "classifier":
        if not settings.classifier.model:
            key = "gates.content.classifier.model"
            raise PolicyError(key, "no model", "a folder with a moderation model, or hf:owner/name", file)
        if settings.classifier.allow_below > settings.classifier.unsafe_from:
            key = "gates.content.classifier.allow_below"
            raise PolicyError(key, settings.classifier.allow_below, "at most unsafe_from", file)
    return settings


# The content gate as the guard sees it: one observation in, one verdict out.

NAME, EMBEDDED = "content", "embedded"
EMPTY_RULE = "nothing-to-judge"


class ContentGate:
    """Moderation by debate."""

    name = NAME
    channels = frozenset(Channel)
    rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "false_alarms": (0.001, 0.005, 0.01, 0.02, 0.05, 0.1),
        "misses": (0.5, 0.3, 0.2, 0.15),
    }

    @property
    def needs_s(self) -> float:
        """Language models answer one after another: their debate may take longer than the channel gives a gate."""
        return self.settings.hearing_s if self.settings.jury == "chat" else 0.0

    def __init__(self, settings: ContentSettings, panel: Panel | None = None) -> None:
        """``panel``: given judges instead of those the settings describe."""
        self.settings = settings
        self._given = panel
        self._lock = threading.Lock()
        self._libraries: dict[tuple[str, str], LiveLibrary] = {}
        self._panels: dict[tuple[str, str, Limits], Panel] = {}
        """Panels by tenant and limits."""

    def warm_up(self) -> None:
        """Load the embedded models, so that no item's time is spent on it; what reads pictures waits for the first.

        Nothing is loaded in the background: a process that ends meanwhile would end in a crash.
        """
        if self._given is None and self.settings.jury == "embedded":
            _load_models()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """Hold a debate about one item. An unreadable picture raises: the guard then rules by its fail mode."""
        image = context.ledger.blob(observation.image) if observation.image else None
        content = Content(observation.id, observation.text, image)
        if image is None and not observation.text.strip():
            return Verdict(NAME, observation.id, Ruling.ALLOW, 0.0, (0.0, 0.0), EMPTY_RULE)
        panel = self._known_panel(context.ledger, context.limits)
        if panel is None:  # may load models and embed cases
            panel = await asyncio.to_thread(self.panel_for, context.ledger, context.limits)
        transcript = await hold_debate(panel, content, self.settings.debate)
        return verdict_of(transcript, self.settings)

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Sequence[Verdict], trust: TrustPolicy
    ) -> Verdict | None:
        """As of ``Tunable``: texts that the embedded jury judged, by its measured order of rules."""
        numbers, settings = measured(verdict), self.settings
        if numbers is None or settings.jury != "embedded" or settings.risk_first != "measured":
            return None
        if numbers["glance"]:  # a glance settles nothing where fewer misses are wanted than it was measured for
            stands = settings.quick and settings.misses >= DEFAULT_MISSES
            return replace(verdict, ruling=_least_where_unread(Ruling.ALLOW, numbers)) if stands else None
        from lazaretto.gates.content.jury.debaters import heard_in, ruled_by_rates
        from lazaretto.gates.content.jury.scorer import ErrorRates
        from lazaretto.models.deep import is_set_up

        rates, heard = ErrorRates(settings.false_alarms, settings.misses), heard_in(verdict.evidence)
        if heard is not None and not settings.add_reader:
            return None  # the jury alone was not asked to rule
        rule = ruled_by_rates(verdict.risk, rates, numbers["language"], heard)
        if heard is None and verdict.rule == CONFIRMED != rule and settings.add_reader and is_set_up("mpnet"):
            return None  # the jury was sure, and by these rates is not: nobody knows what the reader would say
        ruling = {CONFIRMED: settings.unsafe, IN_DOUBT: settings.gray, UNDECIDED: settings.undecided}.get(
            rule, Ruling.ALLOW
        )
        least = _least_where_unread(ruling, numbers)
        return replace(verdict, ruling=least, rule=rule if least is ruling else UNREAD)

    def panel_for(self, ledger: Ledger, limits: Limits) -> Panel:
        """The panel with the tenant's live case library; made once."""
        known = self._known_panel(ledger, limits)
        if known is not None:
            return known
        if "retrieval" in self.settings.without:
            self._given = make_panel(self.settings, None, limits)
            return self._given
        with self._lock:
            key = (ledger.url, ledger.namespace)
            if key not in self._libraries:
                self._libraries[key] = LiveLibrary(ledger, self.settings.encoder)
            if (*key, limits) not in self._panels:
                self._panels[(*key, limits)] = make_panel(self.settings, self._libraries[key], limits)
            return self._panels[(*key, limits)]

    def _known_panel(self, ledger: Ledger, limits: Limits) -> Panel | None:
        return self._given or self._panels.get((ledger.url, ledger.namespace, limits))


def verdict_of(transcript: Transcript, settings: ContentSettings) -> Verdict:
    """A debate's outcome in the guard's words."""
    finding = transcript.finding
    if finding.undecided:
        ruling = settings.undecided
    elif finding.gray:
        ruling = settings.gray
    elif finding.label is Label.UNSAFE:
        ruling = settings.unsafe
    else:
        ruling = Ruling.ALLOW
    rule, interval, evidence = finding.rule, finding.interval, _with_numbers(evidence_of(transcript), transcript)
    if finding.unread:
        evidence = (Evidence("measure", finding.unread, {}), *evidence)
        interval = (interval[0], 1.0)
        if ruling < Ruling.REVIEW:
            ruling, rule = Ruling.REVIEW, UNREAD
    return Verdict(
        NAME,
        transcript.prepared.content.id,
        ruling,
        finding.risk,
        interval,
        rule,
        evidence,
        taxonomy(transcript),
        transcript.cost,
    )


DEFAULT_MISSES = 0.15
"""The misses that a glance was measured for, as of ``jury.debaters.DEFAULT_RATES``."""


def _least_where_unread(ruling: Ruling, numbers: Mapping[str, Any]) -> Ruling:
    return ruling if numbers["whole"] else max(ruling, Ruling.REVIEW)


def _with_numbers(evidence: tuple[Evidence, ...], transcript: Transcript) -> tuple[Evidence, ...]:
    """The evidence, with what ``ruled_again`` needs; only a text that was read and judged keeps it."""
    finding, prepared = transcript.finding, transcript.prepared
    if prepared.kind is not InputKind.TEXT or prepared.fault or transcript.panel != EMBEDDED:
        return evidence
    language = str(prepared.facts.get("language", ""))
    if transcript.faults or (finding.undecided and language not in ("mixed", "other")):
        return evidence
    glance = transcript.rounds == 0 and not finding.undecided
    numbers = {"glance": glance, "language": language, "whole": not finding.unread}
    return (replace(evidence[0], data={**evidence[0].data, MEASURED: numbers}), *evidence[1:])


def make(table: Mapping[str, Any]) -> ContentGate:
    """The gate from the policy's ``[gates.content]``; raises where the packages of its jury are absent."""
    settings = content_settings(table)
    require_jury(settings)
    return ContentGate(settings)


def require_jury(settings: ContentSettings) -> None:
    """``MissingExtra`` where the packages of the jury that the settings name are absent."""
    if settings.jury == "embedded":
        require("the content gate", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")


def _load_models() -> None:
    """Load the models and cases of the embedded jury; a missing one is reported when an item is judged."""
    from lazaretto.gates.content.jury.scorer import shipped_models

    try:
        shipped_models().warm_up()
        ready_library(starter_cases())
    except (ModelError, MissingExtra):
        pass


# From settings to judges: the panel with a model in each role, and the case library it retrieves from.


@functools.lru_cache(maxsize=32)
def _chat_model(settings: _Frozen) -> ChatModel:
    wanted = settings.settings
    if wanted.backend == "local":
        from lazaretto.models.own_networks import LocalChat

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
    from lazaretto.gates.content.jury.scorer import ErrorRates

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
    from lazaretto.gates.content.jury.supporter import JurySupporter
    from lazaretto.gates.content.jury.views import JuryPreprocessor

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
        from lazaretto.models.own_networks import HubEmbedder

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
