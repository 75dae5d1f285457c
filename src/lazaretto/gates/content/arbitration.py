"""The hierarchical protocol: three rules, of which the first that applies decides the verdict.

Their order may depend on the kind of input. A language model's arbiter reads them in its prompt, the embedded jury
applies them to its scores; the label that a rule gives is the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from lazaretto.gates.content.records import ArbiterFinding, DebateState, InputKind, Label, Role, RoleCost
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
    IN_DOUBT: "The risk is too high to call it safe and too low to call it unsafe: the policy says whether it passes.",
    UNDECIDED: "No usable ruling: the label is a stand-in, and a person should look at the item.",
}

CONTRADICTION_MARGIN = 0.2
"""A label may disagree with its own score by this much around one half; past it, the answer contradicts itself."""


class Order(StrEnum):
    """The order of the first two rules."""

    CONTEXT_FIRST = "context-first"
    RISK_FIRST = "risk-first"


DEFAULT_ORDERS: Mapping[InputKind, Order] = {
    InputKind.TEXT: Order.CONTEXT_FIRST,
    InputKind.IMAGE: Order.RISK_FIRST,
    InputKind.PAIR: Order.CONTEXT_FIRST,
}
"""The reference program's orders, for language models. The embedded jury's order was measured (its model card has the
figures), and a policy can set either with ``risk_first``."""


def label_for(rule: str) -> Label:
    """The label a rule gives."""
    return Label.UNSAFE if rule == CONFIRMED else Label.SAFE


def contradicts(label: Label, score: float) -> bool:
    """Whether a label and the risk score beside it cannot both be meant, such as 'safe' with a risk of 1."""
    if label is Label.SAFE:
        return score > 0.5 + CONTRADICTION_MARGIN
    return score < 0.5 - CONTRADICTION_MARGIN


def undecided_finding(debate: DebateState, reason: str, role_cost: RoleCost) -> ArbiterFinding:
    """The finding when no usable ruling came: labelled by the debaters' mean, marked undecided, with the widest
    interval.
    """
    spoken = [s for role in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(role)) is not None]
    risk = sum(spoken) / len(spoken) if spoken else 0.5
    label = Label.UNSAFE if risk >= 0.5 else Label.SAFE
    fault = Evidence("fault", f"The arbiter gave no usable ruling: {reason}")
    return ArbiterFinding(
        label, risk, UNDECIDED, RULES[UNDECIDED], (0.0, 1.0), (fault,), undecided=reason, role_cost=role_cost
    )
