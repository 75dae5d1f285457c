"""Repairs beside busy writers, and undoing in an order that somebody might try: on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lazaretto import Guard, RepairRefused, StaleState
from lazaretto.ledger import ItemState, Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, Ruling


def many(ledger: Ledger, count: int) -> str:
    """A note with so many more made from it; the note's id."""
    notes = [Observation("ada", Channel.MEMORY, "the root", id="root")]
    notes += [Observation("bob", Channel.MEMORY, f"note {n}", id=f"n{n}", parents=("root",)) for n in range(count)]
    ledger.append([seen_draft(note) for note in notes])
    return "root"


async def test_a_writer_who_never_stops_does_not_stop_a_repair(
    open_guard: Callable[..., Guard], store_url: str
) -> None:
    guard = open_guard(store=store_url)
    root = many(guard.ledger, 300)
    stop, written = threading.Event(), [0]

    def write() -> None:
        with Ledger.open(store_url) as other:
            while not stop.wait(0.01):
                other.append([Draft(EventKind.NOTED, "weather", body={"n": written[0]})])
                written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        receipts = []
        for _ in range(2):
            before = written[0]
            plan = await guard.repairs.plan(root, "isolate", descendants=True)
            receipt = await guard.repairs.apply(plan)
            receipts.append((len(receipt.after), written[0] > before))
            await guard.repairs.undo(receipt.id)
    finally:
        stop.set()
        writer.join()
    assert [n for n, _ in receipts] == [301] * 2 and any(busy for _, busy in receipts)
    assert guard.ledger.verify().ok


async def test_undoing_the_first_of_three_repairs_does_not_show_the_item(
    open_guard: Callable[..., Guard], store_url: str
) -> None:
    guard = open_guard(store=store_url)
    note = (await guard.remember("the gate code is 1234", agent="ada")).item
    first = await guard.repairs.apply(await guard.repairs.plan(note, "isolate"))
    second = await guard.release(note)
    third = await guard.repairs.apply(await guard.repairs.plan(note, "isolate"))
    with pytest.raises(RepairRefused, match="undo that one first"):
        await guard.repairs.undo(first.id)
    assert guard.ledger.state(note).hidden
    for receipt in (third, second, first):
        await guard.repairs.undo(receipt.id)
    assert not guard.ledger.state(note).hidden


async def test_a_repair_that_comes_between_is_noticed_by_an_undo(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    note = (await guard.remember("one", agent="ada")).item
    child = (await guard.remember("two", agent="bob", parents=[note])).item
    other = (await guard.remember("three", agent="cy")).item
    receipt = await guard.repairs.apply(await guard.repairs.plan(note, "isolate"))
    append, done = guard.ledger.append, []
    plan = await guard.repairs.plan(other, "isolate")
    again = await guard.repairs.plan(child, "isolate")

    def overtaken(drafts: list[Draft], **more: object) -> object:
        if not done:
            done.append(True)
            for one in (plan, again):
                guard.run(guard.repairs.apply(one))
        return append(drafts, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(guard.ledger, "append", overtaken)
    await guard.repairs.undo(receipt.id)  # they touch other items: it looks again, and goes on
    assert not guard.ledger.state(note).hidden and guard.ledger.state(child).hidden


def test_an_append_is_refused_when_an_item_it_rests_on_has_changed(ledger: Ledger) -> None:
    ledger.append_item(Observation("ada", Channel.MEMORY, "one", id="one"))
    seen = ledger.states(["one", "unknown"])
    assert seen == {"one": ItemState()}
    ledger.append([Draft(EventKind.NOTED, "x")], states=seen)
    ledger.append([Draft(EventKind.RULED, "one", body={"ruling": "block"})], states=seen)
    with pytest.raises(StaleState) as caught:
        ledger.append([Draft(EventKind.NOTED, "y")], states=seen)
    assert caught.value.item == "one"
    with pytest.raises(StaleState):
        ledger.append([Draft(EventKind.NOTED, "y")], states={"unknown": ItemState()})
    assert ledger.states(["one"])["one"].ruling is Ruling.BLOCK
    assert not list(ledger.events(subject="y")) and ledger.verify().ok
