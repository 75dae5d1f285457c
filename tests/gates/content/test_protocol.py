"""The hierarchical protocol: what label a rule gives, what contradicts itself, what stands in for a ruling."""

from __future__ import annotations

from lazaretto.cases.records import Label
from lazaretto.gates.content.records import (
    CONFIRMED,
    DEFAULT,
    EXONERATED,
    IN_DOUBT,
    RULES,
    UNDECIDED,
    Briefing,
    Content,
    DebateState,
    PreparedContent,
    Role,
    RoleCost,
    contradicts,
    label_for,
    undecided_finding,
)


def test_only_confirmed_risk_is_unsafe() -> None:
    assert {rule: label_for(rule) for rule in RULES if rule not in (UNDECIDED, IN_DOUBT)} == {
        EXONERATED: Label.SAFE,
        CONFIRMED: Label.UNSAFE,
        DEFAULT: Label.SAFE,
    }


def test_contradictions_have_a_margin() -> None:
    assert contradicts(Label.SAFE, 1.0) and contradicts(Label.UNSAFE, 0.0)
    assert not contradicts(Label.SAFE, 0.6) and not contradicts(Label.UNSAFE, 0.4)


def test_a_stand_in_is_marked_and_knows_nothing() -> None:
    scores = {Role.STRICT: (0.9,), Role.LOOSE: (0.7,)}
    debate = DebateState(PreparedContent(Content("i", "x"), ""), Briefing(), scores=scores)
    finding = undecided_finding(debate, "timeout", RoleCost(Role.ARBITER))
    assert (finding.label, finding.rule, finding.undecided) == (Label.UNSAFE, UNDECIDED, "timeout")
    assert finding.interval == (0.0, 1.0)
