"""Containing a poisoned fact: what repeats it is put right from a trusted memory, what does not stays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from lazaretto import Guard, Policy
from lazaretto.gates.protocol import GateContext
from lazaretto.provenance.text_edits import corrected
from lazaretto.testing import ScriptedGate
from lazaretto.types import Correction, EventKind, Observation, Ruling, Verdict

RIGHT, WRONG = "berth nine", "berth four"
TRUSTED = f"The Halcyon lies at {RIGHT}."
POISON = f"The Halcyon lies at {WRONG}."


class KnowsBetter(ScriptedGate):
    """Holds what the script says, and knows what the trusted memory says."""

    def correction(
        self, poison: str, tainted: Collection[str], context: GateContext
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """The right berth for the wrong one, from the memory that names it."""
        known = [one for one in context.ledger.items(limit=None) if RIGHT in one.text and one.id not in tainted]
        if not known:
            return None

        def put_right(item: Observation) -> tuple[Correction, ...]:
            start = item.text.find(WRONG)
            return (Correction(start, start + len(WRONG), RIGHT, known[0].id),) if start >= 0 else ()

        return put_right


@pytest.fixture
def crew(open_guard: Callable[..., Guard]) -> Guard:
    rules = Policy.read({"preset": "minimal", "channels": {"memory": {"stages": [["berths"]]}}})

    def script(one: Observation) -> Ruling:
        return Ruling.QUARANTINE if RIGHT in one.text and "torn" in one.text else Ruling.ALLOW

    return open_guard(rules, gates={"berths": KnowsBetter(script, "berths")})


async def story(guard: Guard, trusted: bool = True) -> dict[str, str]:
    made: dict[str, str] = {}
    if trusted:
        made["trusted"] = (await guard.remember(TRUSTED, agent="ann", source="direct_user")).item
    made["poison"] = (await guard.remember(POISON, agent="web", source="untrusted_document")).item
    notes = (("plan", f"Send the tug to {WRONG}. Then lunch.", "poison"), ("lunch", "Lunch is at noon.", "plan"),
             ("log", f"Tug sent, {WRONG}.", "plan"), ("torn", f"A torn note: {WRONG}", "plan"))  # fmt: skip
    for name, text, parent in notes:
        made[name] = (await guard.remember(text, agent=f"{name}-writer", parents=[made[parent]])).item
    await guard.label(made["poison"], "harmful", by="zoe")
    assert all(not guard.ledger.state(made[name]).visible for name in ("plan", "lunch", "log", "torn")), "tainted"
    return made


async def test_what_repeats_it_is_put_right_and_what_does_not_comes_back(crew: Guard) -> None:
    made = await story(crew)
    plan = await crew.plan(made["poison"], "contain")
    steps = {step.item: step for step in plan.steps}
    actions = {name: steps[item].action for name, item in made.items() if item in steps}
    assert actions == {"poison": "hide", "plan": "replace", "lunch": "cut", "log": "replace"}, "torn stays held"
    assert f"+Send the tug to {RIGHT}. Then lunch." in steps[made["plan"]].detail["difference"]
    assert steps[made["plan"]].detail["trusted"] == [made["trusted"]]
    urgent = [steps[made[name]].detail["priority"] for name in ("poison", "plan", "log")]
    assert urgent == sorted(urgent) and urgent[0] < urgent[2], "the priority grows with depth"
    assert "repeats nothing" in plan.left[made["lunch"]]
    before = crew.ledger.states(made.values())
    receipt = await crew.apply(plan)
    texts = {one.text for one in await crew.recall(agent="bob", limit=20)}
    assert texts == {TRUSTED, f"Send the tug to {RIGHT}. Then lunch.", "Lunch is at noon.", f"Tug sent, {RIGHT}."}
    new = crew.ledger.item(steps[made["plan"]].detail["replacement"]["id"])
    assert new.parents == (made["plan"], made["trusted"])
    reached = {one.id for one in crew.graph.blast_radius(made["poison"]).items}
    assert reached <= {made["plan"]}, "what was put right carries nothing on"
    kept = [event for event in crew.ledger.events(kinds=(EventKind.REPAIRED,)) if RIGHT in str(event.body)]
    assert not kept, "a receipt quotes no item"
    await crew.undo(receipt.id)
    assert crew.ledger.states(made.values()) == before and crew.ledger.verify().ok


async def test_without_a_trusted_memory_everything_made_from_it_stays_held(crew: Guard) -> None:
    made = await story(crew, trusted=False)
    plan = await crew.plan(made["poison"], "contain")
    assert {step.item: step.action for step in plan.steps} == {made["poison"]: "hide"}


async def test_a_ruling_is_recorded_without_the_text_it_offers(open_guard: Callable[..., Guard]) -> None:
    rules = Policy.read({"preset": "minimal", "channels": {"memory": {"stages": [["berths"]]}}})

    def script(one: Observation) -> Verdict:
        return Verdict("berths", one.id, Ruling.REWRITE, 0.9, (0.5, 1.0), "changes_known_claim", replacement=TRUSTED)

    guard = open_guard(rules, gates={"berths": ScriptedGate(script, "berths")})
    decision = await guard.remember(POISON, agent="web")
    assert decision.replacement == TRUSTED
    assert RIGHT not in str([event.body for event in guard.ledger.events(kinds=(EventKind.RULED,))])


def test_corrections_are_made_from_left_to_right() -> None:
    made = (Correction(6, 9, "7", "it_a"), Correction(0, 1, "xy", "it_a"))
    assert corrected("a and 100 b", made) == "xy and 7 b"


class NamesOnly(KnowsBetter):
    """Knows better, and says where a text only names the wrong berth."""

    def correction(
        self, poison: str, tainted: Collection[str], context: GateContext
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """What only names the berth is not plain."""
        known = super().correction(poison, tainted, context)
        return known and (lambda one: tuple(replace(c, plain="tug" in one.text.lower()) for c in known(one)))


async def test_what_only_names_the_value_is_left_and_listed(open_guard: Callable[..., Guard]) -> None:
    rules = Policy.read({"preset": "minimal", "channels": {"memory": {"stages": [["berths"]]}}})
    guard = open_guard(rules, gates={"berths": NamesOnly(name="berths")})
    await guard.remember(TRUSTED, agent="ann", source="direct_user")
    poison = (await guard.remember(POISON, agent="web", source="untrusted_document")).item
    await guard.recall(agent="bo", items=[poison])
    named = (await guard.remember(f"The café at {WRONG} has cake.", agent="bo")).item
    plan = await guard.repairs.plan(poison, "contain")
    assert named not in {step.item for step in plan.steps} and WRONG in plan.left[named]
    assert "does not plainly repeat" in plan.left[named]
