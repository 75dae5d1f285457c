"""Isolate: take an item out of recall, by choice with everything that came from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.repair.protocol import RepairRequest, RepairView, hops_of
from lazaretto.types import RepairPlan, RepairStep


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
