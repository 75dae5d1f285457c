"""What a repair is: something that plans. Pricing, limits, applying and undoing are the same for all (``frame``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lazaretto.types import RepairPlan

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger
    from lazaretto.provenance.graph import ProvenanceGraph

ACTIONS = ("hide", "show", "replace", "remove", "cut")
"""What a step may do. ``replace`` carries ``detail["replacement"]`` (``frame.replacement`` makes it), ``cut`` carries
``detail["parent"]``."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What somebody wants repaired."""

    item: str
    """Where it starts."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The repair's own choices, for example ``{"descendants": True}``."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RepairView:
    """What a repair may look at: read-only, and of one namespace alone."""

    ledger: Ledger
    graph: ProvenanceGraph


@runtime_checkable
class Repair(Protocol):
    """Plans a repair. It changes nothing: the frame prices, applies and undoes what it plans."""

    name: str

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """The steps, each naming an item and an action of ``ACTIONS``."""
        ...


RepairFactory = Callable[[], Repair]
"""What the repair table and entry points name."""
