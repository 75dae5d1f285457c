"""Many calls at once, and calls that are given up: nobody waits for ever, and nothing stays locked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lazaretto import Channel, Guard, Observation, Ruling, Verdict
from lazaretto.gates.engine.one_at_a_time import OneAtATime
from lazaretto.gates.protocol import GateContext

Open = Callable[..., Guard]
POLICY = {"channels": {"memory": {"stages": [["slow"]]}}}


class Slow:
    """Answers once it is let go."""

    name = "slow"
    channels = frozenset(Channel)

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.asked = threading.Event()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        self.asked.set()
        while not self.go.is_set():
            await asyncio.sleep(0.001)
        return Verdict(self.name, observation.id, Ruling.ALLOW, 0.0, (0.0, 1.0), "slow")


async def test_forty_tends_at_once_all_end(open_guard: Open) -> None:
    """More than the guard has threads for its store: each used to take one of them to wait for its turn."""
    guard = open_guard(POLICY, gates={"slow": Slow()})
    for place in range(3):
        await guard.remember(f"Tank {place} is full.", agent="ada", parents=[])
    done = await asyncio.wait_for(asyncio.gather(*(guard.recheck() for _ in range(40))), 60)
    assert sum(one.looked for one in done) == 3
    assert (await guard.remember("And on it goes.", agent="ada")).allowed


async def test_a_tend_that_is_cancelled_while_it_waits_leaves_nothing_locked(open_guard: Open) -> None:
    gate = Slow()
    guard = open_guard(POLICY, gates={"slow": gate})
    await guard.remember("Tank 1 is full.", agent="ada", parents=[])
    gate.go.clear()
    gate.asked.clear()
    first = asyncio.create_task(guard.recheck())
    assert await asyncio.to_thread(gate.asked.wait, 30)
    waiting = [asyncio.create_task(guard.recheck()) for _ in range(3)]
    await asyncio.sleep(0.05)
    for one in waiting:
        one.cancel()
    assert all(
        isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*waiting, return_exceptions=True)
    )
    gate.go.set()
    assert (await asyncio.wait_for(first, 30)).looked == 1
    assert (await asyncio.wait_for(guard.recheck(), 30)).looked == 0


async def test_a_tend_that_is_cancelled_at_work_lets_the_next_one_in(open_guard: Open) -> None:
    gate = Slow()
    guard = open_guard(POLICY, gates={"slow": gate})
    await guard.remember("Tank 1 is full.", agent="ada", parents=[])
    gate.go.clear()
    gate.asked.clear()
    first = asyncio.create_task(guard.recheck())
    assert await asyncio.to_thread(gate.asked.wait, 30)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.go.set()
    assert (await asyncio.wait_for(guard.recheck(), 30)).looked == 1


def test_tasks_of_several_loops_take_turns() -> None:
    turns, inside, most = OneAtATime("test"), 0, 0

    async def enter() -> None:
        nonlocal inside, most
        async with turns:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.002)
            inside -= 1

    async def several() -> None:
        await asyncio.gather(*(enter() for _ in range(5)))

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1 and inside == 0 and not any(thread.is_alive() for thread in threads)


async def test_a_name_of_a_write_that_has_no_ruling_yet_is_an_error_not_a_crash(guard: Guard) -> None:
    """An item that came without a ruling (from an import, say): its ruling was looked for with ``next``."""
    first = await guard.remember("Tank 1 is full.", agent="ada")
    bare = replace(guard.ledger.item(first.item), id="it_bare")
    guard.ledger.append_item(bare, [])
    assert guard._core.recorder.earlier_decision(bare, {}) is None


async def test_the_library_that_is_live_answers_and_an_old_one_is_let_go(
    open_guard: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lazaretto.cases.records import InputKind
    from lazaretto.gates.content import gate

    made: list[str] = []

    class Library:
        def __init__(self, version: str) -> None:
            made.append(version)
            self.version = version

        def nearest(self, *_: Any) -> tuple[str, ...]:
            return (self.version,)

    monkeypatch.setattr(gate, "live_library", lambda book, _: Library(book.live))
    library: Any = gate.LiveLibrary(open_guard().ledger)
    book = library._kept[0]
    for place in range(5):
        for _ in range(2):
            assert library.nearest("words", InputKind.TEXT, 3) == (book.live,)
        book._versions[f"v{place}"] = book._versions["starter"]
        book._live.append(f"v{place}")
    assert made == ["starter", "v0", "v1", "v2", "v3"]
