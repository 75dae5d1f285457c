"""What a repair is: something that plans. Pricing, limits, applying and undoing are the same for all (``engine``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from lazaretto.provenance.carrying import reused_content
from lazaretto.types import Correction, Observation, RepairPlan

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger
    from lazaretto.provenance.graph import ProvenanceGraph

ACTIONS = ("hide", "show", "replace", "remove", "cut")
"""What a step may do. ``replace`` carries ``detail["replacement"]`` (``engine.replacement`` makes it), ``cut`` carries
``detail["parents"]``: the items from which this one is cut off."""

PutRight = Callable[[Observation], tuple[Correction, ...]]
"""What an item repeats of a poison, put right; empty where it repeats nothing of it, not ``plain`` where it only names
a value of it."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """Which item is to be repaired, and why."""

    item: str
    """Where it starts."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RepairView:
    """What a repair may look at: read-only, and of one namespace alone."""

    ledger: Ledger
    graph: ProvenanceGraph
    carries: Callable[[Observation, Observation], str] = reused_content
    """What an item carries of a poison, in words; empty for nothing."""
    judge: Callable[[Observation], str] = lambda _: ""
    """What the gates hold against an item today; empty for nothing, and where nobody can be asked."""
    copies: Callable[[Observation], Collection[str]] = lambda _: ()
    """What says exactly the same as an item, waits, and is released with it."""
    correction: Callable[[str, Collection[str]], PutRight | None] = lambda _, __: None
    """For a poisoned item and everything that may be tainted by it: what puts right the texts that repeat it, from
    memories that are not among these; None where nothing trusted speaks against the poison."""


@runtime_checkable
class Repair(Protocol):
    """Plans a repair. It changes nothing: the engine prices, applies and undoes what it plans.

    A repair is a frozen dataclass whose fields are its options, each with a default; a field's type and
    ``pydantic.Field`` say what is allowed.
    """

    name: ClassVar[str]

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """The steps, each naming an item and an action of ``ACTIONS``."""
        ...
