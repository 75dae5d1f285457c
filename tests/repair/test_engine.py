"""Plan, price, dry run, apply, receipt, undo: atomic, refused when stale or too wide, and exactly reversible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from lazaretto import Guard, Policy, RepairRefused, Ruling
from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger import ItemState
from lazaretto.policy import RepairLimits, plugins
from lazaretto.repair import engine
from lazaretto.repair.protocol import Repair, RepairRequest, RepairView, make_repair
from lazaretto.repair.short_repairs import Isolate, Remove
from lazaretto.types import Draft, EventKind, RepairPlan, RepairStep, plain


async def tree(guard: Guard) -> dict[str, str]:
    """root -> child -> grandchild, and a bystander."""
    root = await guard.remember("the root note", agent="ada", parents=[])
    child = await guard.remember("a child note", agent="bob", parents=[root.item])
    grand = await guard.remember("a grandchild note", agent="cy", parents=[child.item])
    other = await guard.remember("a bystander note", agent="dan", parents=[])
    await guard.recall("child", agent="eve")
    return {"root": root.item, "child": child.item, "grand": grand.item, "other": other.item}


def states(guard: Guard, ids: dict[str, str]) -> dict[str, ItemState]:
    return {name: guard.ledger.state(item) for name, item in ids.items()}


async def seen(guard: Guard) -> set[str]:
    return {r.id for r in await guard.recall("note", agent="zoe", limit=50)}


async def test_isolate_hides_an_item_or_its_tree(guard: Guard) -> None:
    ids = await tree(guard)
    alone = await guard.repairs.plan(ids["child"], "isolate")
    assert [s.item for s in alone.steps] == [ids["child"]]
    plan = await guard.repairs.plan(ids["root"], "isolate", descendants=True, reason="poisoned")
    assert {s.item for s in plan.steps} == {ids["root"], ids["child"], ids["grand"]}
    assert {"eve", "ada", "bob", "cy"} == set(plan.agents)
    assert (plan.price["items"], plan.price["agents"], plan.price["benign_at_risk"]) == (3, 4, 2)
    near = await guard.repairs.plan(ids["root"], "isolate", descendants=True, max_hops=1)
    assert {s.item for s in near.steps} == {ids["root"], ids["child"]}
    receipt = await guard.repairs.apply(plan)
    assert await seen(guard) == {ids["other"]}
    assert receipt.plan == plan and set(receipt.before) == set(receipt.after) == {s.item for s in plan.steps}
    assert guard.ledger.verify().ok


async def test_a_dry_run_shows_everything_and_changes_nothing(guard: Guard) -> None:
    ids = await tree(guard)
    plan = await guard.repairs.plan(ids["root"], "isolate", descendants=True)
    head = guard.ledger.head()
    shown = await guard.repairs.dry_run(plan)
    assert guard.ledger.head() == head
    assert all(p.before.visible and not p.after.visible for p in shown) and len(shown) == 3
    receipt = await guard.repairs.apply(plan)
    assert {p.step.item: engine.state_hash(p.after) for p in shown} == receipt.after
    assert {i: engine.state_hash(guard.ledger.state(i)) for i in receipt.after} == receipt.after


async def test_a_repair_is_one_append(guard: Guard) -> None:
    ids = await tree(guard)
    before = guard.ledger.head().seq
    await guard.repairs.apply(await guard.repairs.plan(ids["root"], "isolate", descendants=True))
    repair, *lessons = guard.ledger.events(after=before)
    assert repair.kind is EventKind.REPAIRED
    assert lessons and all(e.kind is EventKind.NOTED and e.subject.startswith("known:") for e in lessons), (
        "what it taught follows"
    )


async def test_undo_restores_exactly_and_only_once(guard: Guard) -> None:
    ids = await tree(guard)
    await guard.label(ids["child"], "harmful", by="carol")
    before = states(guard, ids)
    receipt = await guard.repairs.apply(await guard.repairs.plan(ids["root"], "isolate", descendants=True))
    assert states(guard, ids) != before
    undone = await guard.repairs.undo(receipt.id)
    assert undone.undone and states(guard, ids) == before
    assert [e.kind for e in guard.ledger.events(subject=receipt.id)] == [EventKind.REPAIRED, EventKind.UNDONE]
    with pytest.raises(RepairRefused, match="already undone"):
        await guard.repairs.undo(receipt.id)
    assert [r.undone for r in await guard.repairs.receipts()] == [True]
    assert guard.ledger.verify().ok


async def test_release_brings_back_and_its_undo_holds_again(guard: Guard) -> None:
    held = await guard.remember("an invisible\u200b \u200bnote \u200bwith\u200b filler", agent="ada")
    assert held.ruling is Ruling.QUARANTINE
    before = guard.ledger.state(held.item)
    receipt = await guard.release(held.item, reason="a copy from a web page")
    assert guard.ledger.state(held.item).visible and await seen(guard) == {held.item}
    await guard.repairs.undo(receipt.id)
    assert guard.ledger.state(held.item) == before and await seen(guard) == set()
    clean = await guard.remember("an invisible note with filler", agent="ada")
    assert clean.allowed, "undoing must not list more than the first ruling did"


async def test_a_tree_is_released_as_it_was_isolated(guard: Guard) -> None:
    ids = await tree(guard)
    await guard.repairs.apply(await guard.repairs.plan(ids["root"], "isolate", descendants=True))
    await guard.release(ids["root"], descendants=True)
    assert await seen(guard) == set(ids.values())


async def test_nothing_to_do_is_refused(guard: Guard) -> None:
    ids = await tree(guard)
    with pytest.raises(RepairRefused, match="nothing to do"):
        await guard.release(ids["root"])
    await guard.repairs.apply(await guard.repairs.plan(ids["root"], "isolate"))
    with pytest.raises(RepairRefused, match="nothing to do"):
        await guard.repairs.plan(ids["root"], "isolate")


async def test_a_stale_plan_is_refused(guard: Guard) -> None:
    ids = await tree(guard)
    plan = await guard.repairs.plan(ids["root"], "isolate", descendants=True)
    await guard.label(ids["grand"], "harmful", by="carol")
    head = guard.ledger.head()
    with pytest.raises(RepairRefused, match="stale"):
        await guard.repairs.apply(plan)
    with pytest.raises(RepairRefused, match="stale"):
        await guard.repairs.dry_run(plan)
    assert guard.ledger.head() == head
    with pytest.raises(RepairRefused, match="stale"):
        second = await guard.repairs.plan(ids["root"], "isolate")
        await guard.repairs.apply(second)
        await guard.repairs.apply(second)


async def test_what_happens_between_looking_and_writing_is_noticed(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process changes an item after the plan was compared and before it is written: nothing may be applied."""
    ids = await tree(guard)
    plan = await guard.repairs.plan(ids["root"], "isolate", descendants=True)
    append, done = guard.ledger.append, []

    def overtaken(drafts: list[Draft], **more: object) -> object:
        if not done:
            done.append(append([Draft(EventKind.RULED, ids["child"], body={"ruling": "block"})]))
        return append(drafts, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(guard.ledger, "append", overtaken)
    with pytest.raises(RepairRefused, match="stale"):
        await guard.repairs.apply(plan)
    assert not guard.ledger.state(ids["root"]).hidden and done


async def test_unrelated_writers_do_not_stop_a_repair(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await tree(guard)
    plan = await guard.repairs.plan(ids["root"], "isolate")
    append, tried = guard.ledger.append, []

    def busy(drafts: list[Draft], **more: object) -> object:
        append([Draft(EventKind.NOTED, "weather", body={"wind": 3})])
        tried.extend(draft.kind for draft in drafts)
        return append(drafts, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(guard.ledger, "append", busy)
    await guard.repairs.apply(plan)
    assert tried.count(EventKind.REPAIRED) == 1, "it was written at the first try, beside another writer"
    assert guard.ledger.state(ids["root"]).hidden


async def test_an_overtaken_receipt_is_not_undone(guard: Guard) -> None:
    ids = await tree(guard)
    receipt = await guard.repairs.apply(await guard.repairs.plan(ids["root"], "isolate"))
    released = await guard.release(ids["root"])
    with pytest.raises(RepairRefused, match=f"{released.id} has repaired the same items"):
        await guard.repairs.undo(receipt.id)
    await guard.repairs.undo(released.id)
    await guard.label(ids["root"], "harmful", by="carol")
    with pytest.raises(RepairRefused, match="was labelled since"):
        await guard.repairs.undo(receipt.id)


async def test_too_wide_a_plan_is_refused(open_guard: Callable[..., Guard]) -> None:
    wide = open_guard()
    ids = await tree(wide)
    plan = await wide.plan(ids["root"], "isolate", descendants=True)
    narrow = open_guard(replace(Policy.minimal(), repair=RepairLimits(max_items=2)))
    with pytest.raises(RepairRefused, match="3 items; the policy allows 2"):
        await narrow.plan(ids["root"], "isolate", descendants=True)
    with pytest.raises(RepairRefused, match=r"repair\.max_items"):
        await narrow.apply(plan)
    lonely = open_guard(replace(Policy.minimal(), repair=RepairLimits(max_agents=1)))
    with pytest.raises(RepairRefused, match=r"repair\.max_agents"):
        await lonely.plan(ids["root"], "isolate", descendants=True)
    assert await seen(wide) == set(ids.values())


async def test_options_are_checked(guard: Guard) -> None:
    ids = await tree(guard)
    for field, wrong in (
        ("descendant", {"descendant": True}),
        ("descendants", {"descendants": "yes"}),
        ("descendants", {"descendants": 1}),
        ("max_hops", {"max_hops": True}),
        ("max_hops", {"max_hops": -1}),
        ("max_hops", {"max_hops": "2"}),
        ("options", {"max_hops": object()}),
    ):
        with pytest.raises(InputError) as caught:
            await guard.repairs.plan(ids["root"], "isolate", **wrong)
        assert caught.value.field == field and caught.value.fix
    with pytest.raises(InputError, match="Use descendants, max_hops"):
        make_repair("isolate", {"depth": 2})
    with pytest.raises(InputError, match="Use none"):
        make_repair("sweep", {"item": "it_1"})
    with pytest.raises(InputError, match="Did you mean 'isolate'"):
        await guard.repairs.plan(ids["root"], "isolat")


async def test_a_repair_is_named_or_given_and_means_the_same(guard: Guard) -> None:
    ids = await tree(guard)
    named = await guard.repairs.plan(ids["root"], "isolate", descendants=True, max_hops=1, reason="why")
    given = await guard.repairs.plan(ids["root"], Isolate(descendants=True, max_hops=1), reason="why")
    assert replace(named, id=given.id) == given and len(given.steps) == 2
    assert make_repair("remove", {"items": ["a", "b"]}) == Remove(items=("a", "b"))
    with pytest.raises(InputError, match="max_hops"):
        await guard.repairs.plan(ids["root"], Isolate(max_hops=-1))
    for name in ("isolate", "rewrite"):
        with pytest.raises(InputError, match="max_hops: is given without descendants"):
            await guard.repairs.plan(ids["root"], name, max_hops=1)
    with pytest.raises(InputError, match=r"descendants.*Isolate\(\.\.\.\)"):
        await guard.repairs.plan(ids["root"], Isolate(), descendants=True)


def test_what_is_no_dataclass_or_lacks_an_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"mend": f"{__name__}:Mender", "old": f"{__name__}:tree"}
    monkeypatch.setattr(plugins, "REPAIRS", replace(plugins.REPAIRS, built_in=here))
    with pytest.raises(InputError, match="gone: is missing"):
        make_repair("mend", {"child": "it_1"})
    with pytest.raises(InputError, match="not a dataclass"):
        make_repair("old")


@pytest.mark.parametrize("name", plugins.REPAIRS.built_in)
def test_every_repair_is_a_frozen_record_of_its_options(name: str) -> None:
    made = make_repair(name)
    assert isinstance(made, Repair) and made.name == name
    assert make_repair(made) == made and hash(made) == hash(make_repair(name))


@dataclass(frozen=True, slots=True)
class Mender:
    """Plays a later repair: replaces one item, cuts the edge to it, removes another."""

    name: ClassVar[str] = "mend"
    child: str
    gone: str

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        old = view.ledger.item(request.item)
        steps = (
            RepairStep(old.id, "replace", {"replacement": engine.replacement(old, "a clean note")}),
            RepairStep(self.child, "cut", {"parents": [old.id]}),
            RepairStep(self.gone, "remove"),
        )
        return RepairPlan(self.name, old.id, steps, price={"model_calls": 2.0})


async def test_the_engine_carries_every_kind_of_step_and_undoes_it(guard: Guard) -> None:
    ids = await tree(guard)
    before, spread = states(guard, ids), guard.graph.blast_radius(ids["root"])
    plan = await guard.repairs.plan(ids["root"], Mender(child=ids["grand"], gone=ids["other"]))
    receipt = await guard.repairs.apply(plan)
    new = plan.steps[0].detail["replacement"]["id"]
    assert receipt.cost.calls == 2
    assert guard.ledger.state(ids["root"]).superseded_by == new
    assert guard.ledger.item(new).text == "a clean note" and guard.ledger.item(new).parents == (ids["root"],)
    assert await seen(guard) == {new, ids["child"], ids["grand"]}
    await guard.repairs.undo(receipt.id)
    assert states(guard, ids) == before and await seen(guard) == set(ids.values())
    after = guard.graph.blast_radius(ids["root"])
    assert {r.id for r in after.items} >= {r.id for r in spread.items}
    assert guard.ledger.verify().ok


async def test_plans_travel_as_json(guard: Guard) -> None:
    import orjson

    ids = await tree(guard)
    plan = await guard.repairs.plan(ids["root"], "isolate", descendants=True, reason="why")
    assert engine.plan_from_json(orjson.dumps(plain(plan))) == plan
    for bad in (b"", b"{}", b"[]", b'{"repair": 3}', b"\xff"):
        with pytest.raises(InputError, match="plan"):
            engine.plan_from_json(bad)


@pytest.mark.parametrize(
    "steps",
    [
        (RepairStep("ROOT", "explode", {"was": {}}),),
        (RepairStep("ROOT", "hide"),),
        (RepairStep("ROOT", "hide", {"was": {}}), RepairStep("ROOT", "show", {"was": {}})),
        (RepairStep("ROOT", "replace", {"was": {}}),),
        (RepairStep("ROOT", "cut", {"was": {}, "parents": ["it_nowhere"]}),),
    ],
)
async def test_a_made_up_plan_is_refused(guard: Guard, steps: tuple[RepairStep, ...]) -> None:
    ids = await tree(guard)
    plan = RepairPlan("isolate", ids["root"], tuple(replace(s, item=ids["root"]) for s in steps))
    head = guard.ledger.head()
    with pytest.raises(InputError):
        await guard.repairs.apply(plan)
    assert guard.ledger.head() == head


async def test_unknown_receipts(guard: Guard) -> None:
    ids = await tree(guard)
    for wrong in ("rc_nowhere", ids["root"]):
        with pytest.raises(UnknownItem):
            await guard.repairs.undo(wrong)


async def test_a_receipt_names_the_first_of_what_a_repair_left_and_says_how_many(guard: Guard) -> None:
    root = (await guard.remember("the root note", agent="ada", parents=[])).item
    for number in range(engine.MOST_LEFT_RECORDED + 5):
        await guard.remember(f"a child note {number}", agent="bob", parents=[root])
    plan = await guard.repairs.plan(root, "isolate")
    assert len(plan.left) == plan.price["left"] == engine.MOST_LEFT_RECORDED + 5
    receipt = await guard.repairs.apply(plan)
    assert receipt.plan.left == plan.left
    recorded = engine.find_receipt(receipt.id, guard.ledger).plan
    assert list(recorded.left) == list(plan.left)[: engine.MOST_LEFT_RECORDED]
    assert recorded.price["left"] == plan.price["left"]
    await guard.repairs.undo(receipt.id)
    assert guard.ledger.state(root).visible
