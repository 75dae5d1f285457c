"""Rows that are made when they are read: an answer of a hundred thousand rows costs no more than its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from numpy.typing import NDArray

from lazaretto.ledger.driver import MANY, gc_paused

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
