"""The synchronous guard is the asynchronous one, waited for: same calls, same signatures, any thread, any loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Decision, Guard, GuardClosed, InputError, Policy, PolicyError, Ruling, SyncGuard, UnknownItem
from lazaretto.gates.engine.runner import GateSet
from lazaretto.guard import sync_guard
from lazaretto.guard.foresight import Rehearsals
from lazaretto.guard.old_names import OLD_NAMES
from lazaretto.guard.people_calls import IncidentBook
from lazaretto.guard.repairs import Repairs
from lazaretto.guard.stores import Stores
from lazaretto.guard.tool_calls import Approvals
from lazaretto.policy import ChannelPolicy
from lazaretto.testing import ScriptedGate

PARTS = {
    SyncGuard: Guard,
    sync_guard.SyncRepairs: Repairs,
    sync_guard.SyncIncidents: IncidentBook,
    sync_guard.SyncStores: Stores,
    sync_guard.SyncRehearsals: Rehearsals,
    sync_guard.SyncApprovals: Approvals,
}


def public(one: type) -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(one, callable) if not name.startswith("_")}


CALLS = [(ours, theirs, name) for ours, theirs in PARTS.items() for name in sorted(public(theirs))]
COROUTINES = [(one, name) for _, one, name in CALLS if inspect.iscoroutinefunction(getattr(one, name))]
NOT_OURS = {"repair_unless_hidden"}
"""What foresight removes with."""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[SyncGuard]:
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", Policy.minimal()) as opened:
        yield opened


def test_none_is_missing() -> None:
    for ours, theirs in PARTS.items():
        assert set(public(ours)) == set(public(theirs)) - NOT_OURS
    assert len(COROUTINES) >= 40


def test_both_faces_have_the_same_parts_and_properties(guard: SyncGuard) -> None:
    def there(one: object) -> set[str]:
        return {name for name in {*dir(type(one)), *vars(one)} if not name.startswith("_")}

    assert there(guard) == there(guard.guard) | {"guard"}
    for part in ("repairs", "incidents", "stores", "foresight", "approvals"):
        ours, theirs = getattr(guard, part), getattr(guard.guard, part)
        assert there(ours) == (there(theirs) | {"guard"}) - NOT_OURS, part
    for name in ("ledger", "graph", "policy", "actions", "watchers"):
        assert getattr(guard, name) is getattr(guard.guard, name)
    assert guard.run(guard.guard.remember("the harbour opens at six", agent="ann")).allowed
    assert guard.open.__doc__ == guard.guard.open.__doc__


@pytest.mark.parametrize(
    ("face", "part", "name"),
    [(*parts, name) for *parts, name in CALLS if name not in NOT_OURS and name not in ("open", "close")],
)
def test_signatures_are_the_same(face: type, part: type, name: str) -> None:
    ours, theirs = getattr(face, name), getattr(part, name)
    assert inspect.signature(ours, eval_str=False) == inspect.signature(theirs, eval_str=False)
    assert not inspect.iscoroutinefunction(ours) and ours.__doc__
    if (part, name) in COROUTINES:
        assert (ours.__name__, ours.__doc__) == (theirs.__name__, theirs.__doc__)


def test_opening_takes_the_same() -> None:
    ours, theirs = inspect.signature(SyncGuard.open), inspect.signature(Guard.open)
    assert ours.parameters == theirs.parameters


@pytest.mark.parametrize(("part", "name"), COROUTINES)
def test_what_a_call_is_about_comes_first_and_who_acts_is_named(part: type, name: str) -> None:
    parameters = list(inspect.signature(getattr(part, name)).parameters.values())[1:]
    named = {"sender", "receiver", "by", "source", "parents", "agent"} - ({"agent"} if name == "before_turn" else set())
    for one in parameters:
        if one.name in named:
            assert one.kind is inspect.Parameter.KEYWORD_ONLY, f"{name}({one.name})"
    places = [one.name for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert "item" not in places or places[0] == "item"


@pytest.mark.parametrize("name", sorted(OLD_NAMES))
def test_an_old_name_works_and_says_where_it_is_now(guard: SyncGuard, name: str) -> None:
    for one in (guard, guard.guard):
        with pytest.warns(DeprecationWarning, match=f"guard.{OLD_NAMES[name]}"):
            assert callable(getattr(one, name))
    with pytest.warns(DeprecationWarning, match="incidents.all"):
        assert guard.incidents() == ()
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        _ = guard.plans  # type: ignore[attr-defined]


def test_a_story_without_await(guard: SyncGuard) -> None:
    note = guard.remember("the gate code is 4711", agent="scout")
    child = guard.remember("use 4711", agent="ada", parents=[note.item])
    assert [one.id for one in guard.graph.blast_radius(note.item).items] == [child.item]
    receipt = guard.repairs.apply(guard.repairs.plan(note.item, "isolate", descendants=True))
    assert guard.recall("gate code", agent="ada") == ()
    guard.repairs.undo(receipt.id)
    assert [one.id for one in guard.recall("gate code", agent="ada")] == [note.item]
    assert guard.exchange("hello", sender="ada", receiver="bob").allowed
    assert guard.report("opened it", agent="bob").startswith("de_")
    assert guard.label(note.item, "harmful", by="eve").subject == note.item
    assert guard.appeal(note.item, "it is old", by="ada").subject == note.item
    assert len(guard.repairs.receipts()) == 1 and guard.policy == Policy.minimal() and guard.ledger.verify().ok


def test_errors_arrive_as_they_are(guard: SyncGuard) -> None:
    with pytest.raises(UnknownItem):
        guard.label("it_nowhere", "benign", by="ada")
    with pytest.raises(TypeError, match="agent"):
        guard.check("who is it?")  # type: ignore[call-arg]


async def test_it_works_inside_a_running_loop(guard: SyncGuard) -> None:
    assert guard.check("from inside a loop", agent="ada").allowed
    assert (await guard.guard.check("and beside it, asynchronously", agent="ada")).allowed


def test_many_threads_share_one(guard: SyncGuard) -> None:
    found: list[Decision] = []
    work = [threading.Thread(target=lambda n=n: found.append(guard.check(f"t{n}", agent="ada"))) for n in range(8)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len({decision.item for decision in found}) == 8


def test_a_call_from_inside_a_call_is_refused_not_deadlocked(guard: SyncGuard) -> None:
    async def nested() -> None:
        guard.check("x", agent="ada")

    with pytest.raises(InputError, match="Use await"):
        guard.guard.run(nested())


async def test_async_with_opens_and_closes(tmp_path: Path) -> None:
    async with Guard.open(f"sqlite:///{tmp_path / 'crew.db'}") as guard:
        assert (await guard.check("hello", agent="ada")).allowed
    with pytest.raises(GuardClosed):
        await guard.check("hello", agent="ada")


def test_every_call_after_close_says_so(guard: SyncGuard) -> None:
    note = guard.remember("a note", agent="ada")
    plan = guard.repairs.plan(note.item, "isolate")
    guard.close()
    before = threading.active_count()
    for call in (
        lambda: guard.check("x", agent="ada"),
        lambda: guard.remember("x", agent="ada"),
        lambda: guard.recall(agent="ada"),
        lambda: guard.exchange("x", sender="ada", receiver="bob"),
        lambda: guard.report("x", agent="ada"),
        lambda: guard.label(note.item, "benign", by="ada"),
        lambda: guard.appeal(note.item, "x", by="ada"),
        lambda: guard.repairs.plan(note.item, "isolate"),
        lambda: guard.repairs.apply(plan),
        lambda: guard.repairs.receipts(),
        lambda: asyncio.run(guard.guard.check("x", agent="ada")),
        lambda: asyncio.run(guard.guard.repairs.receipts()),
    ):
        with pytest.raises(GuardClosed, match="closed"):
            call()
    assert threading.active_count() <= before, "a closed guard starts no threads"
    guard.close()


@pytest.mark.parametrize("pause_s", [0.0, 0.3])
def test_closing_ends_what_is_under_way_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    slow = ScriptedGate(name="slow", delay_s=60)
    rules = ChannelPolicy(stages=(("slow",),), timeout_s=120, budget_s=120, fail_mode=Ruling.ALLOW)
    guard = SyncGuard.open(
        f"sqlite:///{tmp_path / 'crew.db'}",
        replace(Policy.minimal(), channels=replace(Policy.minimal().channels, message=rules)),
        gates={"slow": slow},
    )
    close_gates = GateSet.close

    def close_slowly(gates: GateSet) -> None:
        close_gates(gates)
        time.sleep(pause_s)  # time enough for a call to be ruled without its gate

    monkeypatch.setattr(GateSet, "close", close_slowly)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            guard.check("x", agent="ada")
        except GuardClosed as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not slow.asked:
        time.sleep(0.01)
    guard.close()
    thread.join(30)
    assert not thread.is_alive() and len(ended) == 1


def test_a_policy_may_be_a_mapping(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    given = {"namespace": "crew", "channels": {"memory": {"stages": [["structure"]], "fail_mode": "block"}}}
    with SyncGuard.open(url, given) as guard:
        assert guard.ledger.namespace == "crew"
        assert guard.policy.channels.memory.fail_mode is Ruling.BLOCK
    with pytest.raises(PolicyError, match="did you mean 'channels'"):
        SyncGuard.open(url, {"chanels": {}})
    with pytest.raises(PolicyError, match="a mapping such as") as caught:
        SyncGuard.open(url, 7)  # type: ignore[arg-type]
    assert caught.value.found == "int"


async def test_closing_may_be_awaited(tmp_path: Path) -> None:
    """As in other async libraries; it was a TypeError, with the guard closed all the same."""
    guard = Guard.open(f"sqlite:///{tmp_path / 'crew.db'}", Policy.minimal())
    await guard.remember("the harbour opens at six", agent="ann")
    await guard.close()
    with pytest.raises(GuardClosed):
        await guard.remember("and closes at ten", agent="ann")
    await guard.close()
    guard.close()
