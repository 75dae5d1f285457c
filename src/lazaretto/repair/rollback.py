"""Rollback: take back the newest. The published remedy for a recent infection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


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
