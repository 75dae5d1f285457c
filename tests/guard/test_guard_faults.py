"""Whatever a gate or the store does, the guard answers or says clearly why not, and goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Guard, Policy, Ruling, StoreUnavailable
from lazaretto.errors import MissingExtra
from lazaretto.policy import ChannelPolicy, Channels
from lazaretto.policy.plugins import GATES
from lazaretto.testing import ScriptedGate
from lazaretto.types import Channel, Cost, Evidence, RunStatus, Verdict


def policy(*stages: tuple[str, ...], **more: Any) -> Policy:
    rules = ChannelPolicy(stages=stages, **more)
    return replace(Policy.minimal(), channels=Channels(**{c.value: rules for c in Channel}))


def verdict(**change: Any) -> Callable[[Any], Verdict]:
    def make(observation: Any) -> Verdict:
        sound = Verdict("bad", observation.id, Ruling.ALLOW, 0.1, (0.0, 0.2), "rule")
        return replace(sound, **change)

    return make


def raising(error: BaseException) -> Callable[[Any], Any]:
    def script(_: Any) -> Any:
        raise error

    return script


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


BROKEN: dict[str, Callable[[Any], Any]] = {
    "crash": raising(ValueError("boom")),
    "unprintable": raising(Unprintable()),
    "exit": raising(SystemExit(3)),
    "interrupt": raising(KeyboardInterrupt()),
    "cancelled": raising(asyncio.CancelledError()),
    "generator exit": raising(GeneratorExit()),
    "nothing": lambda _: None,
    "text": lambda _: "allow",
    "nan": verdict(risk=float("nan")),
    "seven": verdict(risk=7.0),
    "words": verdict(risk="low"),
    "truth": verdict(risk=True),
    "interval": verdict(interval=(0.9, 0.1)),
    "short interval": verdict(interval=(0.9,)),
    "no interval": verdict(interval=None),
    "ruling": verdict(ruling=0),
    "other gate": verdict(gate="structure"),
    "other item": verdict(subject="it_other"),
    "negative cost": verdict(cost=Cost(ms=-1)),
    "infinite cost": verdict(cost=Cost(tokens=float("inf"))),  # type: ignore[arg-type]
    "evidence": verdict(evidence=("because",)),
    "no evidence": verdict(evidence=None),
    "unserialisable": verdict(evidence=(Evidence("measure", "x", {"f": object()}),)),
    "surrogate": verdict(rule="\ud800"),
    "endless": verdict(evidence=(Evidence("measure", "x" * 2_000_000),)),
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_broken_gate_is_not_an_opinion(open_guard: Callable[..., Guard], fault: str) -> None:
    guard = open_guard(
        policy(("bad", "good")), gates={"bad": ScriptedGate(BROKEN[fault], "bad"), "good": ScriptedGate(name="good")}
    )
    decision = await guard.check("anything", agent="ada")
    assert decision.ruling is Ruling.REVIEW and not decision.complete and not decision.allowed
    assert decision.rule == "fail:bad:failed" and decision.interval[1] == 1.0
    assert {r.gate: r.status for r in decision.runs} == {"bad": RunStatus.FAILED, "good": RunStatus.RAN}
    assert decision.runs[0].detail
    assert guard.ledger.state(decision.item).ruling is Ruling.REVIEW
    assert (await guard.check("again", agent="ada")).runs[1].status is RunStatus.RAN


@pytest.mark.parametrize("mode", list(Ruling))
async def test_the_fail_mode_is_the_policys(open_guard: Callable[..., Guard], mode: Ruling) -> None:
    strict = ScriptedGate(lambda _: Ruling.WARN, "strict")
    guard = open_guard(
        policy(("bad", "strict"), fail_mode=mode), gates={"bad": ScriptedGate(BROKEN["crash"], "bad"), "strict": strict}
    )
    decision = await guard.check("x", agent="ada")
    assert decision.ruling is max(mode, Ruling.WARN) and not decision.complete
    assert strict.learned == [(decision.item, Ruling.WARN)], "a failed gate teaches nothing: only verdicts count"


async def test_a_slow_gate_times_out_and_the_others_are_heard(open_guard: Callable[..., Guard]) -> None:
    gates = {"slow": ScriptedGate(name="slow", delay_s=30), "good": ScriptedGate(name="good")}
    guard = open_guard(policy(("slow", "good"), timeout_s=0.1), gates=gates)
    started = time.monotonic()
    decision = await guard.check("x", agent="ada")
    assert time.monotonic() - started < 10
    assert [r.status for r in decision.runs] == [RunStatus.TIMED_OUT, RunStatus.RAN]


async def test_a_gate_that_blocks_its_thread_hangs_nobody(open_guard: Callable[..., Guard]) -> None:
    let_go = threading.Event()
    gates = {
        "hung": ScriptedGate(lambda _: let_go.wait(60) and Ruling.ALLOW, "hung"),
        "good": ScriptedGate(name="good"),
    }
    guard = open_guard(policy(("hung", "good"), timeout_s=0.1), gates=gates)
    statuses = [(await guard.check(f"x{n}", agent="ada")).runs for n in range(6)]
    assert [runs[1].status for runs in statuses] == [RunStatus.RAN] * 6
    assert [runs[0].status for runs in statuses] == [RunStatus.TIMED_OUT] * 4 + [RunStatus.FAILED] * 2
    assert "still hang" in statuses[-1][0].detail, "a gate that leaves threads hanging is refused, not given more"
    let_go.set()
    for _ in range(100):
        runs = (await guard.check("after", agent="ada")).runs
        if runs[0].status is RunStatus.RAN:
            break
        await asyncio.sleep(0.05)
    assert runs[0].status is RunStatus.RAN, "once the threads came back, the gate is asked again"


async def test_a_missing_gate_is_visible(open_guard: Callable[..., Guard], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: Any) -> Any:
        raise MissingExtra("the jury", "models")

    monkeypatch.setattr(type(GATES), "factory", lambda self, name: absent)
    guard = open_guard(policy(("structure",)))
    decision = await guard.check("x", agent="ada")
    assert (decision.ruling, decision.rule) == (Ruling.REVIEW, "fail:structure:missing")
    assert "lazaretto[models]" in decision.runs[0].detail


async def test_a_gate_that_does_not_understand_the_channel_is_missing(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard(policy(("ears",)), gates={"ears": ScriptedGate(name="ears", channels=[Channel.MESSAGE])})
    assert (await guard.check("x", agent="ada")).allowed
    decision = await guard.remember("x", agent="ada")
    assert decision.runs[0].status is RunStatus.MISSING and decision.ruling is Ruling.REVIEW


async def test_budgets(open_guard: Callable[..., Guard]) -> None:
    def spends(observation: Any) -> Verdict:
        return Verdict("dear", observation.id, Ruling.ALLOW, 0.1, (0, 0.2), "r", cost=Cost(tokens=100, calls=1))

    gates = {
        "dear": ScriptedGate(spends, "dear"),
        "slow": ScriptedGate(name="slow", delay_s=20),
        "late": ScriptedGate(name="late"),
    }
    tokens = open_guard(policy(("dear",), ("late",), budget_tokens=100), "t", gates=gates)
    decision = await tokens.check("x", agent="ada")
    assert [r.status for r in decision.runs] == [RunStatus.RAN, RunStatus.OVER_BUDGET]
    assert decision.ruling is Ruling.REVIEW and decision.cost.tokens == 100 and decision.cost.calls == 1
    assert gates["dear"].contexts[0].budget.tokens == 100
    clock = open_guard(policy(("slow",), ("late",), budget_s=0.1), "c", gates=gates)
    decision = await clock.check("x", agent="ada")
    assert [r.status for r in decision.runs] == [RunStatus.OVER_BUDGET, RunStatus.OVER_BUDGET]


async def test_stages_see_earlier_verdicts_and_a_block_ends_them(open_guard: Callable[..., Guard]) -> None:
    gates = {
        "first": ScriptedGate(lambda o: Ruling.BLOCK if "bad" in o.text else Ruling.WARN, "first"),
        "second": ScriptedGate(name="second"),
    }
    guard = open_guard(policy(("first",), ("second",)), gates=gates)
    await guard.check("fine", agent="ada")
    assert [v.gate for v in gates["second"].contexts[0].earlier] == ["first"]
    blocked = await guard.check("bad", agent="ada")
    assert [r.status for r in blocked.runs] == [RunStatus.RAN, RunStatus.SKIPPED]
    assert blocked.complete and blocked.rule == "first:scripted"


async def test_gates_of_one_stage_run_at_the_same_time(open_guard: Callable[..., Guard]) -> None:
    meeting = threading.Barrier(2, timeout=20)
    gates = {n: ScriptedGate(lambda _: meeting.wait() >= 0 and Ruling.ALLOW, n) for n in ("one", "two")}
    guard = open_guard(policy(("one", "two"), timeout_s=25), gates=gates)
    assert (await guard.check("x", agent="ada")).complete, "each waits for the other: one after the other would hang"


async def test_cancelling_a_check_records_nothing_and_harms_nothing(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard(policy(("slow",), timeout_s=60), gates={"slow": ScriptedGate(name="slow", delay_s=30)})
    task = asyncio.create_task(guard.check("x", agent="ada"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert guard.ledger.head().seq == 0
    other = open_guard(namespace="other")
    assert (await other.check("x", agent="ada")).allowed


async def test_a_learner_that_fails_does_not_fail_the_call(
    open_guard: Callable[..., Guard], caplog: pytest.LogCaptureFixture
) -> None:
    gate = ScriptedGate(name="pupil")
    gate.learn = lambda *_: (_ for _ in ()).throw(RuntimeError("no memory"))  # type: ignore[method-assign]
    guard = open_guard(policy(("pupil",)), gates={"pupil": gate})
    assert (await guard.check("x", agent="ada")).allowed
    assert "failed to learn" in caplog.text


async def test_without_its_store_the_guard_fails_closed_and_comes_back(
    open_guard: Callable[..., Guard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = open_guard()
    before = await guard.remember("before the storm", agent="ada")
    store = guard.ledger._store
    with monkeypatch.context() as broken:
        broken.setattr(store, "read_only", True)
        for call in (
            guard.check("x", agent="ada"),
            guard.remember("x", agent="ada"),
            guard.exchange("x", sender="ada", receiver="bob"),
            guard.report("x", agent="ada"),
            guard.label(before.item, "harmful", by="carol"),
            guard.appeal(before.item, "why", by="ada"),
            guard.recall("storm", agent="ada"),
        ):
            with pytest.raises(StoreUnavailable):
                await call
    after = await guard.remember("after the storm", agent="ada")
    assert after.allowed and guard.ledger.verify().ok
    assert {r.id for r in await guard.recall("storm", agent="bob")} == {before.item, after.item}
