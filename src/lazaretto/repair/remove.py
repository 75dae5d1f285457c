"""Remove: take out the items that a person, or a bisection, found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.errors import UnknownItem
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


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
