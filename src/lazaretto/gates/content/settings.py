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
    review_below: Annotated[Share, Field(description="Risk below which an unsafe finding goes to review instead.")] = (
        0.7
    )
    undecided: Annotated[RulingWord, Field(description="Ruling when no usable verdict came.")] = Ruling.REVIEW
    warn_above: Annotated[Share, Field(description="Risk from which a safe finding still warns.")] = 0.4
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
    return settings
