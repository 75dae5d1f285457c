"""Words on copies under attack: settling in the place of a label, words at the same moment, sources that were held
meanwhile, and a process that dies between a word and what follows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from tests.guard.test_words_that_count import MORE, Open, kept, listed, opened, visible

from lazaretto import Guard, Ruling
from lazaretto.errors import NotYours, RepairRefused
from lazaretto.testing import ScriptedGate

__all__ = ["opened"]  # the fixture


async def made(guard: Guard, text: str, *parents: str, agent: str = "eve") -> str:
    return (await guard.remember(text, agent=agent, parents=parents)).item


async def test_the_writer_of_a_condemned_copy_does_not_settle_it_free(opened: Open) -> None:
    guard = opened()
    older, first, mine = await kept(guard), await kept(guard), await kept(guard, agent="bob")
    other = await made(guard, "The crane is in berth two.")
    await guard.label(older, "benign", by="ana")
    await guard.label(first, "harmful", by="ana")
    with pytest.raises(NotYours):
        await guard.settle(first, over=other, by="bob")
    assert visible(guard, mine) == [False]


def condemn_meanwhile(guard: Guard, item: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Somebody calls an item harmful after the guard has looked who may speak of it; the list says that it happened."""
    look, tries = guard._core.alignment.copies_condemned_with, list[int]()

    def slowly(items: Sequence[str]) -> list[str]:
        found = look(items)
        if not tries:
            tries.append(1)
            guard._core.labels.label(item, "harmful", "ana")
        return found

    monkeypatch.setattr(guard._core.alignment, "copies_condemned_with", slowly)
    return tries


@pytest.mark.parametrize("how", ["label", "settle"])
async def test_nor_at_the_moment_when_it_is_condemned(opened: Open, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = opened()
    older, first, mine = await kept(guard), await kept(guard), await kept(guard, agent="bob")
    other = await made(guard, "The crane is in berth two.")
    await guard.label(older, "benign", by="ana")
    tries = condemn_meanwhile(guard, first, monkeypatch)
    acts: dict[str, Callable[[], Any]] = {
        "label": functools.partial(guard.label, first, "benign", by="bob"),
        "settle": functools.partial(guard.settle, first, over=other, by="bob"),
    }
    with pytest.raises(NotYours):
        await acts[how]()
    assert tries and visible(guard, first, mine) == [False, False]


@pytest.mark.parametrize("copied", [True, False])
async def test_what_was_only_observed_does_not_come_back_beside_a_held_source(opened: Open, copied: bool) -> None:
    watching = opened(mode="observe")
    source = await made(watching, "The vendor list is on the shared drive.")
    first = await kept(watching, parents=[] if copied else [source])
    same = await kept(watching, agent="eve", parents=[source])
    watching.close()
    guard = opened()
    event = await guard.label(first, "harmful", by="ana")
    await guard.label(source, "harmful", by="ana")
    done = await guard.unlabel(event.seq, by="ana")
    assert same in done.held and visible(guard, same, first) == [False, copied]
    await guard.label(source, "benign", by="ana")
    assert visible(guard, same, first) == [True, True]
    assert guard.ledger.verify().ok


@pytest.mark.parametrize("label", ["harmful", "benign"])
async def test_taking_back_a_word_shows_nothing_that_was_made_from_a_held_item(opened: Open, label: Any) -> None:
    guard = opened()
    source = await made(guard, "The vendor list is on the shared drive.")
    item = await made(guard, "The list of vendors names Acme first.", source)
    below = await made(guard, "Acme is our first vendor.", item)
    event = await guard.label(item, label, by="ana")
    await guard.label(source, "harmful", by="ana")
    done = await guard.unlabel(event.seq, by="ana")
    assert visible(guard, source, item, below) == [False] * 3 and item in done.held
    assert await listed(guard) == {item, below}
    await guard.label(source, "benign", by="ana")
    assert visible(guard, source, item, below) == [True] * 3
    assert guard.ledger.verify().ok


async def test_a_process_that_dies_holds_what_came_from_a_copy_first(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = opened()
    first, user = await kept(guard), await kept(guard, MORE)
    below = await made(guard, "They live at 12 Harbour Road.", user, agent="dan")
    await guard.label(first, "benign", by="ana")
    with monkeypatch.context() as dead:
        dead.setattr(guard._core.taints, "hold_what_came_from", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await guard.label(first, "harmful", by="ana")
    again = opened()
    await made(again, "The crane is in berth two.")
    assert visible(again, user, below) == [False, False]


async def test_nor_releases_what_is_called_harmful_at_that_moment(
    open_guard: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gates blocked it already: its state says nothing of the new word."""
    policy = {"preset": "minimal", "channels": {"memory": {"stages": [["orders"]]}}}
    guard = open_guard(policy, gates={"orders": ScriptedGate(lambda _: Ruling.BLOCK, "orders")})
    older, mine = await kept(guard), await kept(guard, agent="bob")
    await guard.label(older, "benign", by="ana")
    first = await kept(guard)
    assert visible(guard, mine, first) == [True, False]
    tries = condemn_meanwhile(guard, first, monkeypatch)
    with pytest.raises(RepairRefused):
        await guard.release(first, by="bob")
    assert tries and visible(guard, first, mine) == [False, False]


async def older_code(guard: Guard, monkeypatch: pytest.MonkeyPatch, *words: tuple[str, str]) -> None:
    """Words as older versions gave them: copies were not told that the last one is replaced."""
    with monkeypatch.context() as before:
        before.setattr(guard._core.lessons, "_align", lambda _items: None)
        before.setattr(guard._core.copies, "settled_with", lambda _item, _label: {})
        for item, label in words:
            await guard.label(item, label, by="ana")


@pytest.mark.parametrize("then", ["harmful", "benign"])
async def test_a_word_that_is_taken_back_shows_no_copy_that_was_blocked_before_it(
    opened: Open, then: Literal["harmful", "benign"], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = opened(mode="observe")  # where the gates let both be used
    first, copy = await kept(guard), await kept(guard, agent="bob", source="untrusted_document")
    await guard.label(first, "harmful", by="ana")
    assert visible(guard, copy) == [False]
    await older_code(guard, monkeypatch, (first, "benign"))
    assert visible(guard, first, copy) == [True, False], "left by older code"
    word = await guard.label(first, then, by="ben")
    assert visible(guard, copy) == [False], "nor does giving the word show it, which does not cover it"
    back = await guard.unlabel(word.seq, by="ben")
    assert visible(guard, copy) == [False] and copy not in back.restored
    assert copy in back.left
    await guard.label(copy, "benign", by="ana")
    assert visible(guard, copy) == [True], "a word on the copy itself settles it"


async def test_two_words_taken_back_one_after_the_other_show_their_copy(opened: Open) -> None:
    guard = opened(mode="observe")
    one, other, copy = await kept(guard), await kept(guard), await kept(guard, agent="bob")
    words = [await guard.label(item, "harmful", by="ana") for item in (one, other)]
    for word in reversed(words):
        assert visible(guard, copy) == [False]
        await guard.unlabel(word.seq, by="ana")
    assert visible(guard, copy) == [True]
