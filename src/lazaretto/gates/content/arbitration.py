"""The hierarchical protocol: how a verdict follows from what was shown, and which rule decided.

Three rules, tried in an order that may depend on the kind of input; the first that applies decides. They are pure
functions, so that a language model's arbiter, the embedded jury's and a person's appeal are all held to the same law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lazaretto.gates.content.records import DebateState, Finding, InputKind, Label, Role, RoleCost
from lazaretto.types import Evidence

EXONERATED = "contextual-exoneration"
CONFIRMED = "confirmed-risk"
DEFAULT = "default-safe"
IN_DOUBT = "in-doubt"
UNDECIDED = "undecided"

RULES: Mapping[str, str] = {
    EXONERATED: "Rule 1: a benign context is shown that overrides the indicators of risk; safe.",
    CONFIRMED: "Rule 2: a concrete violation is shown and nothing excuses it; unsafe.",
    DEFAULT: "Rule 3: neither concrete harm nor a clear benign context is shown; safe by default.",
    IN_DOUBT: "The risk is too high to allow and too low to call unsafe: stronger judges or a person decide.",
    UNDECIDED: "No usable ruling after retries: the label is a stand-in, and the item goes to a person.",
}

CONTRADICTION_MARGIN = 0.2
"""A label may disagree with its own score by this much around one half; past it, the answer contradicts itself."""


class Order(StrEnum):
    """Which of the first two rules is tried first."""

    CONTEXT_FIRST = "context-first"
    RISK_FIRST = "risk-first"


DEFAULT_ORDERS: Mapping[InputKind, Order] = {
    InputKind.TEXT: Order.CONTEXT_FIRST,
    InputKind.IMAGE: Order.RISK_FIRST,
    InputKind.PAIR: Order.CONTEXT_FIRST,
}
"""The reference program's orders, for language models. The embedded jury's order was measured (its model card has the
figures), and a policy can set either with ``risk_first``."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What was shown, each in [0, 1]: how firmly a benign context, how firmly a concrete violation."""

    exoneration: float
    risk: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How firm a claim must be to count as shown."""

    exoneration: float = 0.5
    risk: float = 0.5


EVEN = Thresholds()
"""Both bars at one half."""


def rule_for(grounds: Grounds, thresholds: Thresholds = EVEN, order: Order = Order.CONTEXT_FIRST) -> str:
    """The name of the rule that decides."""
    exonerated = grounds.exoneration >= thresholds.exoneration
    confirmed = grounds.risk >= thresholds.risk
    if order is Order.RISK_FIRST and confirmed:
        return CONFIRMED
    if exonerated:
        return EXONERATED
    return CONFIRMED if confirmed else DEFAULT


def label_for(rule: str) -> Label:
    """The label a rule gives."""
    return Label.UNSAFE if rule == CONFIRMED else Label.SAFE


def contradicts(label: Label, score: float) -> bool:
    """Whether a label and the risk score beside it cannot both be meant, such as 'safe' with a risk of 1."""
    if label is Label.SAFE:
        return score > 0.5 + CONTRADICTION_MARGIN
    return score < 0.5 - CONTRADICTION_MARGIN


def score_grounds(debate: DebateState) -> Grounds:
    """Claims from the last scores alone: Strict's risk, and how far Loose is from seeing any. An absent debater
    claims nothing.
    """
    strict, loose = debate.last_score(Role.STRICT), debate.last_score(Role.LOOSE)
    return Grounds(exoneration=0.0 if loose is None else 1.0 - loose, risk=_risk(strict, loose))


def _risk(strict: float | None, loose: float | None) -> float:
    if strict is None:
        return loose if loose is not None else 0.5
    return strict


def undecided_finding(debate: DebateState, reason: str, role_cost: RoleCost) -> Finding:
    """The finding when no usable ruling came: labelled by the debaters' mean, marked undecided, with the widest
    interval.
    """
    spoken = [s for role in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(role)) is not None]
    risk = sum(spoken) / len(spoken) if spoken else 0.5
    label = Label.UNSAFE if risk >= 0.5 else Label.SAFE
    fault = Evidence("fault", f"The arbiter gave no usable ruling: {reason}")
    return Finding(
        label, risk, UNDECIDED, RULES[UNDECIDED], (0.0, 1.0), (fault,), undecided=reason, role_cost=role_cost
    )


@dataclass(frozen=True, slots=True)
class RuleArbiter:
    """An arbiter that is the protocol itself, over claims computed from the debate: no model, no cost."""

    grounds: Callable[[DebateState], Grounds] = score_grounds
    thresholds: Mapping[InputKind, Thresholds] = field(default_factory=dict)
    orders: Mapping[InputKind, Order] = field(default_factory=lambda: DEFAULT_ORDERS)

    async def decide(self, debate: DebateState) -> Finding:
        """Rule by rule, with the numbers that decided."""
        kind = debate.prepared.kind
        limits = self.thresholds.get(kind, EVEN)
        order = self.orders.get(kind, Order.CONTEXT_FIRST)
        shown = self.grounds(debate)
        rule = rule_for(shown, limits, order)
        positions = [s for role in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(role)) is not None]
        risk = sum(positions) / len(positions) if positions else shown.risk
        reasoning = (
            f"{RULES[rule]} Benign context {shown.exoneration:.2f} against a bar of {limits.exoneration:.2f}, "
            f"concrete violation {shown.risk:.2f} against a bar of {limits.risk:.2f}, order {order.value}."
        )
        quotes = tuple(q for speech in debate.speeches if speech.round == debate.round for q in speech.quotes)
        strict = (speech for speech in debate.speeches if speech.role is Role.STRICT)
        hazards = tuple(dict.fromkeys(hazard for speech in strict for hazard in speech.hazards))
        span = (min(positions, default=0.0), max(positions, default=1.0))
        return Finding(label_for(rule), risk, rule, reasoning, span, quotes, hazards if rule == CONFIRMED else ())
