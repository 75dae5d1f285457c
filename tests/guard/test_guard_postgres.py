"""The guard on PostgreSQL: the same story as on SQLite, and a server that goes away and comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard, Ruling, StoreUnavailable


@pytest.mark.slow
async def test_a_story_on_postgresql(open_guard: Callable[..., Guard], postgres_url: str) -> None:
    guard = open_guard(store=postgres_url)
    root = await guard.remember("the winch needs two people", agent="ada")
    await guard.recall("winch", agent="bob")
    child = await guard.remember("never winch alone", agent="bob")
    await guard.label(root.item, "harmful", by="carol")
    again = await guard.remember("The WINCH needs two people!", agent="eve")
    assert (again.ruling, again.rule) == (Ruling.BLOCK, "blocklist:text_folded")
    plan = await guard.repairs.plan(root.item, "isolate", descendants=True)
    receipt = await guard.repairs.apply(plan)
    assert {step.item for step in plan.steps} == {root.item, child.item}
    assert await guard.recall("winch", agent="bob") == ()
    await guard.repairs.undo(receipt.id)
    assert [r.id for r in await guard.recall("winch", agent="bob")] == [child.item]
    assert guard.ledger.verify().ok


@pytest.mark.slow
async def test_the_guard_fails_closed_while_the_server_is_away(
    open_guard: Callable[..., Guard], postgres_server: Any, postgres_url: str
) -> None:
    guard = open_guard(store=postgres_url)
    before = await guard.remember("before", agent="ada")
    postgres_server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await guard.remember("meanwhile", agent="ada")
    finally:
        postgres_server.start()
    after = await guard.remember("after", agent="ada")
    assert {r.id for r in await guard.recall(agent="bob")} == {before.item, after.item}
    assert guard.ledger.verify().ok
