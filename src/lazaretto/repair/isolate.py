"""Isolate: take an item out of recall, by choice with everything that was made from it."""

from __future__ import annotations

from lazaretto.errors import InputError
from lazaretto.repair.options import read_options
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


class Isolate:
    """Hides an item. ``descendants=True`` hides the whole tree, at most ``max_hops`` edges away."""

    name = "isolate"

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``hide`` step for the item and each descendant that is not hidden yet."""
        options = read_options(request.options, {"descendants": bool, "max_hops": int})
        max_hops = options.get("max_hops")
        if max_hops is not None and max_hops < 0:
            raise InputError("max_hops", f"is {max_hops}", "Give 0 or more")
        if not options.get("descendants", False):
            max_hops = 0
        reached = view.graph.blast_radius(request.item, max_hops=max_hops)
        items = [request.item, *(one.id for one in reached.items)]
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(item, "hide") for item in items if not view.ledger.state(item).hidden),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
            price={"decisions": float(len(reached.decisions))},
        )


def make() -> Isolate:
    """The repair."""
    return Isolate()
