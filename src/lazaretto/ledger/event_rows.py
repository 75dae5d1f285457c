"""Events of the store, or just written to it: a row becomes an event when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from lazaretto.errors import StoreDamaged
from lazaretto.ledger.encoding import decode_body
from lazaretto.types import Event, EventKind

EventRow = Sequence[Any]
"""A row of lz_events, its columns in the order of the table."""

_KINDS = {kind.value: kind for kind in EventKind}


def event_from(namespace: str, row: EventRow) -> Event:
    """The event in a row of lz_events."""
    _, seq, kind, subject, agent, time, _, prev, link, _, raw = row
    try:
        body = None if raw is None else decode_body(raw)
        return Event(namespace, seq, _KINDS[kind], subject, agent, time, body, prev.hex(), link.hex())
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise StoreDamaged(
            f"namespace {namespace!r}, event {seq}: cannot be read ({error}): run 'lazaretto ledger verify'"
        ) from error


class EventRows(Sequence[Event]):
    """The events that an append recorded. Each is built on access, because few callers read all of a large batch.

    Compares and adds up like a list of its events.
    """

    def __init__(self, namespace: str, rows: Sequence[EventRow]) -> None:
        self._namespace, self._rows = namespace, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> EventRows: ...
    def __getitem__(self, place: int | slice) -> Event | EventRows:
        if isinstance(place, slice):
            return EventRows(self._namespace, self._rows[place])
        return event_from(self._namespace, self._rows[place])

    def __iter__(self) -> Iterator[Event]:
        return (event_from(self._namespace, row) for row in self._rows)

    def __add__(self, other: Sequence[Event]) -> list[Event]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Event]) -> list[Event]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    def __hash__(self) -> int:
        raise TypeError("what was recorded compares like a list, and is not hashable either")

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self)} events: {shown}{', ...' if len(self) > 3 else ''}>"
