"""Brief gates of a stage share a thread, and one of them that hangs or fails keeps no other from answering."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lazaretto import Guard, Policy, Ruling
from lazaretto.gates.engine.runner import BRIEF_CHARACTERS, GateCrash, GateSlot, _within
from lazaretto.policy import ChannelPolicy, Channels
from lazaretto.policy.plugins import GATES
from lazaretto.testing import ScriptedGate
from lazaretto.types import Channel, RunStatus


def policy(*stages: tuple[str, ...], **more: Any) -> Policy:
    rules = ChannelPolicy(stages=stages, **more)
    return replace(Policy.minimal(), channels=Channels(**{c.value: rules for c in Channel}))


def briefly(gate: ScriptedGate) -> ScriptedGate:
    gate.brief = True  # type: ignore[attr-defined]
    return gate


async def test_brief_gates_of_a_stage_share_a_thread(open_guard: Callable[..., Guard]) -> None:
    threads: dict[str, str] = {}

    def gate(name: str) -> ScriptedGate:
        def rule(_: Any) -> Ruling:
            threads[name] = threading.current_thread().name
            return Ruling.ALLOW

        return ScriptedGate(rule, name)

    gates = {"one": briefly(gate("one")), "two": briefly(gate("two")), "three": gate("three")}
    alone, mixed = policy(("one", "two")), policy(("one", "three"))
    runs = (await open_guard(alone, gates=gates).check("x", agent="ada")).runs
    assert [(run.gate, run.status) for run in runs] == [("one", RunStatus.RAN), ("two", RunStatus.RAN)]
    assert threads == {"one": "lazaretto-brief", "two": "lazaretto-brief"}
    await open_guard(alone, gates=gates).check("x" * (BRIEF_CHARACTERS + 1), agent="ada")
    assert threads == {"one": "lazaretto-one", "two": "lazaretto-two"}
    await open_guard(mixed, gates=gates).check("x", agent="ada")
    assert threads["one"] == "lazaretto-one" and threads["three"] == "lazaretto-three"


async def test_a_brief_gate_that_hangs_or_fails_is_the_only_one_that_does(open_guard: Callable[..., Guard]) -> None:
    let_go = threading.Event()
    gates = {
        "hung": briefly(ScriptedGate(lambda _: let_go.wait(60) and Ruling.ALLOW, "hung")),
        "good": briefly(ScriptedGate(name="good")),
        "broken": briefly(ScriptedGate(lambda _: 1 / 0, "broken")),
    }
    guard = open_guard(policy(("hung", "good", "broken"), timeout_s=0.2), gates=gates)
    for n in range(6):
        runs = (await guard.check(f"x{n}", agent="ada")).runs
        status = RunStatus.TIMED_OUT if n < 4 else RunStatus.FAILED
        assert [run.status for run in runs] == [status, RunStatus.RAN, RunStatus.FAILED]
        assert "ZeroDivisionError" in runs[2].detail
    let_go.set()


async def test_a_thread_that_was_ended_under_an_items_hands_gives_no_answer() -> None:
    """Another item left it behind, and it ended before this one's time was up."""
    slot = GateSlot("gone", None)
    worker = slot.worker()

    async def ends() -> None:
        worker.loop.stop()
        await asyncio.sleep(60)

    with pytest.raises((TimeoutError, GateCrash)):
        await _within(slot, worker, ends(), 0.2)
    assert slot.worker() is not worker
    slot.close()


def test_the_gates_that_need_no_model_are_brief() -> None:
    brief = {name for name in ("structure", "blocklist", "protected", "secrets") if GATES.factory(name)({}).brief}
    assert brief == {"structure", "blocklist", "protected", "secrets"}
