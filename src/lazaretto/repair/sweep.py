"""Sweep: content that was removed in one place is looked for in all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


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
