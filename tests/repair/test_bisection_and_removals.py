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
from lazaretto.agents.prompts import ChatRecord, persona_pool
from lazaretto.agents.turn import AgentState, History, purge, roll_back, sweep
from lazaretto.gates.foresight.flp import BisectionResult, bisect
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Observation

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
    swept = sweep(agents, [NOTES[2]], alike=lambda one, other: one.key == NOTES[4].key, sentences=["a1"])
    assert {a.id for a in swept.cleaned} == {"ada", "bo", "cy"}  # cy for the sentence in its history
    assert all(NOTES[2].key not in a.album and len(a.history) == 2 for a in swept.cleaned)
    assert swept.lookalikes == (NOTES[4].key,) and swept.contacts == ("ada", "bo", "cy")
    assert NOTES[4].key in swept.cleaned[2].album  # a lookalike is diagnosed, not removed
    assert purge(agents[2], [NOTES[0].key]) == agents[2]
    with pytest.warns(DeprecationWarning, match="sentences=") as caught:
        assert purge(agents[2], (), said=["a1"]) == purge(agents[2], (), ["a1"]) != agents[2]
        assert sweep(agents, (), said=["a1"]).cleaned == sweep(agents, (), sentences=["a1"]).cleaned
    assert [warning.filename for warning in caught] == [__file__] * 2


def test_repairs_leave_receipts_and_can_be_undone(tmp_path: Path) -> None:
    with Guard.open(f"sqlite:///{tmp_path}/l.db", Policy.minimal()) as guard:
        ids = [guard.run(guard.remember(text, agent=who)).item for who, text in
               (("ada", "pass this on"), ("bo", "pass  this on"), ("bo", "buy bread"), ("bo", "call mum"))]  # fmt: skip
        swept = guard.run(guard.repairs.apply(guard.run(guard.repairs.plan(ids[0], "sweep"))))
        assert {step.item for step in swept.plan.steps} == set(ids[:2]) and set(swept.plan.agents) == {"ada", "bo"}
        assert [guard.ledger.state(i).hidden for i in ids] == [True, True, False, False]
        with pytest.raises(RepairRefused):
            guard.run(guard.repairs.plan(ids[0], "sweep"))
        back = guard.run(guard.repairs.apply(guard.run(guard.repairs.plan(ids[2], "rollback"))))
        assert [step.item for step in back.plan.steps] == [ids[3]]
        cut = guard.run(
            guard.repairs.apply(guard.run(guard.repairs.plan(ids[2], "remove", items=[ids[2]], model_calls=18)))
        )
        assert cut.plan.price["model_calls"] == 18
        for receipt in (cut, back, swept):
            guard.run(guard.repairs.undo(receipt.id))
        assert not any(guard.ledger.state(i).hidden for i in ids)
        with pytest.raises(InputError):
            guard.run(guard.repairs.plan(ids[2], "rollback", entries=0))


AWKWARD = (
    "a note about the winch", 'say "hello" AND OR NOT (near) * : ^ col:x', "naïve café e\u0301cole",
    "日本語のメモ 東京",
    "see https://example.com/a-b_c?d=1, mail a.b@example.com, 3.14 -5 1e6", "— … !!!", "x" * 3000, "word " * 500,
    "emoji 👍 only", "don't stop", "under_score and CamelCase",
)  # fmt: skip


def check_copies(url: str) -> None:
    with Ledger.open(url) as ledger:
        texts = [*AWKWARD, *(f"{text} more" for text in AWKWARD)]
        items = {}
        for text in texts:
            made = [Observation(name, Channel.MEMORY, text) for name in ("ada", "bo")]
            spread = Observation("cy", Channel.MEMORY, "  " + "\n ".join(text.split()) + " ")
            said = Observation("ada", Channel.MESSAGE, text)
            for one in (*made, spread, said):
                ledger.append_item(one)
            items[text] = (made[0].id, {*(one.id for one in made), spread.id}, said.id)
        for text, (first, memories, said) in items.items():
            found = {one.id for one in ledger.copies(first)}
            assert found == memories, text
            assert {one.id for one in ledger.copies(said)} == memories | {said}, "a message: its own channel as well"
        shown = ledger.put_blob(b"a picture")
        pictures = [Observation(name, Channel.IMAGE, image=shown) for name in ("ada", "bo")]
        for one in pictures:
            ledger.append_item(one)
        assert {one.id for one in ledger.copies(pictures[0].id)} == {one.id for one in pictures}


def test_copies_are_found_by_index(tmp_path: Path) -> None:
    check_copies(f"sqlite:///{tmp_path}/l.db")


@pytest.mark.slow
def test_copies_are_found_by_index_on_postgresql(postgres_url: str) -> None:
    check_copies(postgres_url)


def test_a_sweep_reads_no_other_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lazaretto.ledger import queries

    with Ledger.open(f"sqlite:///{tmp_path}/l.db") as ledger:
        for number in range(300):
            ledger.append_item(Observation("ada", Channel.MEMORY, f"note {number} about the harbour"))
        worm = Observation("eve", Channel.MEMORY, "pass this on at once")
        ledger.append_item(worm)
        read: list[int] = []
        whole = queries._observations
        monkeypatch.setattr(queries, "_observations", lambda *a: read.append(len(made := whole(*a))) or made)
        assert [one.id for one in ledger.copies(worm.id)] == [worm.id] and sum(read) <= 4
