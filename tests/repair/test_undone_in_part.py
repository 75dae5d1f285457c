"""A repair may be undone for some of its items alone; the others stand, can be undone later, and stay known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Guard
from lazaretto.errors import NotYours, RepairRefused
from lazaretto.identity import Identity, ProvedBy
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.repair import engine
from lazaretto.repair.engine import _undo, taking_back
from lazaretto.types import Draft, EventKind, Receipt, RepairPlan, RepairStep, plain

LEFT = "Ada says that the ferry to the northern islands leaves at nine in the morning, also on Sundays and holidays."
RIGHT = "Everybody who wants to take the boat north has to be at the second pier with all luggage well before nine."
BLOCK_LIST = {"preset": "minimal", "channels": {"memory": {"stages": [["blocklist"]]}}}


@pytest.fixture
async def guard(tmp_path: Path) -> AsyncIterator[Guard]:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/store.db")
    async with Guard(ledger, Policy.minimal()) as made:
        yield made
    ledger.close()


async def tree(guard: Guard) -> tuple[str, str, str]:
    """An item, and two made from it."""
    root = (await guard.remember("The ferry leaves at nine.", agent="ada")).item
    left = (await guard.remember(LEFT, agent="bo", parents=[root])).item
    right = (await guard.remember(RIGHT, agent="cy", parents=[root])).item
    return root, left, right


async def isolated(guard: Guard, root: str, **call: Any) -> Receipt:
    return await guard.repairs.apply(await guard.repairs.plan(root, "isolate", descendants=True), **call)


async def by_id(guard: Guard, receipt: str) -> Receipt:
    return next(one for one in await guard.repairs.receipts() if one.id == receipt)


async def test_the_rest_of_a_repair_that_was_undone_in_part_can_be_undone(guard: Guard) -> None:
    root, left, right = await tree(guard)
    first = await isolated(guard, root)
    release = await guard.release(root)  # undoes the first repair for what was made from it
    part = await by_id(guard, first.id)
    assert set(part.restored) == {left, right} and not part.undone
    with pytest.raises(RepairRefused, match=f"{release.id} has repaired the same items"):
        await guard.repairs.undo(first.id)
    await guard.repairs.undo(release.id)
    assert not guard.ledger.state(root).visible, "hidden by the first repair, of which this step stands"
    undone = await guard.repairs.undo(first.id)
    assert undone.undone and guard.ledger.state(root).visible
    assert (await by_id(guard, first.id)).undone
    with pytest.raises(RepairRefused, match="already undone"):
        await guard.repairs.undo(first.id)


async def test_an_item_that_was_repaired_again_since_stays_hidden_and_is_said_to(guard: Guard) -> None:
    root, left, right = await tree(guard)
    first = await isolated(guard, root)
    again = Draft(EventKind.RULED, left, body={"ruling": "quarantine", "rule": "test:again"})
    guard.ledger.append([again])
    await guard.label(root, "benign", by="dora")
    part = await by_id(guard, first.id)
    assert part.restored == (right,) and not part.undone
    assert not guard.ledger.state(left).visible
    (event,) = guard.ledger.events(subject=first.id, kinds=(EventKind.UNDONE,))
    assert (event.body or {})["by"] == "dora"


async def test_what_a_standing_step_taught_stays_on_the_block_list(guard: Guard, tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/listed.db")
    async with Guard(ledger, Policy.read(BLOCK_LIST)) as made:
        root, left, _ = await tree(made)
        await isolated(made, root)
        made.ledger.append([Draft(EventKind.RULED, left, body={"ruling": "quarantine", "rule": "test:again"})])
        await made.label(root, "benign", by="dora")
        known = await made.remember(LEFT, agent="eve")
        free = await made.remember(RIGHT, agent="eve")
        assert not known.allowed, "its step stands"
        assert free.allowed, "its step was undone"
    ledger.close()


async def test_cuts_that_stand_are_not_given_back(guard: Guard) -> None:
    root, left, right = await tree(guard)
    states = guard.ledger.states([left, right])
    steps = [engine.with_state(RepairStep(item, "cut", {"parents": [root]}), states) for item in (left, right)]
    receipt = await guard.repairs.apply(RepairPlan("contain", root, tuple(steps)))
    assert not guard.graph.blast_radius(root).items
    guard.ledger.append([engine.undone_draft(receipt.id, {right: dict(steps[1].detail["was"])})])
    assert {step.id for step in guard.graph.blast_radius(root).items} == {right}
    await guard.repairs.undo(receipt.id)
    assert {step.id for step in guard.graph.blast_radius(root).items} == {left, right}


class Notes:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def decided(self, *_: object) -> None: ...

    def recalled(self, *_: object) -> None: ...

    def repaired(self, _namespace: str, receipt: Receipt, _began: int) -> None:
        self.told.append(("repaired", receipt.id, receipt.by))

    def undone(self, _namespace: str, receipt: Receipt, _began: int) -> None:
        self.told.append(("undone", receipt.id, str(len(receipt.restored))))


async def test_who_applied_and_who_undid_a_repair_is_recorded_and_watchers_are_told(guard: Guard) -> None:
    notes = Notes()
    guard.watchers.add(notes)
    root, *_ = await tree(guard)
    receipt = await isolated(guard, root, by="carol")
    assert receipt.by == "carol" and (await by_id(guard, receipt.id)).by == "carol"
    await guard.repairs.undo(receipt.id, by="dora")
    (event,) = guard.ledger.events(subject=receipt.id, kinds=(EventKind.UNDONE,))
    assert (event.body or {})["by"] == "dora"
    assert notes.told == [("repaired", receipt.id, "carol"), ("undone", receipt.id, "3")]


async def test_the_caller_of_a_server_is_recorded(guard: Guard) -> None:
    root, *_ = await tree(guard)
    caller = Identity(ProvedBy.KEY, "reviewer-1", agents=("rev",))
    receipt = await isolated(guard, root, caller=caller)
    assert receipt.by == "reviewer-1"
    await guard.repairs.undo(receipt.id, caller=caller)
    (event,) = guard.ledger.events(subject=receipt.id, kinds=(EventKind.UNDONE,))
    assert (event.body or {})["by"] == "reviewer-1"


async def test_nobody_undoes_what_hides_an_item_of_their_own(guard: Guard) -> None:
    root, *_ = await tree(guard)
    receipt = await isolated(guard, root)
    with pytest.raises(NotYours):
        await guard.repairs.undo(receipt.id, by="ada")


async def test_watchers_are_told_of_repairs_that_a_release_or_a_label_undoes(guard: Guard) -> None:
    notes = Notes()
    guard.watchers.add(notes)
    root, *_ = await tree(guard)
    first = await isolated(guard, root)
    release = await guard.release(root, by="carol")
    assert notes.told[1:] == [("undone", first.id, "2"), ("repaired", release.id, "carol")]
    second = await isolated(guard, root)
    await guard.label(root, "benign", by="carol")
    assert notes.told[4:] == [("undone", second.id, "2")]


async def test_a_watcher_written_before_there_was_undone_is_no_error(
    guard: Guard, caplog: pytest.LogCaptureFixture
) -> None:
    class Old:
        def decided(self, *_: object) -> None: ...

        def recalled(self, *_: object) -> None: ...

        def repaired(self, *_: object) -> None: ...

    guard.watchers.add(Old())  # type: ignore[arg-type]
    root, *_ = await tree(guard)
    await guard.repairs.undo((await isolated(guard, root)).id)
    assert "a watcher failed" not in caplog.text


async def rewritten(guard: Guard) -> tuple[str, str, Receipt]:
    """An item, the text that took its place, and the receipt."""
    item = (await guard.remember("The ferry leaves at nine.", agent="ada")).item
    made = engine.replacement(guard.ledger.item(item), "The ferry leaves at ten.")
    step = RepairStep(item, "replace", {"replacement": made, "was": plain(guard.ledger.state(item))})
    return item, made["id"], await guard.repairs.apply(RepairPlan("rewrite", item, (step,)))


@pytest.mark.parametrize("since", ["labelled", "hidden", "erased", "replaced"])
async def test_a_repair_whose_new_text_was_changed_since_is_not_undone(guard: Guard, since: str) -> None:
    item, new, receipt = await rewritten(guard)
    if since == "labelled":
        await guard.label(new, "harmful", by="dora")
    elif since == "hidden":
        await guard.repairs.apply(await guard.repairs.plan(new, "isolate"))
    elif since == "erased":
        await guard.erase(new, reason="asked for")
    else:
        made = engine.replacement(guard.ledger.item(new), "The ferry leaves at eleven.")
        step = RepairStep(new, "replace", {"replacement": made, "was": plain(guard.ledger.state(new))})
        await guard.repairs.apply(RepairPlan("rewrite", new, (step,)))
    before, states = guard.ledger.head().seq, guard.ledger.states([item, new])
    with pytest.raises(RepairRefused, match=f"{new} has changed since {receipt.id}"):
        await guard.repairs.undo(receipt.id)
    assert guard.ledger.head().seq == before and guard.ledger.states([item, new]) == states
    back = taking_back([], guard.ledger)
    assert not back.drafts
    _undo(await by_id(guard, receipt.id), set(), set(), guard.ledger, back)
    assert back.left == [item] and not back.drafts, "what a label or a release takes back is as strict"


async def test_once_the_label_is_taken_back_the_repair_can_be_undone(guard: Guard) -> None:
    item, new, receipt = await rewritten(guard)
    event = await guard.label(new, "harmful", by="dora")
    await guard.unlabel(event.seq, by="dora")
    assert (await guard.repairs.undo(receipt.id)).undone
    assert guard.ledger.state(item).visible and not guard.ledger.state(new).visible


async def test_a_label_that_comes_in_while_a_repair_is_undone_counts(guard: Guard) -> None:
    item, new, receipt = await rewritten(guard)

    def labels_it_first(_items: object) -> list[Draft]:
        if guard.ledger.state(new).visible:
            guard.ledger.append([Draft(EventKind.RULED, new, body={"ruling": "block", "rule": "test:since"})])
        return []

    with pytest.raises(RepairRefused, match=f"{new} has changed since"):
        engine.undo(receipt.id, guard.ledger, labels_it_first)
    assert guard.ledger.state(item).superseded_by == new
