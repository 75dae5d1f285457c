"""Release: bring a held item back into recall, by choice with everything that is held and was made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


@dataclass(frozen=True, slots=True)
class Release:
    """Shows an item that a repair hid or a ruling held. What was superseded or erased stays away."""

    name: ClassVar[str] = "release"
    descendants: bool = False
    """Everything that is held and was made from it too."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``show`` step per held item."""
        max_hops = None if self.descendants else 0
        # what was isolated carries nothing now, so the tree is looked up as it once was
        reached = view.graph.blast_radius(request.item, max_hops=max_hops, history=True)
        steps = []
        items = (request.item, *(one.id for one in reached.items))
        states = view.ledger.states(items)
        for item in items:
            state = states[item]
            if not (state.visible or state.erased or state.superseded_by):
                steps.append(RepairStep(item, "show"))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(steps),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
        )
