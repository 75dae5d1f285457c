"""The content gate's settings, as the policy's ``[gates.content]`` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from lazaretto.errors import PolicyError
from lazaretto.gates.content.arbitration import DEFAULT_ORDERS, Order
from lazaretto.gates.content.debate import DebateSettings
from lazaretto.gates.content.records import InputKind, Role
from lazaretto.models.openai_chat import Endpoint
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
