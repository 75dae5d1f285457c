"""The one door every gate stands behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.types import Channel, Observation, Ruling, Verdict

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger
    from lazaretto.provenance.graph import ProvenanceGraph


@dataclass(frozen=True, slots=True)
class Budget:
    """What a gate may still spend on this item."""

    deadline: float = float("inf")
    """On ``time.monotonic()``'s clock."""
    tokens: int | None = None
    """None: no limit."""

    @property
    def seconds_left(self) -> float:
        """Time left, never negative."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class GateContext:
    """What a gate may look at besides the item: read-only, and of the item's own namespace alone."""

    ledger: Ledger
    graph: ProvenanceGraph
    settings: Mapping[str, Any]
    """The policy's table for this gate."""
    budget: Budget = Budget()
    earlier: tuple[Verdict, ...] = ()
    """Verdicts of the gates that stand before this one."""
    limits: Limits = DEFAULT_LIMITS
    """The policy's limits: no gate decodes or reads more than these."""


@runtime_checkable
class Gate(Protocol):
    """Judges one item. Raises when it cannot: the guard turns that into the policy's fail mode."""

    name: str
    channels: frozenset[Channel]
    """The channels it understands; asked about another, it counts as missing."""

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The gate's opinion of one item."""
        ...


REPAIR = "repair"
"""The gate's name in the one verdict a learner gets when a repair, not a gate, found an item; its rule names which."""
UNDONE = "undone"
"""The rule of that verdict when the repair was taken back: forget what it taught."""


@runtime_checkable
class Learner(Protocol):
    """A gate that wants to hear what became of an item: rulings, people's labels, repairs, releases."""

    def learn(self, observation: Observation, ruling: Ruling, context: GateContext) -> None:
        """``ruling`` is final for now: the guard's decision, a repair's or a person's.

        ``context.earlier`` says who found it: the gates' verdicts, one of ``REPAIR``, or none when a person spoke.
        """
        ...


@runtime_checkable
class WarmUp(Protocol):
    """A gate that has something to load before it can judge, weights for example."""

    def warm_up(self) -> None:
        """Load it. Called in a thread before the first item, whose time it does not count against."""
        ...


GateFactory = Callable[[Mapping[str, Any]], Gate]
"""Makes a gate from the policy's table for it; what the gate table and entry points name."""
