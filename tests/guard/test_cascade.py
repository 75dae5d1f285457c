"""Cheap gates for all, dear ones for what is left gray: which stages run, and what they settle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lazaretto import Guard, Policy, PolicyError, Ruling
from lazaretto.gates.engine.decision import Examination, decide
from lazaretto.policy import ChannelPolicy, Channels, Stage, When
from lazaretto.testing import ScriptedGate
from lazaretto.types import Channel, GateRun, Observation, RunStatus, SourceClass, Verdict

GRAY = Stage(("dear",), when="gray")


def policy(*stages: Stage | tuple[str, ...], **more: Any) -> Policy:
    rules = ChannelPolicy(stages=stages, **more)
    return replace(Policy.minimal(), channels=Channels(**{c.value: rules for c in Channel}))


def saying(gate: str, ruling: Ruling, risk: float, rule: str = "scripted") -> ScriptedGate:
    def script(o: Observation) -> Verdict:
        return Verdict(gate, o.id, ruling, risk, (risk, risk), rule)

    return ScriptedGate(script, gate)


@pytest.mark.parametrize(
    ("ruling", "risk", "asked"),
    [
        (Ruling.ALLOW, 0.05, False),
        (Ruling.ALLOW, 0.5, False),
        (Ruling.WARN, 0.1, True),
        (Ruling.REVIEW, 0.1, True),
        (Ruling.REVIEW, 0.9, True),
        (Ruling.QUARANTINE, 0.5, False),
        (Ruling.BLOCK, 0.5, False),
    ],
)
async def test_a_gray_stage_is_for_what_the_others_leave_open(
    open_guard: Callable[..., Guard], ruling: Ruling, risk: float, asked: bool
) -> None:
    dear = saying("dear", Ruling.ALLOW, 0.02, "found_nothing")
    guard = open_guard(policy(("cheap",), GRAY), gates={"cheap": saying("cheap", ruling, risk), "dear": dear})
    decision = await guard.check("x", agent="ada")
    assert bool(dear.asked) is asked and decision.complete
    if asked:
        assert (decision.ruling, decision.rule) == (Ruling.ALLOW, "dear:found_nothing")
        assert decision.settled == ("cheap:scripted",) and decision.risk == 0.02
        assert len(decision.verdicts) == 2, "what was cleared stays on record"
    else:
        assert decision.ruling is ruling and decision.settled == ()
        assert decision.runs[1].status is RunStatus.SKIPPED and decision.runs[1].detail
    recorded = list(guard.ledger.events(subject=decision.item))[-1].body or {}
    assert tuple(recorded["settled"]) == decision.settled


async def test_a_risk_band_makes_an_allowed_item_gray(open_guard: Callable[..., Guard]) -> None:
    dear = saying("dear", Ruling.ALLOW, 0.02)
    gates = {"cheap": saying("cheap", Ruling.ALLOW, 0.5), "dear": dear}
    await open_guard(policy(("cheap",), GRAY, gray=(0.3, 0.7)), gates=gates).check("x", agent="ada")
    assert len(dear.asked) == 1


async def test_what_is_cleared_may_be_recalled_and_teaches_as_allowed(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": saying("cheap", Ruling.REVIEW, 0.5), "dear": saying("dear", Ruling.ALLOW, 0.02)}
    guard = open_guard(policy(("cheap",), GRAY), gates=gates)
    decision = await guard.remember("the tide turns at four", agent="ada")
    assert [m.id for m in await guard.recall("tide", agent="bo")] == [decision.item]
    assert gates["cheap"].learned == [(decision.item, Ruling.ALLOW)]


async def test_a_dear_gate_may_also_condemn(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": saying("cheap", Ruling.REVIEW, 0.5), "dear": saying("dear", Ruling.BLOCK, 0.9, "harm")}
    decision = await open_guard(policy(("cheap",), GRAY), gates=gates).check("x", agent="ada")
    assert (decision.ruling, decision.rule, decision.settled) == (Ruling.BLOCK, "dear:harm", ())


@pytest.mark.parametrize("dear", [(Ruling.WARN, 0.1), (Ruling.REVIEW, 0.1), (Ruling.ALLOW, 0.6)])
async def test_an_answer_in_doubt_clears_nothing(open_guard: Callable[..., Guard], dear: tuple[Ruling, float]) -> None:
    gates = {"cheap": saying("cheap", Ruling.REVIEW, 0.5), "dear": saying("dear", *dear)}
    decision = await open_guard(policy(("cheap",), GRAY), gates=gates).check("x", agent="ada")
    assert decision.ruling is Ruling.REVIEW and decision.settled == ()


async def test_a_dear_gate_that_fails_clears_nothing(open_guard: Callable[..., Guard]) -> None:
    def crash(_: Observation) -> None:
        raise ValueError("boom")

    stage = Stage(("dear", "other"), when="gray")
    gates = {
        "cheap": saying("cheap", Ruling.REVIEW, 0.5),
        "dear": saying("dear", Ruling.ALLOW, 0.0),
        "other": ScriptedGate(crash, "other"),
    }
    guard = open_guard(policy(("cheap",), stage, fail_mode=Ruling.ALLOW), gates=gates)
    decision = await guard.check("x", agent="ada")
    assert decision.ruling is Ruling.REVIEW and not decision.complete and decision.settled == ()


async def test_a_stage_that_may_not_clear_only_adds(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": saying("cheap", Ruling.REVIEW, 0.5), "dear": saying("dear", Ruling.ALLOW, 0.0)}
    stage = Stage(("dear",), when="gray", clears=False)
    decision = await open_guard(policy(("cheap",), stage), gates=gates).check("x", agent="ada")
    assert gates["dear"].asked and decision.ruling is Ruling.REVIEW and decision.settled == ()


async def test_a_stage_asked_about_everything_clears_nothing(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": saying("cheap", Ruling.REVIEW, 0.5), "dear": saying("dear", Ruling.ALLOW, 0.0)}
    for later in (("dear",), Stage(("dear",), when=When(sources=(SourceClass.AGENT_MESSAGE,)))):
        decision = await open_guard(policy(("cheap",), later), gates=gates).check("x", agent="ada")
        assert gates["dear"].asked and decision.ruling is Ruling.REVIEW


async def test_silence_of_a_cheap_gate_does_not_spare_the_dear_one(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": ScriptedGate(lambda _: None, "cheap"), "dear": saying("dear", Ruling.ALLOW, 0.0)}
    for stages in ((("cheap",), GRAY), (GRAY,)):
        decision = await open_guard(policy(*stages, fail_mode=Ruling.ALLOW), gates=gates).check("x", agent="ada")
        assert decision.runs[-1].status is RunStatus.RAN, "nobody said that it is not gray"


async def test_bands_and_sources(open_guard: Callable[..., Guard]) -> None:
    gates = {"cheap": saying("cheap", Ruling.ALLOW, 0.2), "dear": saying("dear", Ruling.ALLOW, 0.0)}
    cases: list[tuple[When, str, bool]] = [
        (When(risk=(0.1, 0.3)), "", True),
        (When(risk=(0.3, 0.9)), "outside 0.3 to 0.9", False),
        (When(sources=(SourceClass.DIRECT_USER,)), "", True),
        (When(sources=(SourceClass.SYSTEM,)), "source direct_user", False),
        (When(risk=(0.1, 0.3), sources=(SourceClass.SYSTEM,)), "source direct_user", False),
        (When(gray=True, sources=(SourceClass.DIRECT_USER,)), "not gray: allow at risk 0.20", False),
    ]
    for when, reason, runs in cases:
        guard = open_guard(policy(("cheap",), Stage(("dear",), when=when)), gates=gates)
        decision = await guard.check("x", agent="ada", source=SourceClass.DIRECT_USER)
        assert (decision.runs[1].status is RunStatus.RAN) is runs and reason in decision.runs[1].detail


async def test_a_gray_stage_past_the_budget_leaves_the_item_gray(open_guard: Callable[..., Guard]) -> None:
    gates = {
        "slow": ScriptedGate(lambda _: Ruling.REVIEW, "slow", delay_s=0.05),
        "dear": saying("dear", Ruling.ALLOW, 0),
    }
    guard = open_guard(policy(("slow",), GRAY, budget_s=0.051, timeout_s=0.05), gates=gates)
    decision = await guard.check("x", agent="ada")
    assert decision.ruling is Ruling.REVIEW and not decision.complete


def test_a_held_verdict_is_never_cleared() -> None:
    verdicts = tuple(
        Verdict(gate, "it", ruling, risk, (0.0, 1.0), "r")
        for gate, ruling, risk in (("a", Ruling.QUARANTINE, 0.5), ("b", Ruling.REVIEW, 0.5), ("c", Ruling.ALLOW, 0.0))
    )
    runs = tuple(GateRun(v.gate, RunStatus.RAN) for v in verdicts)
    decision = decide("it", Examination(verdicts, runs, frozenset({"c"})), ChannelPolicy(), 0.0)
    assert (decision.ruling, decision.rule) == (Ruling.QUARANTINE, "a:r")


def test_stages_are_read_from_a_table() -> None:
    given = {
        "channels": {
            "memory": {
                "gray": [0.2, 0.8],
                "stages": [
                    ["structure"],
                    {"gates": ["memory"], "when": "gray"},
                    {"gates": ["content"], "when": {"risk": [0.3, 0.7], "sources": ["agent_message"]}, "clears": False},
                ],
            }
        }
    }
    read = Policy.read(given).channels.memory
    assert read.gray == (0.2, 0.8)
    assert read.stages == (
        ("structure",),
        Stage(("memory",), when="gray"),
        Stage(("content",), When(risk=(0.3, 0.7), sources=(SourceClass.AGENT_MESSAGE,)), clears=False),
    )


@pytest.mark.parametrize(
    ("stage", "key", "allowed"),
    [
        ({"gates": ["memory"], "wen": "gray"}, "stages.0.wen", "did you mean 'when'?"),
        ({"gates": []}, "stages.0.gates", "at least 1"),
        ({"gates": ["memory"], "when": "grey"}, "stages.0.when", "'always' or 'gray'"),
        ({"gates": ["memory"], "when": {"grey": True}}, "stages.0.when.grey", "did you mean 'gray'?"),
        ({"gates": ["memory"], "when": {"risk": [0.7, 0.3]}}, "stages.0.when.risk", "the smaller one first"),
        ({"gates": ["memory"], "when": {"sources": ["web"]}}, "stages.0.when.sources.0", "'untrusted_document'"),
        (7, "stages.0", "array"),
    ],
)
def test_what_is_wrong_in_a_stage_is_named(stage: Any, key: str, allowed: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.read({"channels": {"tool": {"stages": [stage]}}})
    assert caught.value.key == f"channels.tool.{key}" and allowed in caught.value.allowed
