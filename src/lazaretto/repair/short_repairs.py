"""The short repairs: isolate, release or remove items, roll back a writer's newest, sweep up copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.errors import RepairRefused, UnknownItem
from lazaretto.ledger import ItemState
from lazaretto.repair.protocol import RepairRequest, RepairView, hops_of
from lazaretto.types import COPY_OF, EventKind, Observation, RepairPlan, RepairStep, Ruling, same_author


@dataclass(frozen=True, slots=True)
class Isolate:
    """Hides an item."""

    name: ClassVar[str] = "isolate"
    descendants: bool = False
    """Everything that came from it too: made from it, or written by an agent that had read it."""
    max_hops: Annotated[int | None, Field(ge=0)] = None
    """Descendants at most so many edges away; None: all."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``hide`` step for the item and each descendant that is not hidden yet."""
        reached = view.graph.blast_radius(request.item, max_hops=hops_of(self.descendants, self.max_hops))
        items = [request.item, *(step.id for step in reached.items)]
        states = view.ledger.states(items)
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(item, "hide") for item in items if not states[item].hidden),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
            price={"decisions": float(len(reached.decisions))},
        )


# Release: bring a held item back into recall, by choice with everything that is held and was made from it.


@dataclass(frozen=True, slots=True)
class Release:
    """Shows an item that a repair hid or a ruling held. Superseded and erased items stay away, and so does a text of
    which a part was removed: a release would hand out that part."""

    name: ClassVar[str] = "release"
    descendants: bool = False
    """Everything that is held and was made from it too."""
    copies: tuple[str, ...] = ()
    """Other items that say the same and are shown with it, if they are held."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``show`` step per held item. ``RepairRefused`` for a text of which a part was removed."""
        max_hops = None if self.descendants else 0
        # an isolated item carries nothing now, so the tree is looked up as it once was
        reached = view.graph.blast_radius(request.item, max_hops=max_hops, history=True)
        steps = []
        copies = self._same(request, view)
        items = tuple(dict.fromkeys((request.item, *(step.id for step in reached.items), *copies)))
        states = view.ledger.states(items)
        if _with_a_removed_part(request.item, states[request.item], view):
            raise RepairRefused(
                f"a part of {request.item} was removed from the text that is used instead, and a release would hand it "
                f"out. If nothing in it has to be hidden: lazaretto label {request.item} benign --by YOU; "
                f"else: lazaretto ledger erase {request.item} --reason WHY"
            )
        for item in items:
            state = states[item]
            if not (state.visible or state.erased or state.superseded_by or _with_a_removed_part(item, state, view)):
                steps.append(RepairStep(item, "show", {COPY_OF: request.item} if item in copies else {}))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(steps),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
        )

    def _same(self, request: RepairRequest, view: RepairView) -> list[str]:
        """The ``copies`` that a label on the item would settle, too."""
        settled = view.copies(view.ledger.item(request.item)) if self.copies else ()
        return [copy for copy in self.copies if copy in settled]


def _with_a_removed_part(item: str, state: ItemState, view: RepairView) -> bool:
    """Whether a gate once removed a part of it: a later ruling does not make that part public."""
    if not state.held:
        return False
    ruled = view.ledger.events(subject=item, kinds=(EventKind.RULED,))
    return any((event.body or {}).get("ruling") == Ruling.REWRITE.label for event in ruled)


# Remove: take out the items that a person, or a bisection, found.


@dataclass(frozen=True, slots=True)
class Remove:
    """Removes the given items and no others."""

    name: ClassVar[str] = "remove"
    items: tuple[str, ...] = ()
    """The items; none: the item it starts from."""
    model_calls: Annotated[int, Field(ge=0)] = 0
    """Model calls spent on finding them, for the price."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per item that is still there."""
        items = dict.fromkeys(self.items or (request.item,))
        for item in view.ledger.unknown(tuple(items)):
            raise UnknownItem(item, view.ledger.namespace, "items")
        states = view.ledger.states(items)
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(item, "remove") for item in items if not states[item].hidden),
            reason=request.reason,
            price={"model_calls": float(self.model_calls)},
        )


# Rollback: take back the newest. The published remedy for a recent infection.


@dataclass(frozen=True, slots=True)
class Rollback:
    """Removes the newest memories of the item's writer: newest as recorded, not by the date that a record claims."""

    name: ClassVar[str] = "rollback"
    entries: Annotated[int, Field(ge=1)] = 1
    """How many."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per entry, newest first."""
        origin = view.ledger.item(request.item)
        newest = _newest_of(origin, self.entries, view)
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(memory.id, "remove") for memory in newest),
            reason=request.reason,
            agents=(origin.agent,),
        )


def _newest_of(written: Observation, entries: int, view: RepairView) -> list[Observation]:
    """The newest items of an item's writer. The name alone is not the writer: another key may use it, too."""
    asked = entries
    while True:
        found = view.ledger.items(agent=written.agent, limit=asked)
        own = [item for item in found if same_author(written, item)][:entries]
        if len(own) == entries or len(found) < asked:
            return own
        asked *= 4


# Sweep: content that was removed in one place is looked for in all others.


@dataclass(frozen=True, slots=True)
class Sweep:
    """Removes every copy of an item's content, from all agents."""

    name: ClassVar[str] = "sweep"

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per visible copy: the same picture, or for texts the same words."""
        copies = view.ledger.copies(request.item)
        touched = dict.fromkeys([request.item] * (not view.ledger.state(request.item).hidden))
        touched.update(dict.fromkeys(o.id for o in copies))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(item, "remove") for item in touched),
            reason=request.reason,
            agents=tuple(sorted({o.agent for o in copies})),
        )
