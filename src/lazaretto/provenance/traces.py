"""Answers of the provenance graph: small frozen records, ordered nearest first, then earliest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from numpy.typing import NDArray

from lazaretto.ledger.driver import MANY, gc_paused


class TraceStep(NamedTuple):
    """One node of a trace. A named tuple, because it is quick to make and a trace may be long."""

    id: str
    hops: int
    """Edges on the shortest way from the node asked about."""
    time: float
    """Items and decisions: when they were made. Agents: when they were first exposed."""


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """Everything that one item still reaches, or ever reached when history was asked for."""

    origin: str
    items: Sequence[TraceStep]
    """Items that came from it, directly or through others; the origin itself is not listed."""
    agents: Sequence[TraceStep]
    """Agents that read or were sent the origin or any of the items."""
    decisions: Sequence[TraceStep]
    """Reported decisions that the origin or any of the items shaped."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lineage of one item."""

    item: str
    items: Sequence[TraceStep]
    """Every ancestor; the item itself is not listed."""
    roots: tuple[str, ...]
    """The ancestors (or the item itself) that came from nothing the ledger knows."""
    writers: tuple[str, ...]
    """Agents that wrote the item or an ancestor, in order of name."""


@dataclass(frozen=True, slots=True)
class PatientZero:
    """The origin that explains most of a set of infected items."""

    item: str
    agent: str
    """The agent that wrote it; empty when the ledger never saw it written."""
    time: float
    covers: tuple[str, ...]
    """The given items that are it or came from it, in the order given."""
    share: float
    """Its share of the given items, in (0, 1]."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The ground of several items, taken together."""

    trust: float
    """The least trust of these items and of their lineages."""
    roots: frozenset[str]
    """The items that came from nothing the ledger knows."""


class Contact(NamedTuple):
    """One exposure between two agents through one item. A named tuple for the same reason as ``TraceStep``."""

    agent: str
    """The other one."""
    item: str
    direction: Literal["in", "out"]
    """``in``: the agent asked about read an item of the other. ``out``: the other read an item of it."""
    time: float


@dataclass(frozen=True, slots=True)
class OutbreakWindow:
    """One stretch of an outbreak."""

    start: float
    end: float
    cases: int
    """Agents infected within [start, end)."""
    r_effective: float | None
    """Mean number of agents that each of these cases went on to infect; None without cases."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far an item can be trusted: no further than the least trusted thing it came from."""

    value: float
    weakest: str
    """The item that sets the value; the nearest one where several do."""
    path: tuple[str, ...]
    """The path from the item asked about back to the weakest, both included."""


# Rows that are made when they are read: an answer of a hundred thousand rows costs no more than its columns.

Row = TypeVar("Row")
Column = tuple[Sequence[Any] | None, NDArray[Any]]
"""Values as they are (None), or numbers to be looked up in a sequence that only ever grows at its end."""


class LazyRows(Sequence[Row], Generic[Row]):
    """An immutable sequence of records, kept as columns. Compares and adds up like a tuple of its rows."""

    def __init__(self, make: Callable[[Iterable[Any]], Row], *columns: Column) -> None:
        self._make, self._columns = make, columns

    def __len__(self) -> int:
        return len(self._columns[0][1])

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> LazyRows[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | LazyRows[Row]:
        if isinstance(place, slice):
            return LazyRows(self._make, *((names, values[place]) for names, values in self._columns))
        picked = ((names, values[place].item()) for names, values in self._columns)
        return self._make([value if names is None else names[value] for names, value in picked])

    def _column(self, column: Column) -> list[Any]:
        names, values = column[0], column[1].tolist()
        return values if names is None else list(map(names.__getitem__, values))

    def __iter__(self) -> Iterator[Row]:
        rows = map(self._make, zip(*map(self._column, self._columns), strict=True))
        if len(self) < MANY:
            return rows
        with gc_paused(len(self)):
            return iter(list(rows))

    def __add__(self, other: Sequence[Row]) -> tuple[Row, ...]:
        return (*self, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:5]))
        return f"<{len(self)} rows: {shown}{', ...' if len(self) > 5 else ''}>"
