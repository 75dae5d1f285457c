"""Records have owners: whoever wrote first. Others' writes are changes that may wait, and deleting asks the owner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lazaretto import ExternalRecord, Guard, Observation, Ref, Ruling
from lazaretto.errors import Forbidden
from lazaretto.guard.record_owners import RecordOwners

BANK = ("shelf", "crew.bank", "northwind")
STATUS = ("shelf", "crew.status", "ticket-12")
HONEST = {"text": "Northwind Traders is paid at account GB29 9999 0001."}
FORGED = {"text": "Northwind Traders is paid at account GB29 6666 0666."}
WAITS = "records:others_record"


class Shelf:
    """A store of the crew's own."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Any] = {}

    def get(self, namespace: str, key: str) -> Any:
        return self.records.get((namespace, key))

    def put(self, namespace: str, key: str, value: Any) -> None:
        self.records[namespace, key] = value

    def delete(self, namespace: str, key: str) -> None:
        self.records.pop((namespace, key), None)

    def list(self, namespace: str | None = None) -> Iterator[tuple[str, str, Any]]:
        yield from ((where, key, value) for (where, key), value in self.records.items() if namespace in (None, where))


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def crew(store_url: str, shelf: Shelf) -> Iterator[Guard]:
    with Guard.open(store_url, {"preset": "minimal"}) as guard:
        guard.stores.join("shelf", shelf)
        yield guard


async def keep(guard: Guard, shelf: Shelf, ref: tuple[str, str, str], value: Any, agent: str, **more: Any) -> Any:
    """What a careful caller does: ask first, then write."""
    decision = await guard.remember(agent=agent, ref=ref, value=value, **more)
    if decision.allowed:
        shelf.records[ref[1], ref[2]] = value
    return decision


async def read_by(guard: Guard, shelf: Shelf, ref: tuple[str, str, str], agent: str) -> None:
    """What reading through an adapter does: what stands there and was not judged is taken in first."""
    value = shelf.get(ref[1], ref[2])
    await guard.stores.import_records([ExternalRecord(Ref(*ref), value, source="untrusted_document")], agent=agent)


@pytest.mark.parametrize("source", [None, "agent_message", "tool_output_internal", "untrusted_document"])
async def test_another_writers_value_never_reaches_the_store(crew: Guard, shelf: Shelf, source: str | None) -> None:
    first = await keep(crew, shelf, BANK, HONEST, "treasurer")
    told = await crew.remember(agent="scout", ref=BANK, value=FORGED, source=source)
    assert (told.ruling, told.rule) == (Ruling.REVIEW, WAITS)
    assert "belongs to 'treasurer'" in " ".join(told.reasons) and HONEST["text"] not in str(told)
    await read_by(crew, shelf, BANK, "treasurer")
    await crew.stores.write_back()
    await crew.recheck()
    assert shelf.get(BANK[1], BANK[2]) == HONEST and not await crew.stores.write_back()
    (found,) = await crew.recall(agent="bob", items=[BANK])
    assert found.id == first.item
    assert crew.ledger.verify().ok


async def test_a_change_that_a_person_lets_through_reaches_the_store(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, BANK, HONEST, "treasurer")
    waits = await keep(crew, shelf, BANK, FORGED, "bookkeeper")
    assert not waits.allowed
    await crew.release(waits.item, reason="the bank did change")
    assert shelf.get(BANK[1], BANK[2]) == FORGED
    await crew.label(waits.item, "harmful", by="mia")
    assert shelf.get(BANK[1], BANK[2]) == HONEST, "what the owner had there"


async def test_ordinary_work_on_records_of_others_is_open_to_whoever_is_trusted_as_much(
    crew: Guard, shelf: Shelf
) -> None:
    assert (await keep(crew, shelf, STATUS, "Ticket 12 is open.", "triage")).allowed
    assert (await keep(crew, shelf, STATUS, "Ticket 12 is closed.", "fixer")).allowed
    assert (await keep(crew, shelf, STATUS, "Ticket 12 is open again, see the log.", "triage")).allowed
    page = await keep(crew, shelf, STATUS, "Ticket 12 is a duplicate.", "reader", source="untrusted_document")
    assert page.rule == WAITS
    assert (await keep(crew, shelf, STATUS, "Ticket 12 is open again, see the log.", "reader")).allowed, "no change"


async def test_the_owner_changes_its_record_and_people_may(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, BANK, HONEST, "treasurer")
    second = {"text": "Northwind Traders is paid at account GB29 9999 0002."}
    assert (await keep(crew, shelf, BANK, second, "treasurer")).allowed
    assert (await keep(crew, shelf, BANK, HONEST, "renamed", principal="process:treasurer")).allowed
    assert (await keep(crew, shelf, BANK, second, "desk", source="direct_user")).allowed
    late = await keep(crew, shelf, BANK, HONEST, "treasurer")
    assert late.rule == WAITS, "the user put it right since: the owner's own word is worth less"
    lower = await keep(crew, shelf, BANK, FORGED, "treasurer", source="untrusted_document")
    assert lower.rule == WAITS, "a page that the owner read is not its word"


async def test_the_name_of_the_owner_proves_nothing(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, BANK, HONEST, "treasurer")
    taken = await keep(crew, shelf, BANK, FORGED, "treasurer", principal="key:puppets")
    assert taken.rule == WAITS and shelf.get(BANK[1], BANK[2]) == HONEST
    with pytest.raises(Forbidden):
        await crew.stores.forget(BANK, agent="treasurer", principal="key:puppets")
    other = ("shelf", "crew", "ours")
    await keep(crew, shelf, other, HONEST, "p1", principal="key:crew")
    assert (await keep(crew, shelf, other, FORGED, "p2", principal="proxy:crew")).allowed, "one key, by itself or not"


async def test_what_was_held_owns_nothing(crew: Guard, shelf: Shelf) -> None:
    first = await keep(crew, shelf, BANK, FORGED, "scout")
    await crew.label(first.item, "harmful", by="mia")
    assert (await keep(crew, shelf, BANK, HONEST, "treasurer")).allowed
    assert not (await keep(crew, shelf, BANK, {**FORGED, "n": 2}, "scout")).allowed
    assert shelf.get(BANK[1], BANK[2]) == HONEST


async def test_forgetting_asks_the_owner(crew: Guard, shelf: Shelf) -> None:
    item = (await keep(crew, shelf, STATUS, "Ticket 12 is open.", "triage")).item
    await crew.remember(agent="scout", ref=STATUS, value="A dummy.")
    with pytest.raises(Forbidden, match="belongs to 'triage'"):
        await crew.stores.forget(STATUS, agent="scout")
    with pytest.raises(Forbidden):
        await crew.stores.forget(STATUS, agent="scout", principal="key:scout")
    assert not crew.ledger.state(item).held
    assert len(await crew.recall(agent="bob", items=[STATUS])) == 1
    await crew.stores.forget(STATUS, agent="renamed", principal="process:triage")
    assert not await crew.recall(agent="bob", items=[STATUS])
    await crew.stores.forget(STATUS, agent="scout")  # it belongs to nobody now
    assert (await keep(crew, shelf, STATUS, "Ticket 12 is new.", "scout")).allowed
    with pytest.raises(Forbidden):
        await crew.stores.forget(STATUS, agent="triage")
    await crew.stores.forget(STATUS, agent="mia", by_right=True)
    assert not await crew.recall(agent="bob", items=[STATUS])


async def test_a_record_that_waits_for_a_person_is_not_deleted_by_others(crew: Guard, shelf: Shelf) -> None:
    held = await crew.remember(agent="triage", ref=STATUS, value="Ticket 12 is open.")
    await crew.repairs.apply(await crew.repairs.plan(held.item, "isolate"))
    with pytest.raises(Forbidden):
        await crew.stores.forget(STATUS, agent="scout")


async def test_the_policy_may_leave_records_to_everybody(store_url: str) -> None:
    with Guard.open(store_url, {"preset": "minimal", "refs": {"others": "allow"}}) as guard:
        await guard.remember(agent="treasurer", ref=BANK, value=HONEST)
        assert (await guard.remember(agent="scout", ref=BANK, value=FORGED)).allowed


@pytest.mark.parametrize(
    ("ref", "before", "after", "weighty"),
    [
        (("s", "crew", "vendorBank"), "1000", "4711", True),
        (("s", "crew", "x"), {"payee": {"n": "Ada"}}, {"payee": {"n": "Eve"}}, True),
        (("s", "crew", "x"), "Write to ada@crew.example.", "Write to eve@crew.example.", True),
        (("s", "crew", "x"), "Read docs.crew.example/a first.", "Read docs.crew.example/b first.", False),
        (("s", "crew", "x"), "Read docs.crew.example/a first.", "Read docs.evil.example/a first.", True),
        (("s", "crew", "x"), "The alarm is armed.", "The alarm is not armed.", True),
        (("s", "crew", "x"), "The server was restarted at 9:00.", "The server was restarted at 11:00.", False),
        (("s", "crew", "x"), "Lunch is soup.", "Lunch is pizza.", False),
        (("s", "crew", "x"), "Twelve chairs are ordered.", "Fourteen chairs are ordered.", False),
    ],
)
async def test_what_is_at_stake_in_a_record(
    open_guard: Any, ref: tuple[str, str, str], before: Any, after: Any, weighty: bool
) -> None:
    guard = open_guard()
    await guard.remember(agent="ada", ref=ref, value=before)
    assert (await guard.remember(agent="bob", ref=ref, value=after)).allowed is not weighty


async def test_of_two_who_write_first_at_once_one_owns_the_record(crew: Guard) -> None:
    """Both were judged before either was recorded: the owner is decided where the ledger writes."""
    ruled, both = RecordOwners.ruled, threading.Barrier(2, timeout=30)

    def late(self: RecordOwners, observation: Observation, *, stands: bool = False) -> Any:
        seen = ruled(self, observation, stands=stands)
        if not both.broken and observation.agent not in met:
            met.add(observation.agent)
            both.wait()
        return seen

    met: set[str] = set()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordOwners, "ruled", late)
        told = await asyncio.gather(
            crew.remember(agent="treasurer", ref=BANK, value=HONEST),
            crew.remember(agent="scout", ref=BANK, value=FORGED),
        )
    assert met == {"treasurer", "scout"} and sorted(one.allowed for one in told) == [False, True]
    (waits,) = (one for one in told if not one.allowed)
    assert waits.rule == WAITS and crew.ledger.verify().ok
