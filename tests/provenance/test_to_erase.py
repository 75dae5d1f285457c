"""A person's data: what one agent wrote, and what others made from it, is listed first and then erased."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard, Policy
from lazaretto.errors import InputError, UnknownItem

PHONE = "Ann's number is 555 0199"


@pytest.fixture
async def crew(open_guard: Callable[..., Guard], store_url: str) -> tuple[Guard, dict[str, str]]:
    guard = open_guard(Policy.minimal(), store=store_url)
    note = await guard.remember(PHONE, agent="ann")
    copied = await guard.remember(f"To call: {PHONE}", agent="bob", parents=[note.item])
    further = await guard.remember("The list of numbers to call", agent="cy", parents=[copied.item])
    sent = await guard.exchange("I moved to Elm Street 4", sender="ann", receiver="bob")
    other = await guard.remember("The harbour opens at six", agent="bob", parents=[])
    told = await guard.report("called nobody", agent="ann", success=True)
    ids = {"note": note.item, "copied": copied.item, "further": further.item, "sent": sent.item, "told": told}
    return guard, {**ids, "other": other.item}


async def test_an_agents_items_go_with_what_was_made_from_them(crew: tuple[Guard, dict[str, str]]) -> None:
    guard, ids = crew
    own = await guard.to_erase(agent="ann")
    assert {*own} == {ids["note"], ids["sent"], ids["told"]}, "items and reported decisions"
    every = await guard.to_erase(agent="ann", descendants=True)
    assert {*every} == {*own, ids["copied"], ids["further"]} and len(every) == 5
    assert guard.ledger.item(ids["note"]).text == PHONE, "a list changes nothing"
    for one in every:
        await guard.erase(one, reason="Ann asked", by="dan")
    assert all(not guard.ledger.item(ids[name]).text for name in ("note", "copied", "further", "sent"))
    assert guard.ledger.item(ids["other"]).text, "an honest neighbour stays"
    assert guard.ledger.verify().ok and await guard.to_erase(agent="ann", descendants=True) == ()


async def test_one_item_and_what_was_made_from_it(crew: tuple[Guard, dict[str, str]]) -> None:
    guard, ids = crew
    assert await guard.to_erase(ids["note"]) == (ids["note"],)
    assert await guard.to_erase(ids["note"], descendants=True) == (ids["note"], ids["copied"], ids["further"])
    await guard.erase(ids["note"], reason="Ann asked")
    assert await guard.to_erase(ids["note"], descendants=True) == (ids["copied"], ids["further"]), "also begun before"


async def test_a_wrong_question_is_refused(crew: tuple[Guard, dict[str, str]]) -> None:
    guard, ids = crew
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "item"), ({"item": ids["note"], "agent": "ann"}, "agent"), ({"agent": "an"}, "agent"),
    )  # fmt: skip
    for given, field in wrong:
        with pytest.raises(InputError) as caught:
            await guard.to_erase(**given)
        assert caught.value.field == field, given
    with pytest.raises(UnknownItem):
        await guard.to_erase("it_nowhere")
