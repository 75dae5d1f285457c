"""The hierarchical protocol, rule by rule."""

from __future__ import annotations

import pytest

from lazaretto.gates.content.arbitration import (
    CONFIRMED,
    DEFAULT,
    EXONERATED,
    IN_DOUBT,
    RULES,
    UNDECIDED,
    Grounds,
    Order,
    RuleArbiter,
    Thresholds,
    contradicts,
    label_for,
    rule_for,
    undecided_finding,
)
from lazaretto.gates.content.records import (
    Briefing,
    Content,
    DebateState,
    InputKind,
    Label,
    PreparedContent,
    Role,
    RoleCost,
)


@pytest.mark.parametrize(
    ("exoneration", "risk", "order", "rule"),
    [
        (0.9, 0.9, Order.CONTEXT_FIRST, EXONERATED),
        (0.9, 0.9, Order.RISK_FIRST, CONFIRMED),
        (0.1, 0.9, Order.CONTEXT_FIRST, CONFIRMED),
        (0.9, 0.1, Order.RISK_FIRST, EXONERATED),
        (0.1, 0.1, Order.CONTEXT_FIRST, DEFAULT),
        (0.1, 0.1, Order.RISK_FIRST, DEFAULT),
    ],
)
def test_the_first_rule_that_applies_decides(exoneration: float, risk: float, order: Order, rule: str) -> None:
    assert rule_for(Grounds(exoneration, risk), order=order) == rule


def test_only_confirmed_risk_is_unsafe() -> None:
    assert {rule: label_for(rule) for rule in RULES if rule not in (UNDECIDED, IN_DOUBT)} == {
        EXONERATED: Label.SAFE,
        CONFIRMED: Label.UNSAFE,
        DEFAULT: Label.SAFE,
    }


def test_contradictions_have_a_margin() -> None:
    assert contradicts(Label.SAFE, 1.0) and contradicts(Label.UNSAFE, 0.0)
    assert not contradicts(Label.SAFE, 0.6) and not contradicts(Label.UNSAFE, 0.4)


def _debate(strict: float | None, loose: float | None, text: str = "x", description: str = "") -> DebateState:
    scores = {role: (s,) for role, s in ((Role.STRICT, strict), (Role.LOOSE, loose)) if s is not None}
    return DebateState(
        PreparedContent(Content("i", text, description=description), description), Briefing(), scores=scores
    )


async def test_the_protocol_itself_can_sit_as_arbiter() -> None:
    arbiter = RuleArbiter(thresholds={InputKind.TEXT: Thresholds(exoneration=0.7, risk=0.6)})
    risky = await arbiter.decide(_debate(0.9, 0.6))
    assert (risky.rule, risky.label) == (CONFIRMED, Label.UNSAFE)
    assert risky.interval == (0.6, 0.9)
    assert (await arbiter.decide(_debate(0.9, 0.1))).rule == EXONERATED
    assert (await arbiter.decide(_debate(0.5, 0.5))).rule == DEFAULT


async def test_the_order_depends_on_the_kind_of_input() -> None:
    arbiter = RuleArbiter(orders={InputKind.IMAGE: Order.RISK_FIRST})
    assert (await arbiter.decide(_debate(0.9, 0.1, text="", description="a picture"))).rule == CONFIRMED
    assert (await arbiter.decide(_debate(0.9, 0.1))).rule == EXONERATED


def test_a_stand_in_is_marked_and_knows_nothing() -> None:
    finding = undecided_finding(_debate(0.9, 0.7), "timeout", RoleCost(Role.ARBITER))
    assert (finding.label, finding.rule, finding.undecided) == (Label.UNSAFE, UNDECIDED, "timeout")
    assert finding.interval == (0.0, 1.0)
