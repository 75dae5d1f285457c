"""Events that changed items, without the rulings that let items pass. Cost grows with findings, not with writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lazaretto.ledger.effects import CHANGING, ItemState, changes_of, with_change
from lazaretto.ledger.ledger import Ledger
from lazaretto.types import Event, EventKind


def changes_so_far(ledger: Ledger, kinds: Collection[EventKind], until: int) -> list[Event]:
    """The events of ``kinds`` up to ``until``, in order; of rulings only those on items that were ever held.

    Nearly every item is ruled on once, and allowed: a reader of findings need not pass over all of these. Items that
    are held now are found by an index; items that were held once are named by another event of these kinds.
    """
    others = list(ledger.events(kinds=[kind for kind in kinds if kind is not EventKind.RULED]))
    if EventKind.RULED not in kinds:
        return [event for event in others if event.seq <= until]
    named = {item for event in others for item in _items_of(event)}
    ruled = ledger.events_about({*ledger.held_items(), *named}, (EventKind.RULED,))
    return sorted((event for event in (*others, *ruled) if event.seq <= until), key=lambda event: event.seq)


def states_before(ledger: Ledger, events: Mapping[str, int]) -> dict[str, ItemState]:
    """The state of each item before an event; items that did not exist yet are left out."""
    about = ledger.events_about(events, (EventKind.SEEN, *CHANGING))
    elsewhere = ledger.events(kinds=(EventKind.REPAIRED, EventKind.UNDONE, EventKind.SUPERSEDED))
    by_seq = {event.seq: event for event in (*about, *elsewhere)}
    found: dict[str, ItemState] = {}
    for event in (by_seq[place] for place in sorted(by_seq)):
        if event.kind is EventKind.SEEN and event.seq < events[event.subject]:
            found[event.subject] = ItemState()
        for item, field, value in changes_of(event.kind, event.subject, event.body):
            if item in found and event.seq < events[item]:
                found[item] = with_change(found[item], field, value)
    return found


def _items_of(event: Event) -> set[str]:
    return {event.subject, *(item for item, _, _ in changes_of(event.kind, event.subject, event.body))}
