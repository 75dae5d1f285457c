"""Proposals: repairs that rechecking suggests, waiting for a person who applies or dismisses them.

The ledger keeps where a proposal starts and what it would do to which items, and no text: the difference is worked out
when a person looks at it. What is applied must be what was looked at (``work_of``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lazaretto.errors import RepairRefused, UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.ledger.fingerprints import forgotten, marked
from lazaretto.types import Draft, EventKind, RepairPlan, RepairStep, new_id, plain

WHAT = "proposal"
"""What the NOTED events of a proposal say they are."""
_OPEN = (WHAT, "open")
"""Under which the ledger's index of fingerprints has those that wait."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A repair that nobody has decided on."""

    id: str
    origin: str
    """The item that was held late, and from which the others were made."""
    time: float
    reason: str
    actions: Mapping[str, str]
    """Item -> what would be done to it, as it stood when this was proposed: cut, replace or hide."""

    @property
    def counts(self) -> dict[str, int]:
        """How many items each action would touch."""
        return dict(Counter(self.actions.values()))


@dataclass(frozen=True, slots=True)
class Change:
    """What a proposal would do to one item, in words."""

    item: str
    action: str
    before: str
    after: str
    """The new text; empty where the text stays or goes."""
    difference: str
    why: str


@dataclass(frozen=True, slots=True)
class ProposedRepair:
    """A proposal as it would be done now."""

    proposal: Proposal
    plan: RepairPlan
    changes: tuple[Change, ...]
    seen: str
    """Stands for exactly this work: hand it back when you apply it, so that nothing else is done."""


def proposing(plan: RepairPlan) -> tuple[str, list[Draft]]:
    """The name and the events of a new proposal."""
    name = new_id("pr")
    steps = [[step.item, step.action] for step in plan.steps]
    body = {"what": WHAT, "origin": plan.origin, "reason": plan.reason, "steps": steps}
    return name, [Draft(EventKind.NOTED, name, body=body), marked([_OPEN], name, plan.origin)]


def closing(name: str, outcome: str, by: str, why: str = "") -> list[Draft]:
    """The events that end a proposal."""
    body = {"what": WHAT, "closed": outcome, "by": by, "reason": why}
    return [Draft(EventKind.NOTED, name, body=body), forgotten(name)]


def waiting(ledger: Ledger) -> tuple[Proposal, ...]:
    """What nobody has decided on, newest first. One whose origin is held no longer has nothing to say."""
    names = {known.item: known.label for known in ledger.find_fingerprints(_OPEN[0], [_OPEN[1]])}
    states = ledger.states(names.values())
    found = [_read(name, ledger) for name, origin in names.items() if origin in states and states[origin].held]
    return tuple(sorted((one for one in found if one), key=lambda one: (-one.time, one.id)))


def find(name: str, ledger: Ledger) -> Proposal:
    """An open proposal by its id."""
    known = {one.item for one in ledger.find_fingerprints(_OPEN[0], [_OPEN[1]])}
    found = _read(name, ledger)
    if found is None:
        raise UnknownItem(name, ledger.namespace, "proposal")
    if name not in known:
        raise RepairRefused(f"{name} was decided on already")
    if not ledger.state(found.origin).held:
        raise RepairRefused(f"{name} has nothing to do any more: {found.origin} is not held")
    return found


def _read(name: str, ledger: Ledger) -> Proposal | None:
    for event in ledger.events(subject=name, kinds=(EventKind.NOTED,)):
        body = event.body or {}
        if body.get("what") == WHAT and "origin" in body:
            steps = {str(item): str(action) for item, action in body.get("steps") or ()}
            return Proposal(name, str(body["origin"]), event.time, str(body.get("reason", "")), steps)
    return None


def work_of(plan: RepairPlan) -> str:
    """What two plans share that do the same to the same items; names of new items do not count."""
    done = sorted(orjson.dumps(plain(_work(step)), option=orjson.OPT_SORT_KEYS) for step in plan.steps)
    return hashlib.sha256(b"\n".join([plan.origin.encode(), *done])).hexdigest()


def _work(step: RepairStep) -> dict[str, Any]:
    new = step.detail.get("replacement") or {}
    told = {"item": step.item, "action": step.action, "was": step.detail.get("was")}
    return {**told, "text": new.get("text"), "fields": new.get("fields"), "parents": step.detail.get("parents")}


def changes_of(steps: Sequence[RepairStep], texts: Mapping[str, str]) -> tuple[Change, ...]:
    """Each step with what the item says before and after; ``texts``: what items say now."""
    found = []
    for step in steps:
        new = step.detail.get("replacement") or {}
        told = step.detail
        why = str(told.get("why") or told.get("strategy") or "")
        after, before = str(new.get("text", "")), texts.get(step.item, "")
        found.append(Change(step.item, step.action, before, after, str(told.get("difference", "")), why))
    order = ("replace", "hide", "remove", "cut", "show")
    return tuple(sorted(found, key=lambda one: (order.index(one.action), one.item)))
