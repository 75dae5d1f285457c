"""Bisect finds, removes and verifies; rollback and sweep take out what they say, with receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazaretto import Guard, InputError, Policy, RepairRefused
from lazaretto.agents.album import Album, note_item
from lazaretto.agents.forgetting import purge, roll_back, sweep
from lazaretto.agents.history import History
from lazaretto.agents.persona import persona_pool
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState
from lazaretto.repair.bisection import BisectionResult, bisect

NOTES = tuple(note_item(f"note number {i}") for i in range(10))


def agent(name: str = "ada", notes: tuple[int, ...] = tuple(range(10))) -> AgentState:
    said = tuple(ChatRecord(f"q{i}", f"a{i}") for i in range(3))
    return AgentState(name, persona_pool(1, 0)[0], Album(10, tuple(NOTES[i] for i in notes)), History(3, said))


def judge(bad: set[str]) -> Callable[[tuple[str, ...]], Awaitable[bool]]:
    async def infected(keys: tuple[str, ...]) -> bool:
        return bool(bad & set(keys))

    return infected


def find(keys: list[str], bad: set[str], **options: int) -> BisectionResult:
    return asyncio.run(bisect(keys, judge(bad), **options))


@given(st.sets(st.integers(0, 14)), st.integers(1, 15), st.integers(1, 3))
def test_every_virus_goes_and_never_more_than_its_small_neighbours(bad: set[int], size: int, smallest: int) -> None:
    keys = [str(i) for i in range(size)]
    viruses = {str(i) for i in bad if i < size}
    found = find(keys, viruses, smallest=smallest)
    assert viruses <= set(found.removed) and found.clean
    assert len(found.removed) <= smallest * len(viruses)


def test_one_virus_of_ten_takes_a_logarithm_of_tests() -> None:
    found = find([str(i) for i in range(10)], {"7"}, smallest=1)
    assert found.removed == ("7",) and found.tests <= 10


def test_a_clean_album_costs_one_test_and_loses_nothing() -> None:
    assert find(list("abc"), set()) == BisectionResult((), 1, True)
    assert find([], set()) == BisectionResult((), 0, True)


def test_what_only_shows_in_company_is_found_by_leaving_one_out() -> None:
    async def infected(keys: tuple[str, ...]) -> bool:
        return {"a", "b", "c", "d"} <= set(keys)

    found = asyncio.run(bisect(list("abcdef"), infected, smallest=1))
    assert len(found.removed) == 1 and found.clean


def test_a_test_that_never_clears_ends_and_says_so() -> None:
    async def infected(keys: tuple[str, ...]) -> bool:
        return len(keys) == 6

    found = asyncio.run(bisect(list("abcdef"), infected, smallest=1, verify=False))
    assert found.removed == () and not found.clean


def test_a_virus_behind_another_is_found_when_the_rest_is_tested() -> None:
    async def infected(keys: tuple[str, ...]) -> bool:
        return "x" in keys or ("y" in keys and len(keys) > 3)  # y alone is too weak to be seen in small sets

    found = asyncio.run(bisect(list("abxcdyef"), infected, smallest=1))
    assert {"x"} <= set(found.removed) and found.clean


def test_rollbacks() -> None:
    one = roll_back(agent())
    assert len(one.album) == 9 and len(one.history) == 2
    assert len(roll_back(agent(notes=())).album) == 0


def test_a_sweep_cleans_every_album_and_names_lookalikes() -> None:
    agents = [agent("ada", (0, 1, 2)), agent("bo", (2, 3)), agent("cy", (4, 5))]
    swept = sweep(agents, [NOTES[2]], alike=lambda one, other: one.key == NOTES[4].key, said=["a1"])
    assert {a.id for a in swept.cleaned} == {"ada", "bo", "cy"}  # cy for the sentence in its history
    assert all(NOTES[2].key not in a.album and len(a.history) == 2 for a in swept.cleaned)
    assert swept.lookalikes == (NOTES[4].key,) and swept.contacts == ("ada", "bo", "cy")
    assert NOTES[4].key in swept.cleaned[2].album  # a lookalike is diagnosed, not removed
    assert purge(agents[2], [NOTES[0].key]) == agents[2]


def test_repairs_leave_receipts_and_can_be_undone(tmp_path: Path) -> None:
    with Guard.open(f"sqlite:///{tmp_path}/l.db", Policy.minimal()) as guard:
        ids = [guard.run(guard.remember(text, agent=who)).item for who, text in
               (("ada", "pass this on"), ("bo", "pass  this on"), ("bo", "buy bread"), ("bo", "call mum"))]  # fmt: skip
        swept = guard.run(guard.apply(guard.run(guard.plan(ids[0], "sweep"))))
        assert {step.item for step in swept.plan.steps} == set(ids[:2]) and set(swept.plan.agents) == {"ada", "bo"}
        assert [guard.ledger.state(i).hidden for i in ids] == [True, True, False, False]
        with pytest.raises(RepairRefused):
            guard.run(guard.plan(ids[0], "sweep"))
        back = guard.run(guard.apply(guard.run(guard.plan(ids[2], "rollback"))))
        assert [step.item for step in back.plan.steps] == [ids[3]]
        cut = guard.run(guard.apply(guard.run(guard.plan(ids[2], "remove", items=[ids[2]], model_calls=18))))
        assert cut.plan.price["model_calls"] == 18
        for receipt in (cut, back, swept):
            guard.run(guard.undo(receipt.id))
        assert not any(guard.ledger.state(i).hidden for i in ids)
        with pytest.raises(InputError):
            guard.run(guard.plan(ids[2], "rollback", entries=0))
