"""The protocol of a gate: the class to write, its context, and the methods it may offer besides a verdict.

A policy names a gate by the name under which it is registered: in ``policy/plugins.py`` (the shipped gates), in the
entry point group ``lazaretto.gates`` of your package, or by ``Guard.open(gates={name: gate})``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lazaretto.policy import DEFAULT_LIMITS, DEFAULT_TRUST, Limits, TrustPolicy
from lazaretto.processor_time import ProcessorTime
from lazaretto.types import Channel, Correction, Observation, Ruling, Verdict

if TYPE_CHECKING:
    from lazaretto.gates.engine.thresholds import Thresholds
    from lazaretto.ledger import Ledger
    from lazaretto.ledger.vectors import ClaimRow
    from lazaretto.provenance.graph import ProvenanceGraph


@dataclass(frozen=True, slots=True)
class Budget:
    """The time and tokens that a gate may still spend on this item."""

    deadline: float = float("inf")
    """The end of its time, on ``time.monotonic()``'s clock."""
    tokens: int | None = None
    """None: no limit."""
    processor: ProcessorTime = ProcessorTime()  # noqa: RUF009
    """Processor time left for all gates together on this item; counted where they use ``processor_time``."""

    @property
    def seconds_left(self) -> float:
        """Time left, never negative."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class GateContext:
    """The data a gate may read besides the item, of the item's own namespace.

    ``ledger`` is the guard's own: nothing keeps a gate from writing to it or from opening another namespace. A gate
    must not, and ``testing.check_gate`` finds one that adds events; gates that learn write their own indexes alone.
    """

    ledger: Ledger
    graph: ProvenanceGraph
    settings: Mapping[str, Any]
    """The policy's table for this gate."""
    budget: Budget = Budget()
    earlier: tuple[Verdict, ...] = ()
    """Verdicts of the gates before this one."""
    limits: Limits = DEFAULT_LIMITS
    """The policy's limits: no gate decodes or reads more than these."""
    trust: TrustPolicy = DEFAULT_TRUST
    """The policy's trust in each source class."""
    thresholds: Thresholds | None = None
    """Thresholds that people's labels moved; the runner applies them to the gate's verdict."""


@runtime_checkable
class Gate(Protocol):
    """Judges one item. Raises when it cannot: the guard turns that into the policy's fail mode."""

    name: str
    channels: frozenset[Channel]
    """The channels it understands; asked about another, it counts as missing."""

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The gate's opinion of one item."""
        ...


@dataclass(frozen=True, slots=True)
class SecondLook:
    """A gate's new verdict, on today's evidence, on an item that it judged before."""

    verdict: Verdict
    notes: tuple[float, ...] = ()
    """Numbers the gate stores in the ledger for its next look."""
    risk: float | None = None
    """The risk by this look alone, where the verdict's risk is made of several."""
    conflict: float | None = None
    """Contradiction by independent voices, from 0 to 1; None where the gate hears no voices."""
    likeness: float = 0.0
    """Likeness of the nearest situation of others, from which a repair could rebuild it."""


@runtime_checkable
class Reviewer(Protocol):
    """A gate whose verdict on an item changes with evidence about other items, and that can judge it again cheaply.

    Gates without it are asked through ``examine`` when memories are looked at again, and not at all when they are
    merely recalled.
    """

    def again(self, observations: Sequence[Observation], context: GateContext) -> Sequence[SecondLook | None]:
        """One answer per item, none of them a witness for itself; None where only ``examine`` can tell.

        Changes nothing: the result is recorded first, and read back from the ledger.
        """
        ...


BESIDE = "order_beside_its_text"
"""The rule for an item whose names or other fields beside its text hold an order."""
UNREAD = "too_long_to_read_whole"
"""The rule where a gate found nothing in the part of an item that it had time for."""
FOR_ITS_WRITER = frozenset({"changes_known_claim", "protected_key", "others_record", BESIDE})
"""Rules that hold an item for its writer: the same words of another writer may be true, and are not block-listed."""
BLOCKLIST, CALLED_BENIGN, NEARLY_BENIGN = "blocklist", "called_benign", "called_benign_nearly"
"""The gate that knows people's decisions, and its rules where a person called the same benign, or nearly the same."""
OVER = "over"
"""In the evidence of these: items that the benign one was known to contradict when a person spoke."""
CARRIED_BY = "carried_by"
"""In evidence about a picture: the reading of it in which something was found."""
REPAIR = "repair"
"""The gate's name in the one verdict a learner gets when a repair, not a gate, found an item; its rule names which."""
UNDONE = "undone"
"""The rule of that verdict when the repair was taken back: forget its lesson."""
WITHDRAWN = "withdrawn"
"""The rule of that verdict when a person's label was taken back. Earlier entries of the block list count again."""


MEASURED = "measured"
"""In a verdict's evidence: the numbers it was ruled by, so that the gate can rule by other rates without reading
again."""


def measured(verdict: Verdict) -> Mapping[str, Any] | None:
    """The numbers that a verdict was ruled by, where it keeps them."""
    return next((evidence.data[MEASURED] for evidence in verdict.evidence if MEASURED in evidence.data), None)


@runtime_checkable
class Tunable(Protocol):
    """A gate that can rule again under its present settings, from the numbers an old verdict keeps."""

    rates: Mapping[str, tuple[float, ...]]
    """Its settings that are rates, and the values worth trying, the mildest first."""

    @property
    def settings(self) -> Any:
        """Its settings, the rates among them by name."""
        ...

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Sequence[Verdict], trust: TrustPolicy
    ) -> Verdict | None:
        """The verdict under the settings of now; ``earlier``: those of the gates before it. None where the old one
        does not keep enough, and only reading again could tell."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A gate that is informed of later events of an item: rulings, people's labels, repairs, releases."""

    def learn(self, observation: Observation, ruling: Ruling, context: GateContext) -> None:
        """``ruling`` is final for now: the guard's decision, a repair's or a person's.

        ``context.earlier`` says who found it: the gates' verdicts, one of ``REPAIR``, or none when a person spoke.
        """
        ...


@runtime_checkable
class Indexer(Protocol):
    """A gate that reads claims in a memory when it judges it: they are kept with the memory, in one transaction."""

    def claims_of(self, observation: Observation) -> Sequence[ClaimRow]:
        """The claims of a memory that was just judged, with their places and meaning; none where it did not read any.

        Claims that are not kept here are read again when the gate next compares claims.
        """
        ...


@runtime_checkable
class WarmUp(Protocol):
    """A gate that has something to load before it can judge, weights for example."""

    def warm_up(self) -> None:
        """Load it. Called in a thread before the first item, whose time it does not count against."""
        ...


@runtime_checkable
class Finder(Protocol):
    """A gate that can find memories by meaning, besides judging them."""

    def find(self, query: str, ledger: Ledger, limit: int) -> Sequence[str]:
        """Ids of visible memories near to the query in meaning, nearest first."""
        ...


@runtime_checkable
class Corrector(Protocol):
    """A gate that knows the trusted memories' claims against those of a poisoned one."""

    def correction(
        self, poison: str, tainted: Collection[str], context: GateContext
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """A function that corrects texts which repeat a poisoned item, from memories that are not tainted.

        None where no trusted memory contradicts the poison.
        """
        ...
