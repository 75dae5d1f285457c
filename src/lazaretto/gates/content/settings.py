"""From settings to a table: who sits where, with which model, at which price."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lazaretto.errors import InputError, MissingExtra, PolicyError
from lazaretto.gates.content.arbitration import DEFAULT_ORDERS, Order
from lazaretto.gates.content.casebook import Casebook
from lazaretto.gates.content.chat_roles import Describing, Price, RoleModel, chat_panel
from lazaretto.gates.content.debate import DebateSettings
from lazaretto.gates.content.library import CaseLibrary
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import Case, InputKind, Role
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto.policy import CLOSED, RulingWord, Share, read_settings
from lazaretto.types import Ruling


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
class ContentSettings:
    """The policy's ``[gates.content]``."""

    __pydantic_config__ = CLOSED
    jury: Annotated[Literal["embedded", "chat"], Field(description="Trained local models, or language models.")] = (
        "embedded"
    )
    rounds: Annotated[int, Field(ge=1, le=3, description="Rounds of Strict and Loose.")] = 2
    adaptive: Annotated[bool, Field(description="Stop early when nothing can change any more.")] = False
    precedents: Annotated[int, Field(ge=0, le=20, description="Cases the Supporter brings.")] = 3
    unsafe: Annotated[RulingWord, Field(description="Ruling for what is found unsafe.")] = Ruling.BLOCK
    undecided: Annotated[RulingWord, Field(description="Ruling when no usable verdict came.")] = Ruling.REVIEW
    warn_above: Annotated[Share, Field(description="Risk from which a safe finding still warns.")] = 0.4
    risk_first: Annotated[
        Literal["measured"] | tuple[InputKind, ...],
        Field(description="Kinds of input (text, image, pair) that try the risk rule first, or as was measured best."),
    ] = "measured"
    without: Annotated[
        tuple[Literal["supporter", "retrieval", "strict", "loose"], ...],
        Field(description="Seats left empty (ablation)."),
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
    return settings


@functools.lru_cache(maxsize=32)
def _chat_model(settings: _Frozen) -> ChatModel:
    wanted = settings.settings
    if wanted.backend == "local":
        from lazaretto.models.local_chat import LocalChat

        return LocalChat(wanted.model)
    return OpenAIChat(wanted)


@dataclass(frozen=True)
class _Frozen:
    """Settings as a cache key: seats with equal settings share one client, and so one limit and one breaker."""

    settings: ModelSettings

    def __hash__(self) -> int:
        return hash(repr(self.settings))


def role_model_for(role: Role, wanted: ModelSettings) -> RoleModel:
    """A model in a role."""
    cached = None if wanted.price_cached < 0 else wanted.price_cached
    price = Price(wanted.price_prompt, wanted.price_completion, cached)
    return RoleModel(role, _chat_model(_Frozen(wanted)), price, wanted.max_tokens)


def make_panel(settings: ContentSettings, library: CaseLibrary | None) -> Panel:
    """The table that the settings describe."""
    if "retrieval" in settings.without:
        library = None
    if settings.jury == "embedded":
        return _embedded(settings, library)
    role_models: dict[Role, RoleModel] = {}
    for role in (Role.SUPPORTER, Role.STRICT, Role.LOOSE, Role.ARBITER):
        wanted = settings.models.get(role.value) or settings.models.get("default")
        if role.value not in settings.without and wanted is not None:
            role_models[role] = role_model_for(role, wanted)
    if "vision" in settings.models:
        role_models[Role.PREPROCESSOR] = role_model_for(Role.PREPROCESSOR, settings.models["vision"])
    if Role.ARBITER not in role_models:
        raise InputError("gates.content.models", "no model for the arbiter", "Set models.default or models.arbiter")
    return chat_panel(role_models, library, orders=settings.orders, precedents=settings.precedents)


def _embedded(settings: ContentSettings, library: CaseLibrary | None) -> Panel:
    from lazaretto.gates.content.jury import embedded_panel

    orders = None if settings.risk_first == "measured" else settings.orders
    table = embedded_panel(library, precedents=settings.precedents, without=settings.without, orders=orders)
    if "vision" not in settings.models:
        return table
    eye = role_model_for(Role.PREPROCESSOR, settings.models["vision"])
    return replace(table, preprocessor=Describing(eye, table.preprocessor))


def text_embedder() -> TextEmbedder | None:
    """The encoder retrieval uses, or None without the ``models`` extra: retrieval is then by words alone."""
    try:
        from lazaretto.models.minilm import fast_minilm

        return fast_minilm()
    except MissingExtra:
        return None


def vector_cache() -> Path:
    """Where case vectors are kept between runs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("lazaretto")) / "cases"


def ready_library(cases: Iterable[Case]) -> CaseLibrary:
    """Cases to retrieve from, their vectors made or read from the cache: the first debate does not wait for them."""
    library = CaseLibrary(cases, text_embedder(), vector_cache())
    library.prepare()
    return library


def live_library(book: Casebook) -> CaseLibrary:
    """The casebook's live version, ready."""
    return ready_library(book.cases())
