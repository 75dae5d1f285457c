"""The short repairs: isolate, release or remove chosen items, roll back the newest, sweep; and the search by halves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.errors import InputError, RepairRefused, UnknownItem
from lazaretto.ledger import ItemState
from lazaretto.repair.protocol import RepairRequest, RepairView, hops_of
from lazaretto.types import COPY_OF, EventKind, RepairPlan, RepairStep, Ruling


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
    """Removes the newest memories of the item's writer."""

    name: ClassVar[str] = "rollback"
    entries: Annotated[int, Field(ge=1)] = 1
    """How many."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per entry, newest first."""
        agent = view.ledger.item(request.item).agent
        held = sorted(view.ledger.items(agent=agent, limit=None), key=lambda o: (o.time, o.id), reverse=True)
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(memory.id, "remove") for memory in held[: self.entries]),
            reason=request.reason,
            agents=(agent,),
        )


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


# A search for infected memories: test halves, remove the infected ones, and test the rest again.
#
# The test is a function: would an agent that held only these memories be infected? Several viruses are several
# branches; a hidden one is found when the rest is tested.

Infected = Callable[[tuple[str, ...]], Awaitable[bool]]
"""Would an agent with just these memories be infected?"""


@dataclass(frozen=True, slots=True)
class BisectionResult:
    """The result of a search."""

    removed: tuple[str, ...]
    tests: int
    clean: bool
    """Whether the test found the rest healthy, after the last removal."""


class _Search:
    def __init__(self, infected: Infected, smallest: int, most_tests: int) -> None:
        self.infected, self.smallest, self.most_tests = infected, smallest, most_tests
        self.tests = 0

    async def test(self, keys: tuple[str, ...]) -> bool:
        if not keys:
            return False
        self.tests += 1
        return await self.infected(keys)

    async def find(self, keys: tuple[str, ...], known: bool = False) -> list[str]:
        """The published recursion: clean, stop; small, remove; else halve."""
        if not keys or self.tests >= self.most_tests or not (known or await self.test(keys)):
            return []
        if len(keys) <= self.smallest:
            return list(keys)
        half = len(keys) // 2
        return [*await self.find(keys[:half]), *await self.find(keys[half:])]

    async def leave_one_out(self, keys: tuple[str, ...]) -> list[str]:
        """If halves look healthy and the whole does not: the one without which the rest is healthy."""
        for key in keys:
            if self.tests >= self.most_tests:
                break
            if not await self.test(tuple(other for other in keys if other != key)):
                return [key]
        return []


async def bisect(
    keys: Sequence[str], infected: Infected, *, smallest: int = 2, verify: bool = True, most_tests: int = 200
) -> BisectionResult:
    """The ``keys`` to remove. ``smallest``: size at which a set is removed whole (2 as published; 1 spares more).

    With ``verify``, the rest is tested after every removal and searched again while it is infected.
    """
    if smallest < 1:
        raise InputError("smallest", f"is {smallest}", "Give 1 or more")
    left = tuple(dict.fromkeys(keys))
    search, removed, clean = _Search(infected, smallest, most_tests), [], False
    while not (clean := not await search.test(left)):
        found = await search.find(left, known=True)
        if not found and verify:
            # another split: memories that hid each other in one half may now stand apart
            found = await search.find((*left[0::2], *left[1::2]), known=True) or await search.leave_one_out(left)
        if not found:
            break
        removed += found
        left = tuple(key for key in left if key not in set(found))
        if not verify:
            break
    return BisectionResult(tuple(removed), search.tests, clean)


async def published_search(keys: Sequence[str], infected: Infected, smallest: int = 2) -> tuple[str, ...]:
    """The search as published: down to sets of ``smallest``, without a second look at the rest."""
    return (await bisect(keys, infected, smallest=smallest, verify=False)).removed
