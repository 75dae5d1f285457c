"""The way of every repair: plan and price (``prepare``), dry run (``preview``), ``apply`` with a receipt, ``undo``.

A plan carries the state of each item it touches. Applying compares these with the ledger inside the transaction, so a
plan is applied to the states it was made for, as a whole or not at all; likewise undoing.

The effect of a step on an item is in four places: the state that the store derives from the receipt
(``ledger/effects.py``), the events that follow the receipt (``_drafts``), the state that is expected after all of
them (``_state_after``; a test compares both), and cut edges (``provenance/index.py``).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from lazaretto.errors import InputError, RepairRefused, StaleState, UnknownItem
from lazaretto.ledger import ItemState, Ledger, seen_draft
from lazaretto.ledger.contents import content_of
from lazaretto.ledger.effects import restored_by
from lazaretto.ledger.reader import standing_events
from lazaretto.policy import RepairLimits
from lazaretto.provenance.taint import MADE_FROM, REPEATS, held_for_taint, spread_of
from lazaretto.repair.protocol import ACTIONS, Repair, RepairRequest, RepairView
from lazaretto.types import (
    COPY_OF,
    MACHINE,
    Cost,
    Draft,
    Event,
    EventKind,
    MemoryFields,
    Observation,
    Receipt,
    RepairPlan,
    RepairStep,
    Ruling,
    new_id,
    plain,
)

_WHY = {
    MADE_FROM: "it was made from an item that is taken out",
    REPEATS: "it repeats part of an item that is taken out",
}
MOST_LEFT_RECORDED = 20
"""Items that a receipt names of those a repair left; how many there were stands in its price."""
_TRIES = 50
"""How often other repairs may overtake an undo before it gives up."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of one step."""

    step: RepairStep
    before: ItemState
    after: ItemState


def prepare(repair: Repair, request: RepairRequest, view: RepairView, limits: RepairLimits) -> RepairPlan:
    """The repair's plan, with the states it rests on, its price, and the assurance that it is inside the limits."""
    view.ledger.state(request.item)  # an unknown item is refused before anything is worked out
    planned = repair.plan(request, view)
    states = view.ledger.states(step.item for step in planned.steps)
    _refuse_unknown(planned, states, view.ledger)
    steps = tuple(with_state(step, states) for step in planned.steps)
    if not steps:
        raise RepairRefused(f"{planned.repair}: nothing to do for {planned.origin}; it already is as asked")
    authors = {o.agent for o in view.ledger.items(ids=[s.item for s in steps], any_state=True, limit=None)}
    agents = tuple(dict.fromkeys((*planned.agents, *sorted(authors))))
    benign = sum(_harmless(_state_before(step)) for step in steps if step.item != planned.origin)
    price = {
        "items": float(len(steps)),
        "agents": float(len(agents)),
        "benign_at_risk": float(benign),
        "model_calls": 0.0,
    }
    plan = replace(planned, steps=steps, agents=agents, price={**price, **planned.price})
    check_limits(plan, limits)
    left = dict(list({**_left(plan, view, limits.max_items), **planned.left}.items())[: limits.max_items])
    return replace(plan, left=left, price={**plan.price, "left": float(len(left))})


def _left(plan: RepairPlan, view: RepairView, most: int) -> dict[str, str]:
    """Items that came from those the plan takes out and that it does not touch; the nearest, if there are many."""
    gone = [step.item for step in plan.steps if step.action in ("hide", "remove", "replace")]
    most += len(plan.steps)
    spread = spread_of(gone, view.ledger, view.graph, carries=view.carries, most=most)
    touched = {step.item for step in plan.steps}
    made = {item: f"{_WHY[verdict.rule]}, and is not part of this repair" for item, verdict in spread.tainted.items()}
    return {item: why for item, why in {**made, **spread.met}.items() if item not in touched}


def check_limits(plan: RepairPlan, limits: RepairLimits) -> None:
    """``RepairRefused`` for a plan that is too wide."""
    if len(plan.steps) > limits.max_items:
        raise RepairRefused(
            f"{plan.repair} would touch {len(plan.steps):,} items; the policy allows {limits.max_items:,} "
            "(repair.max_items)"
        )
    if len(plan.agents) > limits.max_agents:
        raise RepairRefused(
            f"{plan.repair} would affect {len(plan.agents):,} agents; the policy allows {limits.max_agents:,} "
            "(repair.max_agents)"
        )


def preview(plan: RepairPlan, ledger: Ledger) -> tuple[Preview, ...]:
    """The changes that the plan would make now; nothing is changed. A stale plan is refused as by ``apply``."""
    check_plan(plan, ledger)
    _refuse_stale(plan, ledger)
    return tuple(Preview(step, before := _state_before(step), _state_after(before, step)) for step in plan.steps)


def apply(
    plan: RepairPlan,
    ledger: Ledger,
    limits: RepairLimits,
    also: Sequence[Draft] = (),
    states: Mapping[str, ItemState] | None = None,
    no_label_after: int | None = None,
    by: str = "",
) -> Receipt:
    """Apply the plan, as a whole, and return the receipt. ``by`` applies it, and is recorded.

    ``also`` is recorded with it or not at all, and only while items stand as in ``states``; nothing is recorded if a
    person labelled one of them after the event ``no_label_after``.
    """
    check_limits(plan, limits)
    check_plan(plan, ledger)
    receipt, drafts = drafted(plan, ledger, by)
    try:
        stood = {**(states or {}), **states_before(plan)}
        ledger.append([*drafts, *also], states=stood, no_label_after=no_label_after)
    except StaleState:
        _refuse_stale(plan, ledger)  # says which item, or that it is unknown
        raise RepairRefused(f"{plan.repair}: its items changed while it was applied; plan it again") from None
    return receipt


def cleared_by(plan: RepairPlan) -> list[str]:
    """Items that a plan brings back: shown, released, or held now and replaced by a new text."""
    return [
        step.item
        for step in plan.steps
        if step.action == "show" or _releases(step) or (step.action == "replace" and _state_before(step).held)
    ]


def states_before(plan: RepairPlan) -> dict[str, ItemState]:
    """The states that a plan was made for."""
    return {step.item: _state_before(step) for step in plan.steps}


def drafted(plan: RepairPlan, ledger: Ledger, by: str = "") -> tuple[Receipt, list[Draft]]:
    """A plan's receipt and the events that apply it, for a caller that appends them together with others."""
    started = time.perf_counter()
    receipt = Receipt(
        plan=plan,
        before={step.item: state_hash(_state_before(step)) for step in plan.steps},
        after={step.item: state_hash(_state_after(_state_before(step), step)) for step in plan.steps},
        cost=Cost(ms=(time.perf_counter() - started) * 1000, calls=int(plan.price.get("model_calls", 0))),
        time=time.time(),
        by=by,
    )
    return receipt, _drafts(receipt, ledger)


def undo(
    receipt_id: str,
    ledger: Ledger,
    also: Callable[[Sequence[str]], Sequence[Draft]] = lambda _items: (),
    by: str = "",
) -> Receipt:
    """Put everything back as it was before the receipt's repair; of one that was undone in part, the rest.

    ``also(items)`` gets the items that can be used after the undoing, and returns further events of its transaction.
    ``by`` is recorded.

    Refused when all of it was undone already, when an item or the text that took its place has changed since (held,
    labelled, replaced, erased), and when a later repair that still stands touches one of its items: that one has to be
    undone first.
    """
    for _ in range(_TRIES):
        seq = ledger.head().seq
        receipt = find_receipt(receipt_id, ledger)
        if receipt.undone:
            raise RepairRefused(f"{receipt_id} was already undone")
        _refuse_overtaken(receipt, ledger)
        steps = standing_steps(receipt)
        restored = {item: state for step in steps for item, state in undoing(step).items()}
        now = ledger.states(restored)
        for step in steps:
            if changed := changed_since(step, now):
                raise RepairRefused(f"{changed} has changed since {receipt_id}; plan a new repair instead")
        draft = undone_draft(receipt_id, restored, by)
        free = [step.item for step in steps if not _state_before(step).held]
        try:
            ledger.append([draft, *also(free)], states=now, no_repair_after=seq, no_label_after=seq)
        except StaleState:
            continue  # something came in between: does it touch our items?
        return _with_restored(receipt, [step.item for step in receipt.plan.steps])
    raise RepairRefused(f"{receipt_id}: other repairs keep coming in; nothing was changed, try again")


def undoing(step: RepairStep) -> dict[str, dict[str, Any]]:
    """The states that undoing a step restores, by item, as an event records them."""
    restored = {step.item: dict(step.detail["was"])}
    if step.action == "replace":
        restored[str(step.detail["replacement"]["id"])] = {"hidden": True}
    return restored


def changed_since(step: RepairStep, now: Mapping[str, ItemState]) -> str:
    """The item of a step that is not as the step left it: the item itself, or the text that took its place and is out
    of use; empty if it can be undone."""
    if now.get(step.item) != _state_after(_state_before(step), step):
        return step.item
    new = str(step.detail["replacement"]["id"]) if step.action == "replace" else ""
    return new if new and (new not in now or not now[new].visible) else ""


def undone_draft(receipt: str, restored: Mapping[str, Mapping[str, Any]], by: str = "") -> Draft:
    """The event that undoes a repair for the items in ``restored``."""
    return Draft(EventKind.UNDONE, receipt, body={"restored": restored, **({"by": by} if by else {})})


def _refuse_overtaken(receipt: Receipt, ledger: Ledger) -> None:
    items = {step.item for step in standing_steps(receipt)}
    seq = next(event.seq for event in ledger.events(subject=receipt.id, kinds=(EventKind.REPAIRED,)))
    for other in receipts(ledger, after=seq):
        if items & {step.item for step in standing_steps(other)}:
            raise RepairRefused(f"{other.id} has repaired the same items since {receipt.id}; undo that one first")
    for event in standing_events(ledger, (EventKind.LABELLED,), after=seq):
        if event.subject in items:
            raise RepairRefused(f"{event.subject} was labelled since {receipt.id} ({event.seq}); take that back first")
    shown = [step.item for step in standing_steps(receipt) if _state_before(step).visible]
    for item, event in condemned_since(shown, seq, ledger).items():
        raise RepairRefused(
            f"{event.subject} says the same as {item} and was called harmful since {receipt.id} ({event.seq}); "
            "take that back first"
        )


def condemned_since(items: Collection[str], seq: int, ledger: Ledger) -> dict[str, Event]:
    """The items whose very content a person called harmful after an event, each with that label."""
    labels = [
        event
        for event in standing_events(ledger, (EventKind.LABELLED,), after=seq)
        if (event.body or {}).get("label") == "harmful" and COPY_OF not in (event.body or {})
    ]
    if not labels or not items:
        return {}
    ids = [*items, *(event.subject for event in labels)]
    known = ledger.items(ids=list(dict.fromkeys(ids)), any_state=True, limit=None)
    contents = {item.id: content_of(item) for item in known if item.text or item.image}
    newest = {contents[event.subject]: event for event in labels if event.subject in contents}
    return {item: newest[contents[item]] for item in items if contents.get(item) in newest}


def find_receipt(receipt_id: str, ledger: Ledger) -> Receipt:
    """A receipt by its id."""
    found: Receipt | None = None
    restored: set[str] = set()
    for event in ledger.events(subject=receipt_id, kinds=(EventKind.REPAIRED, EventKind.UNDONE)):
        if event.kind is EventKind.UNDONE:
            restored |= restored_by(event)
        elif event.body is not None:
            found = _receipt_of(event.body)
    if found is None:
        raise UnknownItem(receipt_id, ledger.namespace, "receipt")
    return _with_restored(found, restored)


def receipts(ledger: Ledger, after: int = 0) -> tuple[Receipt, ...]:
    """Every repair of this namespace, oldest first; only those past the event ``after``."""
    found: dict[str, Receipt] = {}
    restored: dict[str, set[str]] = {}
    for event in ledger.events(after=after, kinds=(EventKind.REPAIRED, EventKind.UNDONE)):
        if event.kind is EventKind.REPAIRED and event.body is not None:
            found[event.subject] = _receipt_of(event.body)
        elif event.subject in found:
            restored.setdefault(event.subject, set()).update(restored_by(event))
    return tuple(_with_restored(receipt, restored.get(name, ())) for name, receipt in found.items())


def standing_steps(receipt: Receipt) -> tuple[RepairStep, ...]:
    """The steps of a repair that were not undone."""
    return tuple(step for step in receipt.plan.steps if step.item not in receipt.restored)


def _with_restored(receipt: Receipt, items: Collection[str]) -> Receipt:
    """The receipt with those of its items that are as before the repair."""
    restored = tuple(step.item for step in receipt.plan.steps if step.item in items)
    return replace(receipt, restored=restored, undone=len(restored) == len(receipt.plan.steps))


def state_hash(state: ItemState) -> str:
    """The digest of how an item stands."""
    return hashlib.sha256(orjson.dumps(plain(asdict(state)), option=orjson.OPT_SORT_KEYS)).hexdigest()


def plan_from_json(data: bytes | str) -> RepairPlan:
    """A plan that was written to a file as JSON."""
    try:
        plan: RepairPlan = _reader(RepairPlan).validate_json(data)
        return plan
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "(file)"
        raise InputError(f"plan: {place}", first["msg"], "Give the JSON that 'repair plan' wrote") from None


def replacement(old: Observation, text: str) -> dict[str, Any]:
    """The detail of a ``replace`` step: the new item, made from the old one."""
    return {"id": new_id(), "text": text, "agent": old.agent}


@cache
def _reader(kind: type) -> TypeAdapter[Any]:
    """The reader of plans, made when it is first needed."""
    return TypeAdapter(kind)


def _receipt_of(body: Mapping[str, Any]) -> Receipt:
    receipt: Receipt = _reader(Receipt).validate_python(body)
    return receipt


def check_plan(plan: RepairPlan, ledger: Ledger) -> None:
    """``InputError`` for a plan that no repair wrote."""
    items = [step.item for step in plan.steps]
    if not items:
        raise InputError("plan.steps", "are none", "Plan a repair that has something to do")
    if not all(math.isfinite(cost) for cost in plan.price.values()):
        raise InputError("plan.price", "holds a number that is not finite", "Plan it again")
    if len(set(items)) != len(items):
        raise InputError("plan.steps", "touch an item twice", "One step per item")
    for step in plan.steps:
        if step.action not in ACTIONS:
            raise InputError("plan.steps", f"unknown action {step.action!r}", f"Use {', '.join(ACTIONS)}")
        if not isinstance(step.detail.get("was"), Mapping):
            raise InputError("plan.steps", f"the step for {step.item} lacks the state it was made for", "Plan it again")
        try:
            _state_before(step)
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(
                "plan.steps", f"the state of {step.item} cannot be read ({error})", "Plan it again"
            ) from None
        if step.action == "cut":
            parents = step.detail.get("parents")
            if not isinstance(parents, (list, tuple)) or not parents:
                raise InputError(
                    "plan.steps", f"the step for {step.item} does not say from what to cut it", "Plan it again"
                )
            for parent in ledger.unknown([str(parent) for parent in parents]):
                raise UnknownItem(parent, ledger.namespace, "plan.steps")
            if _releases(step) and not held_for_taint(step.item, ledger):
                problem = f"the step for {step.item} would free it, and it is held for more than its descent"
                raise InputError("plan.steps", problem, "Release it, or plan it again")
        new = step.detail.get("replacement", {})
        if (step.action == "replace" or "replacement" in step.detail) and not _is_replacement(new):
            raise InputError("plan.steps", f"the step for {step.item} lacks its replacement", "Plan it again")
        if step.action == "replace":
            for parent in ledger.unknown(list(new.get("parents", ()))):
                raise UnknownItem(parent, ledger.namespace, "plan.steps")
        if step.action == "replace" and new["agent"] != ledger.item(step.item).agent:
            raise InputError("plan.steps", f"the replacement of {step.item} has another author", "Plan it again")
        if step.action == "replace" and "fields" in new:
            try:
                _reader(MemoryFields).validate_python(new["fields"])
            except ValidationError as error:
                problem = f"the new record of {step.item}: {error.errors()[0]['msg']}"
                raise InputError("plan.steps", problem, "Plan it again") from None


def _is_replacement(new: Any) -> bool:
    """Whether a step has the new text, its writer and its sources."""
    if not isinstance(new, Mapping) or not all(isinstance(new.get(key), str) for key in ("id", "text", "agent")):
        return False
    parents = new.get("parents", ())
    return isinstance(parents, (list, tuple)) and all(isinstance(parent, str) for parent in parents)


def with_state(step: RepairStep, states: Mapping[str, ItemState]) -> RepairStep:
    """The step with the state it was made for."""
    return replace(step, detail={**step.detail, "was": plain(asdict(states[step.item]))})


def _state_before(step: RepairStep) -> ItemState:
    was = step.detail["was"]
    word = was.get("ruling")
    return ItemState(
        hidden=bool(was.get("hidden")),
        superseded_by=was.get("superseded_by"),
        erased=bool(was.get("erased")),
        ruling=None if word is None else Ruling.from_label(word),
    )


def _state_after(before: ItemState, step: RepairStep) -> ItemState:
    if step.action in ("hide", "remove"):
        return replace(before, hidden=True)
    if step.action == "show" or _releases(step):
        return replace(before, hidden=False, ruling=Ruling.ALLOW)
    if step.action == "replace":
        return replace(before, superseded_by=step.detail["replacement"]["id"])
    return before


def _releases(step: RepairStep) -> bool:
    """Whether cutting an item loose brings it back: it was held only for the items it is cut from."""
    return step.action == "cut" and step.detail.get("frees") is True


def _harmless(state: ItemState) -> bool:
    return state.ruling is None or state.ruling <= Ruling.WARN


def _refuse_stale(plan: RepairPlan, ledger: Ledger) -> None:
    states = ledger.states(step.item for step in plan.steps)
    _refuse_unknown(plan, states, ledger)
    for step in plan.steps:
        if states[step.item] != _state_before(step):
            raise _stale(step.item)


def _refuse_unknown(plan: RepairPlan, states: Mapping[str, ItemState], ledger: Ledger) -> None:
    for step in plan.steps:
        if step.item not in states:
            raise UnknownItem(step.item, ledger.namespace, "plan.steps")


def _stale(item: str) -> RepairRefused:
    return RepairRefused(f"the plan is stale: {item} has changed since it was made; plan it again")


def receipt_draft(receipt: Receipt) -> Draft:
    """The event that records a repair."""
    return Draft(EventKind.REPAIRED, receipt.id, body=plain(_as_recorded(receipt)))


def _drafts(receipt: Receipt, ledger: Ledger) -> list[Draft]:
    """New items first, then the receipt, then the events that follow from it."""
    brought: list[Draft] = []
    follow: list[Draft] = []
    for step in receipt.plan.steps:
        if step.action == "show":
            copied = {COPY_OF: step.detail[COPY_OF]} if COPY_OF in step.detail else {}
            follow.append(Draft(EventKind.RELEASED, step.item, body={"receipt": receipt.id, **copied}))
        elif _releases(step):
            follow.append(Draft(EventKind.RELEASED, step.item, body={"by": MACHINE, "receipt": receipt.id}))
        elif step.action == "replace":
            new, old = step.detail["replacement"], ledger.item(step.item)
            fields = _reader(MemoryFields).validate_python(new["fields"]) if "fields" in new else old.fields
            made = replace(
                old, id=new["id"], text=new["text"], agent=new["agent"], fields=fields,
                parents=(old.id, *new.get("parents", ())), time=receipt.time,
            )  # fmt: skip
            brought.append(seen_draft(made))
            follow.append(Draft(EventKind.SUPERSEDED, new["id"], new["agent"], {"old": step.item}))
    return [*brought, receipt_draft(receipt), *follow]


_CONTENT = ("difference", "was_action", "values")
"""Quotations of the item in a step: shown with the plan, never recorded."""


def _as_recorded(receipt: Receipt) -> Receipt:
    """The receipt as it is recorded: quotations of a step stand in the items alone, and go with them. Of the items that
    the repair left only the first are named: every process reads every receipt."""
    steps = tuple(replace(step, detail=_without_content(step.detail)) for step in receipt.plan.steps)
    left = dict(list(receipt.plan.left.items())[:MOST_LEFT_RECORDED])
    return replace(receipt, plan=replace(receipt.plan, steps=steps, left=left))


def _without_content(detail: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in detail.items() if key not in _CONTENT}
    if "replacement" in kept:
        kept["replacement"] = {key: kept["replacement"][key] for key in ("id", "agent")}
    return kept


# When an item turns out to be fine, the repairs made because of it are taken back: item by item, unless an item was
# changed since.

STAYS = frozenset({"release", "rollback"})
"""Repairs that do not follow from a suspicion against the item they start from."""


@dataclass(slots=True)
class TakenBack:
    """Events to append, and the states they rest on."""

    drafts: list[Draft] = field(default_factory=list)
    states: dict[str, ItemState] = field(default_factory=dict)
    """The states that the drafts were made for: append them with these or not at all."""
    shown: list[str] = field(default_factory=list)
    """Items that are usable again afterwards."""
    left: list[str] = field(default_factory=list)
    """Items that were changed since: they stay as they are."""
    receipts: list[str] = field(default_factory=list)
    """Repairs that are undone by it, wholly or in part."""
    by: str = ""


def taking_back(origins: Collection[str], ledger: Ledger, without: Collection[str] = (), by: str = "") -> TakenBack:
    """Events that take back every repair that started from these items; items in ``without`` stay as they are. ``by``
    is recorded."""
    found = TakenBack(by=by)
    touched = set(without)  # and by later repairs that stand
    for receipt in reversed(receipts(ledger)):
        standing = {step.item for step in standing_steps(receipt)}
        follows = receipt.plan.origin in origins and receipt.plan.repair not in STAYS
        if follows and standing - set(origins):  # the item itself is decided elsewhere
            seq = next(event.seq for event in ledger.events(subject=receipt.id, kinds=(EventKind.REPAIRED,)))
            _undo(receipt, touched | condemned_since(standing, seq, ledger).keys(), set(origins), ledger, found)
        else:
            touched |= standing
    return found


def _undo(receipt: Receipt, touched: set[str], origins: set[str], ledger: Ledger, found: TakenBack) -> None:
    steps = [step for step in standing_steps(receipt) if step.item not in origins]
    now = ledger.states([item for step in steps for item in undoing(step)])
    restored: dict[str, dict[str, Any]] = {}
    for step in steps:
        if step.item in touched or step.item in found.states or changed_since(step, now):
            found.left.append(step.item)
            continue
        undone = undoing(step)
        restored |= undone
        found.states |= {item: now[item] for item in undone}
        before = states_before(receipt.plan)[step.item]
        if before.visible and not now[step.item].visible:
            found.shown.append(step.item)
    if not restored:
        return  # it still stands, and can be undone by hand
    found.receipts.append(receipt.id)
    found.drafts.append(undone_draft(receipt.id, restored, found.by))
