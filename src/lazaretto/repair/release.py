"""Release: bring a held item back into recall, by choice with everything that is held and was made from it."""

from __future__ import annotations

from lazaretto.repair.options import read_options
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


class Release:
    """Shows an item that a repair hid or a ruling held. What was superseded or erased stays away."""

    name = "release"

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``show`` step per held item."""
        options = read_options(request.options, {"descendants": bool})
        max_hops = None if options.get("descendants", False) else 0
        # what was isolated carries nothing now, so the tree is looked up as it once was
        reached = view.graph.blast_radius(request.item, max_hops=max_hops, history=True)
        steps = []
        for item in (request.item, *(one.id for one in reached.items)):
            state = view.ledger.state(item)
            if not (state.visible or state.erased or state.superseded_by):
                steps.append(RepairStep(item, "show"))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(steps),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
        )


def make() -> Release:
    """The repair."""
    return Release()
