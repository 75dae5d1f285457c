"""What a word does to copies once another follows, it is taken back, or its item is erased; and who may do that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard, Ruling
from lazaretto.errors import NotYours, RepairRefused
from lazaretto.identity import Identity, ProvedBy
from lazaretto.ledger import Ledger
from lazaretto.testing import ScriptedGate

MOVED = "We have moved! Our new address is 12 Harbour Road from the first of May on."
POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["blocklist"], ["orders"]]}}}
Open = Callable[..., Guard]
LESS, MORE = "untrusted_document", "direct_user"


@pytest.fixture
def opened(open_guard: Open, store_url: str) -> Open:
    """Opens guards on one store, of either kind."""

    def make(namespace: str = "default", **more: Any) -> Guard:
        gate = ScriptedGate(lambda one: Ruling.REVIEW if "moved" in one.text else Ruling.ALLOW, "orders")
        return open_guard({**POLICY, **more}, namespace, store=store_url, gates={"orders": gate})

    return make


async def kept(guard: Guard, source: str = "agent_message", agent: str = "ada", **more: Any) -> str:
    return (await guard.remember(MOVED, agent=agent, source=source, **more)).item


async def listed(guard: Guard) -> set[str]:
    return {item for one in await guard.held() for item in (one.id, *one.copies)}


def visible(guard: Guard, *items: str) -> list[bool]:
    return [guard.ledger.state(item).visible for item in items]


async def test_harmful_then_benign_lets_less_trusted_copies_wait_again(opened: Open) -> None:
    guard = opened()
    first, page, same = await kept(guard), await kept(guard, LESS), await kept(guard)
    await guard.label(first, "harmful", by="ana")
    assert not await listed(guard)
    await guard.label(first, "benign", by="ana")
    assert visible(guard, first, same, page) == [True, True, False]
    assert await listed(guard) == {page} and guard.ledger.state(page).ruling is Ruling.REVIEW
    assert guard.ledger.verify().ok


async def test_benign_then_harmful_holds_more_trusted_copies_at_once(opened: Open) -> None:
    guard = opened()
    first, user = await kept(guard), await kept(guard, MORE)
    made = (await guard.remember("They live at 12 Harbour Road.", agent="dan", parents=[user])).item
    await guard.label(first, "benign", by="ana")
    assert visible(guard, user, made) == [True, True]
    await guard.label(first, "harmful", by="ana")
    assert visible(guard, user, made) == [False, False], "and what was made from it"
    assert await listed(guard) == {user, made}, "nobody has spoken of it"


async def test_release_replaces_a_word_as_a_label_does_and_undo_brings_it_back(opened: Open) -> None:
    guard = opened()
    first, page = await kept(guard), await kept(guard, LESS)
    await guard.label(first, "harmful", by="ana")
    receipt = await guard.release(first, by="ana")
    assert guard.ledger.state(page).ruling is Ruling.REVIEW and await listed(guard) == {page}
    await guard.repairs.undo(receipt.id)
    assert [guard.ledger.state(one).ruling for one in (first, page)] == [Ruling.BLOCK] * 2
    assert not await listed(guard)


@pytest.mark.parametrize("label", ["benign", "harmful"])
async def test_a_word_on_an_erased_item_can_be_taken_back(opened: Open, label: Any) -> None:
    guard = opened()
    first, same = await kept(guard), await kept(guard)
    event = await guard.label(first, label, by="ana")
    await guard.erase(first, reason="asked")
    done = await guard.unlabel(event.seq, by="ana")
    assert done.restored == (same,) and done.label == label
    assert guard.ledger.state(same).ruling is Ruling.REVIEW and await listed(guard) == {same}
    with pytest.raises(RepairRefused, match="already"):
        await guard.unlabel(event.seq, by="ana")
    assert guard.ledger.verify().ok


async def test_the_next_word_reaches_copies_of_an_erased_item(opened: Open) -> None:
    guard = opened()
    first, *others = [await kept(guard) for _ in range(3)]
    await guard.label(first, "benign", by="ana")
    await guard.erase(first, reason="asked")
    await guard.label(others[0], "harmful", by="ana")
    assert visible(guard, *others) == [False, False]


async def test_two_people_at_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """One calls an item harmful; while its copies are looked up, another says that a copy is fine."""
    guard = opened()
    first, same = await kept(guard), await kept(guard)
    copies = guard._core.copies
    look, tries = copies.settled_with, list[Any]()

    def slowly(item: Any, label: str) -> Any:
        found = look(item, label)
        if label == "harmful" and not tries:
            tries.append(item)
            guard._core.labels.label(same, "benign", "ben")
        return found

    monkeypatch.setattr(copies, "settled_with", slowly)
    event = await guard.label(first, "harmful", by="ana")
    assert tries and "copies" not in (event.body or {})
    assert visible(guard, first, same) == [False, True], "what somebody looked at is not overturned"


async def test_a_release_takes_no_copies_that_a_label_would_not(opened: Open) -> None:
    guard = opened()
    first, page, same = await kept(guard), await kept(guard, LESS), await kept(guard)
    source = (await guard.remember("The vendor list is on the shared drive.", agent="eve")).item
    made = await kept(guard, parents=[source])
    await guard.label(source, "harmful", by="ana")
    plan = await guard.repairs.plan(first, "release", copies=[page, same, made])
    assert {step.item for step in plan.steps} == {first, same}


@pytest.mark.parametrize("cleared", [True, False])
async def test_a_taint_between_does_not_hide_that_the_word_is_gone(opened: Open, cleared: bool) -> None:
    """A copy is cleared by a word, held for its source, and the source is cleared after or before that word is gone."""
    guard = opened()
    source = (await guard.remember("The vendor list is on the shared drive.", agent="eve")).item
    first, made = await kept(guard, parents=[]), await kept(guard, agent="eve", parents=[source])
    event = await guard.label(first, "benign", by="ana")
    await guard.label(source, "harmful", by="ana")
    assert visible(guard, first, made) == [True, False]
    if cleared:
        await guard.label(source, "benign", by="ana")
        assert visible(guard, made) == [True]
    await guard.unlabel(event.seq, by="ana")
    if not cleared:
        await guard.label(source, "benign", by="ana")
    assert visible(guard, source, first, made) == [True, False, False]
    assert await listed(guard) == {first, made}


async def test_a_release_is_not_undone_under_a_label(opened: Open) -> None:
    guard = opened()
    first = await kept(guard)
    receipt = await guard.release(first, by="ana")
    event = await guard.label(first, "benign", by="ana")
    with pytest.raises(RepairRefused, match="labelled since"):
        await guard.repairs.undo(receipt.id)
    await guard.unlabel(event.seq, by="ana")
    await guard.repairs.undo(receipt.id)
    assert visible(guard, first) == [False]


async def test_a_list_that_was_open_sees_the_first_withdrawal(opened: Open) -> None:
    guard = opened()
    first, same = await kept(guard), await kept(guard)
    event = await guard.label(first, "harmful", by="ana")
    assert not await listed(guard)
    await guard.unlabel(event.seq, by="ana")
    assert await listed(guard) == {first, same}


async def test_what_a_dead_process_left_is_finished(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = opened()
    first, page = await kept(guard), await kept(guard, LESS)
    await guard.label(first, "harmful", by="ana")
    with monkeypatch.context() as dead:
        dead.setattr(guard._core.lessons, "_align", lambda _items: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await guard.label(first, "benign", by="ana")
    assert guard.ledger.state(page).ruling is Ruling.BLOCK
    again = opened()
    await again.remember("The crane is in berth two.", agent="ada")
    assert again.ledger.state(page).ruling is Ruling.REVIEW and await listed(again) == {page}


async def test_the_writer_of_a_copy_does_not_take_back_what_condemned_it(opened: Open) -> None:
    """An honest word stands that an older one would clear his copy with: he gets at it in no way."""
    guard = opened()
    older, first, mine = await kept(guard), await kept(guard), await kept(guard, agent="bob")
    await guard.label(older, "benign", by="ana")
    event = await guard.label(first, "harmful", by="ana")
    assert visible(guard, mine) == [False]
    bob = Identity(ProvedBy.KEY, "key", ("bob",))
    for by, caller in (("bob", None), ("carol", bob)):
        for word in ("benign", "harmful"):
            with pytest.raises(NotYours):
                await guard.label(first, word, by=by, caller=caller)
        with pytest.raises(NotYours):
            await guard.unlabel(event.seq, by=by, caller=caller)
        with pytest.raises(NotYours):
            await guard.release(first, by=by, caller=caller)
    await guard.erase(first, reason="asked")
    with pytest.raises(NotYours):
        await guard.unlabel(event.seq, by="bob")
    assert visible(guard, mine) == [False]
    await guard.unlabel(event.seq, by="ana")
    assert visible(guard, mine) == [True], "ana's first word holds again"


async def test_a_less_trusted_copy_moves_nothing_above_it(opened: Open) -> None:
    """Whoever gets a word on a page that copies a note changes nothing for the note."""
    guard = opened()
    note, page = await kept(guard), await kept(guard, LESS, "eve")
    await guard.label(page, "harmful", by="ana")
    assert guard.ledger.state(note).ruling is Ruling.REVIEW and await listed(guard) == {note}
    user = await kept(guard, MORE)
    await guard.label(user, "benign", by="ana")
    assert visible(guard, note, page) == [False, False]


async def test_words_do_not_leave_their_tenant(opened: Open) -> None:
    mine, theirs = opened("mine"), opened("theirs")
    first, other = await kept(mine), await kept(theirs)
    await mine.label(first, "harmful", by="ana")
    await mine.label(first, "benign", by="ana")
    assert theirs.ledger.state(other).ruling is Ruling.REVIEW and await listed(theirs) == {other}


@pytest.mark.parametrize("label", ["benign", "harmful"])
async def test_taking_back_reads_no_more_per_copy_when_there_are_more(
    opened: Open, label: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = Ledger.events

    def counted(self: Ledger, **more: Any) -> Any:
        for event in read(self, **more):
            reads[-1] += 1
            yield event

    for namespace, count in (("few", 10), ("many", 40)):
        guard = opened(namespace)
        items = [await kept(guard) for _ in range(count)]
        event = await guard.label(items[0], label, by="ana")
        reads.append(0)
        with monkeypatch.context() as counting:
            counting.setattr(Ledger, "events", counted)
            done = await guard.unlabel(event.seq, by="ana")
        assert set(done.restored) == set(items) and not done.left
    assert reads[1] < 6 * reads[0], reads
