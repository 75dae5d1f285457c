"""The events that count: all but those that a withdrawal takes back.

A decision that is taken back stays in the chain; a ``WITHDRAWN`` event per item names, by number, the events that
count no longer. Readers of labels and rulings read through here (``Tail`` does, with ``anew``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from lazaretto.types import Event, EventKind


class Readable(Protocol):
    """The part of a ledger that readers need."""

    def events(
        self, *, after: int = 0, kinds: Iterable[EventKind] | None = None, subject: str | None = None
    ) -> Iterator[Event]:
        """Events in order."""
        ...


def taken_back(withdrawals: Iterable[Event]) -> frozenset[int]:
    """The numbers of the events that these ``WITHDRAWN`` events take back; never one that came after them."""
    return frozenset(seq for event in withdrawals for seq in (event.body or {}).get("events", ()) if seq < event.seq)


def withdrawn(ledger: Readable, after: int = 0) -> frozenset[int]:
    """The numbers of all events that were taken back after an event."""
    return taken_back(ledger.events(after=after, kinds=(EventKind.WITHDRAWN,)))


def standing_events(
    ledger: Readable, kinds: Collection[EventKind], *, subject: str | None = None, after: int = 0
) -> Iterator[Event]:
    """Events of some kinds in order, without those that were taken back."""
    if subject is None:
        gone = withdrawn(ledger, after)
        yield from (event for event in ledger.events(after=after, kinds=kinds) if event.seq not in gone)
        return
    yield from without_taken_back(ledger.events(after=after, kinds=(*kinds, EventKind.WITHDRAWN), subject=subject))


def without_taken_back(events: Iterable[Event]) -> list[Event]:
    """The events that count, of the events about one item, withdrawals included."""
    found = list(events)
    gone = taken_back(event for event in found if event.kind is EventKind.WITHDRAWN)
    return [event for event in found if event.kind is not EventKind.WITHDRAWN and event.seq not in gone]
