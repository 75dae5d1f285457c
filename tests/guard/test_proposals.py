"""Nothing is repaired behind anybody's back: late findings hold, and what would be cut or rewritten waits for a
person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pytest

from lazaretto import Guard
from lazaretto.errors import NotYours, RepairRefused, UnknownItem
from lazaretto.gates.protocol import GateContext
from lazaretto.identity import Identity, ProvedBy
from lazaretto.testing import ScriptedGate
from lazaretto.types import Correction, EventKind, Observation, Ruling

WRONG, RIGHT = "Halvorsen", "Okafor"
ORIGIN = f"At night call {WRONG} about the crane."
TRUSTED = f"At night call {RIGHT} about the crane."


class Late(ScriptedGate):
    """Finds fault with some texts from a certain moment on, and knows what a trusted memory says."""

    def __init__(self) -> None:
        self.bad: set[str] = set()
        super().__init__(lambda one: Ruling.QUARANTINE if one.text in self.bad else Ruling.ALLOW, "late")

    def correction(
        self, poison: str, tainted: Collection[str], context: GateContext
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """The trusted name for the wrong one."""
        known = next((one.id for one in context.ledger.items(limit=None) if one.text == TRUSTED), None)
        if known is None:
            return None

        def put_right(item: Observation) -> tuple[Correction, ...]:
            at = item.text.find(WRONG)
            return (Correction(at, at + len(WRONG), RIGHT, known),) if at >= 0 else ()

        return put_right


@dataclass
class Crew:
    """A guard, its gate, and the ids of a small story."""

    guard: Guard
    gate: Late
    made: dict[str, str]

    def texts(self) -> dict[str, str]:
        """What may be recalled, by id."""
        return {one.id: one.text for one in self.guard.ledger.items(limit=None)}


Open = Callable[..., Guard]


async def crew(open_guard: Open, store: str, automatic: str | None = None) -> Crew:
    gate = Late()
    rules: dict[str, Any] = {"preset": "minimal", "channels": {"memory": {"stages": [["blocklist"], ["late"]]}}}
    if automatic:
        rules["repair"] = {"automatic": automatic}
    guard = open_guard(rules, store=store, gates={"late": gate})
    made = {"trusted": (await guard.remember(TRUSTED, agent="ann", source="direct_user", parents=[])).item}
    made["origin"] = (await guard.remember(ORIGIN, agent="ida", parents=[])).item
    notes = {
        "made": (f"Rota: {WRONG} has the crane tonight.", [made["origin"]]),
        "met": (f"{WRONG} was on the phone about lunch.", None),
        "plain": ("Lunch is at noon in the canteen.", None),
    }
    await guard.recall(agent="bo", items=[made["origin"]])
    for name, (text, parents) in notes.items():
        made[name] = (await guard.remember(text, agent="bo", parents=parents)).item
    await guard.remember("The ferry leaves at nine.", agent="cy", parents=[])
    gate.bad = {ORIGIN}
    return Crew(guard, gate, made)


async def test_by_default_a_late_finding_holds_and_asks(
    open_guard: Open, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = await crew(open_guard, store_url)
    before = one.texts()
    caplog.set_level(logging.INFO, "lazaretto")
    done = await one.guard.recheck()
    assert one.guard.policy.repair.automatic == "ask"
    assert set(done.held) == {one.made["origin"], one.made["made"]} and done.rewritten == ()
    assert one.texts() == {item: text for item, text in before.items() if item not in done.held}, (
        "nothing was rewritten"
    )
    assert not await one.guard.repairs.receipts() and one.guard.graph.came_from(one.made["made"]), (
        "nothing was cut loose"
    )
    (proposal,) = await one.guard.repairs.proposals()
    assert (proposal.id,) == done.proposed and proposal.origin == one.made["origin"]
    assert proposal.actions[one.made["plain"]] == "cut" and proposal.actions[one.made["made"]] == "replace"
    lines = [record.getMessage() for record in caplog.records if record.name == "lazaretto.acts"]
    assert f"{one.made['origin']} is held (quarantine) by late:scripted" in lines
    assert any(line.startswith(f"{one.made['made']} is held") and one.made["origin"] in line for line in lines)
    assert any(proposal.id in line and "proposed" in line for line in lines)
    assert not any(WRONG in line for line in lines), "a log line quotes nothing"
    assert (await one.guard.recheck()).proposed == () and len(await one.guard.repairs.proposals()) == 1, (
        "not proposed twice"
    )
    assert one.guard.ledger.verify().ok


async def test_a_proposal_shows_its_difference_and_is_applied_as_it_was_seen(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url)
    (name,) = (await one.guard.recheck()).proposed
    again = open_guard(one.guard.policy, store=store_url, gates={"late": one.gate})  # after a restart
    shown = await again.repairs.proposal(name)
    changes = {change.item: change for change in shown.changes}
    rewritten = changes[one.made["made"]]
    assert (rewritten.before, rewritten.after) == (f"Rota: {WRONG} has the crane tonight.",
                                                   f"Rota: {RIGHT} has the crane tonight.")  # fmt: skip
    assert f"-Rota: {WRONG}" in rewritten.difference and f"+Rota: {RIGHT}" in rewritten.difference
    kept = str([e.body for e in again.ledger.events(kinds=(EventKind.NOTED,))])
    assert WRONG not in kept and RIGHT not in kept, "the ledger keeps no text of it"
    with pytest.raises(RepairRefused, match="look at it again"):
        await again.repairs.accept(name, by="dan", seen="0" * 64)
    receipt = await again.repairs.accept(name, by="dan", seen=shown.seen)
    assert "accepted by dan" in receipt.plan.reason and await again.repairs.proposals() == ()
    assert f"Rota: {RIGHT} has the crane tonight." in one.texts().values()
    with pytest.raises(RepairRefused, match="decided on already"):
        await again.repairs.accept(name, by="dan")
    await again.repairs.undo(receipt.id)
    assert again.ledger.verify().ok


async def test_nobody_frees_their_own_by_applying_a_proposal(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url)
    (name,) = (await one.guard.recheck()).proposed
    with pytest.raises(NotYours):
        await one.guard.repairs.accept(name, by="dan", caller=Identity(ProvedBy.KEY, "r", agents=("bo",)))
    assert len(await one.guard.repairs.proposals()) == 1 and not await one.guard.repairs.receipts()


async def test_what_changed_since_it_was_shown_is_not_applied(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url)
    (name,) = (await one.guard.recheck()).proposed
    shown = await one.guard.repairs.proposal(name)
    await one.guard.label(one.made["made"], "benign", by="dan")
    with pytest.raises(RepairRefused, match="look at it again"):
        await one.guard.repairs.accept(name, by="dan", seen=shown.seen)


async def test_a_dismissed_proposal_does_not_come_back(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url)
    (name,) = (await one.guard.recheck()).proposed
    with pytest.raises(NotYours):
        await one.guard.repairs.dismiss(name, by="ida")
    with pytest.raises(NotYours):
        await one.guard.repairs.dismiss(name, by="dan", caller=Identity(ProvedBy.KEY, "r1", agents=("ida",)))
    await one.guard.repairs.dismiss(name, by="dan", reason="the notes are fine")
    assert await one.guard.repairs.proposals() == ()
    await one.guard.remember("The tide is low at six.", agent="cy", parents=[])
    again = open_guard(one.guard.policy, store=store_url, gates={"late": one.gate})
    assert (await again.recheck()).proposed == () and await again.repairs.proposals() == ()
    assert not one.guard.ledger.state(one.made["origin"]).visible, "what is held stays held"
    with pytest.raises(UnknownItem):
        await one.guard.repairs.proposal("pr_nothing")


async def test_calling_the_origin_fine_ends_the_proposal_and_brings_back_what_was_held(
    open_guard: Open, store_url: str
) -> None:
    one = await crew(open_guard, store_url)
    before = one.texts()
    (name,) = (await one.guard.recheck()).proposed
    await one.guard.label(one.made["origin"], "benign", by="dan")
    assert one.texts() == before and await one.guard.repairs.proposals() == ()
    with pytest.raises(RepairRefused, match="is not held"):
        await one.guard.repairs.accept(name, by="dan")
    assert (await one.guard.recheck()).held == (), "a person's decision stands"


@pytest.mark.parametrize("how", ["label", "release"])
async def test_calling_the_origin_fine_takes_back_what_was_cut_and_rewritten(
    open_guard: Open, store_url: str, how: str
) -> None:
    one = await crew(open_guard, store_url, "apply")
    before, edges = one.texts(), one.guard.graph.came_from(one.made["plain"])
    done = await one.guard.recheck()
    assert done.rewritten and done.proposed == () and one.texts() != before, "as it was asked for"
    assert one.guard.graph.came_from(one.made["plain"]) != edges
    if how == "label":
        await one.guard.label(one.made["origin"], "benign", by="dan")
    else:
        receipt = await one.guard.release(one.made["origin"], reason="honest")
    assert one.texts() == before and one.guard.graph.came_from(one.made["plain"]) == edges
    contained = [made.undone for made in await one.guard.repairs.receipts() if made.plan.repair == "contain"]
    assert contained and all(contained)
    assert one.guard.ledger.verify().ok
    if how == "release":
        await one.guard.repairs.undo(receipt.id)
        assert {one.made["origin"], one.made["made"]}.isdisjoint(one.texts()), "taken back: held again, both"


async def test_what_somebody_changed_since_is_left_alone(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url, "apply")
    await one.guard.recheck()
    await one.guard.label(one.made["plain"], "harmful", by="eva")
    await one.guard.label(one.made["origin"], "benign", by="dan")
    texts = one.texts()
    assert one.made["plain"] not in texts, "what was called harmful stays out"
    assert texts[one.made["made"]] == f"Rota: {WRONG} has the crane tonight.", "the rest comes back"
    assert one.guard.ledger.verify().ok


async def test_hold_proposes_nothing(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url, "hold")
    done = await one.guard.recheck()
    assert set(done.held) == {one.made["origin"], one.made["made"]} and done.proposed == done.rewritten == ()
    assert await one.guard.repairs.proposals() == () and not await one.guard.repairs.receipts()


async def test_each_act_of_a_repair_has_a_line(
    open_guard: Open, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = await crew(open_guard, store_url, "apply")
    caplog.set_level(logging.INFO, "lazaretto")
    await one.guard.recheck()
    (receipt,) = await one.guard.repairs.receipts()
    lines = [record.getMessage() for record in caplog.records if record.name == "lazaretto.acts"]
    assert receipt.plan.steps
    for step in receipt.plan.steps:
        what = "is rewritten as" if step.action == "replace" else "is cut loose from"
        assert any(line.startswith(f"{step.item} {what}") and receipt.id in line for line in lines), step
    await one.guard.label(one.made["origin"], "benign", by="dan")
    taken = [record.getMessage() for record in caplog.records if "taken back" in record.getMessage()]
    assert any(line.startswith(one.made["made"]) for line in taken)


async def test_a_reviewer_does_not_bring_back_what_they_wrote(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url, "apply")
    await one.guard.recheck()
    with pytest.raises(NotYours):
        await one.guard.label(
            one.made["origin"], "benign", by="dan", caller=Identity(ProvedBy.KEY, "r", agents=("bo",))
        )


async def test_a_persons_harmful_word_holds_and_proposes_like_a_late_finding(open_guard: Open, store_url: str) -> None:
    one = await crew(open_guard, store_url)
    one.gate.bad = set()
    await one.guard.label(one.made["origin"], "harmful", by="dan")
    assert not one.guard.ledger.state(one.made["made"]).visible and one.guard.ledger.state(one.made["plain"]).visible
    done = await one.guard.recheck()
    (proposal,) = await one.guard.repairs.proposals()
    assert done.proposed == (proposal.id,) and proposal.origin == one.made["origin"]
    assert proposal.actions[one.made["plain"]] == "cut" and proposal.actions[one.made["made"]] == "replace"
    assert not await one.guard.repairs.receipts() and (await one.guard.recheck()).proposed == ()
    await one.guard.label(one.made["origin"], "benign", by="dan")
    assert await one.guard.repairs.proposals() == () and one.guard.ledger.state(one.made["made"]).visible


@pytest.mark.parametrize("automatic", ["ask", "apply"])
async def test_a_word_that_was_taken_back_before_the_next_look_repairs_nothing(
    open_guard: Open, store_url: str, automatic: str
) -> None:
    one = await crew(open_guard, store_url, automatic)
    one.gate.bad, before = set(), one.texts()
    await one.guard.label(one.made["origin"], "harmful", by="dan")
    await one.guard.label(one.made["origin"], "benign", by="dan")
    done = await one.guard.recheck()
    assert (done.held, done.proposed, await one.guard.repairs.receipts()) == ((), (), ()) and one.texts() == before
