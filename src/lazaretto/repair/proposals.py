"""Proposals: repairs that rechecking suggests, waiting for a person who applies or dismisses them.

The ledger keeps a proposal's origin and its action for each item, and no text: the difference is worked out
when a person looks at it. Only the plan that was looked at can be applied (``work_of``).
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
from lazaretto.ledger.refs import forgotten, marked
from lazaretto.types import Draft, EventKind, RepairPlan, RepairStep, new_id, plain

WHAT = "proposal"
"""The value of ``what`` in the NOTED events of a proposal."""
_OPEN = (WHAT, "open")
"""Kind and key of waiting proposals in the ledger's index of fingerprints."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A repair that nobody has decided on."""

    id: str
    origin: str
    """The item that was held late, and from which the others were made."""
    time: float
    reason: str
    actions: Mapping[str, str]
    """Item -> its action, as of when this was proposed: cut, replace or hide."""

    @property
    def counts(self) -> dict[str, int]:
        """How many items each action would touch."""
        return dict(Counter(self.actions.values()))


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a proposal would make to one item, in words."""

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
    """Identifies exactly this work: hand it back when you apply it, so that no other work is done."""


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
    """Proposals that nobody has decided on, newest first, without those whose origin is held no longer."""
    names = {known.item: known.label for known in ledger.find_fingerprints(_OPEN[0], [_OPEN[1]])}
    states = ledger.states(names.values())
    found = [_read(name, ledger) for name, origin in names.items() if origin in states and states[origin].held]
    return tuple(
        sorted((proposal for proposal in found if proposal), key=lambda proposal: (-proposal.time, proposal.id))
    )


def find(name: str, ledger: Ledger) -> Proposal:
    """An open proposal by its id."""
    known = {known_mark.item for known_mark in ledger.find_fingerprints(_OPEN[0], [_OPEN[1]])}
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
    """Equal for plans that do the same to the same items; names of new items do not count."""
    done = sorted(orjson.dumps(plain(_work(step)), option=orjson.OPT_SORT_KEYS) for step in plan.steps)
    return hashlib.sha256(b"\n".join([plan.origin.encode(), *done])).hexdigest()


def _work(step: RepairStep) -> dict[str, Any]:
    new = step.detail.get("replacement") or {}
    work = {"item": step.item, "action": step.action, "was": step.detail.get("was")}
    return {**work, "text": new.get("text"), "fields": new.get("fields"), "parents": step.detail.get("parents")}


def changes_of(steps: Sequence[RepairStep], texts: Mapping[str, str]) -> tuple[Change, ...]:
    """Each step with the item's text before and after; ``texts``: the texts of items now."""
    found = []
    for step in steps:
        new = step.detail.get("replacement") or {}
        detail = step.detail
        why = str(detail.get("why") or detail.get("strategy") or "")
        after, before = str(new.get("text", "")), texts.get(step.item, "")
        found.append(Change(step.item, step.action, before, after, str(detail.get("difference", "")), why))
    order = ("replace", "hide", "remove", "cut", "show")
    return tuple(sorted(found, key=lambda change: (order.index(change.action), change.item)))
