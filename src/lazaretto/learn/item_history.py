"""The recorded history of an item: people's decisions on it, decisions handed on to it as a copy, rulings of gates.

A person's decision is a label or a release. It counts until it is taken back, its release is undone, or a person
decides again on the same item. Events with ``copy_of`` hand it on to copies and count as long as it does, even after
the original was erased: these events name the decision by its number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lazaretto.ledger import Ledger
from lazaretto.ledger.item_state import restored_by
from lazaretto.ledger.standing import taken_back
from lazaretto.provenance.taint import BECAUSE, FOR_DESCENT
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Event, EventKind, Ruling

WORD = "word"
"""Key in the body of an event that hands a decision on to a copy again: the number of that earlier decision."""
_KINDS = (EventKind.LABELLED, EventKind.RULED, EventKind.RELEASED, EventKind.WITHDRAWN)


class ItemHistory:
    """The events about one item, sorted by kind and by whether they still count."""

    def __init__(self, events: Iterable[Event], undone: Collection[str]) -> None:
        """``undone``: receipts of repairs that were undone for this item."""
        recorded = sorted(events, key=lambda event: event.seq)
        back = [event for event in recorded if event.kind is EventKind.WITHDRAWN]
        gone = taken_back(back)
        aside = taken_back(event for event in back if COPY_OF in (event.body or {}))
        stand = [
            event
            for event in recorded
            if event.kind is not EventKind.WITHDRAWN and event.seq not in gone and _receipt(event) not in undone
        ]
        labels = {event.seq for event in recorded if event.kind is EventKind.LABELLED}
        self.decisions = [event for event in stand if _is_own(event) and not _belongs_to(event, labels)]
        """People's decisions on the item itself; the last one counts. A release that belongs to a label is left out."""
        descent = [event for event in stand if _for_descent(event)]
        self.tainted = bool(descent) and descent[-1].kind is EventKind.RULED
        """Whether the item is held for an item that it came from, since it was judged."""
        gates = [event for event in stand if _by_gates(event)]
        self.ruling: Mapping[str, Any] | None = gates[-1].body if gates else None
        """The last ruling of gates on the content, or the release by a recheck."""
        self.ruled = gates[-1].seq if gates else 0
        received = [event for event in stand if event.seq > self.ruled and _is_handed_on(event)]
        self.received = received if any(map(hands_on_decision, received)) else []
        """Decisions handed on to the item as a copy since ``ruled``, with the rulings and releases beside them."""
        self._labels = [event.seq for event in recorded if event.kind is EventKind.LABELLED and _is_own(event)]
        since = self.received[0].seq if self.received else 0
        until = max((event.seq for event in descent if event.kind is EventKind.RELEASED), default=0)
        self.passed = [event.seq for event in descent if 0 < since < event.seq <= until]
        """Rulings since then for an item that it came from, and the releases that ended them."""
        handed_on = [event for event in recorded if hands_on_decision(event) and _receipt(event) not in undone]
        self.offered = [event for event in handed_on if event.seq not in gone or event.seq in aside]
        """Every decision ever handed on to the item as a copy, without those taken back from it alone."""
        self.refused = [event for event in handed_on if event.seq in gone - aside]
        """Decisions handed on to the item as a copy and taken back from it alone."""

    @property
    def flagged(self) -> bool:
        """Whether gates hold the item, or would hold it, for its content or for an item that it came from."""
        return self.tainted or flags(self.ruling)

    def counts(self, decision: int | str, since: int) -> bool:
        """Whether a decision on this item counts: a label by its number, a release by its receipt (from ``since``)."""
        if isinstance(decision, int):
            return bool(self.decisions) and self.decisions[-1].seq == decision
        return all(event.seq < since or _receipt(event) == decision for event in self.decisions)

    @property
    def newest_label(self) -> int:
        """The number of the last label of this item, taken back or not; 0: none."""
        return self._labels[-1] if self._labels else 0

    def last_label(self, before: int) -> int:
        """The number of the last label of this item before an event, taken back or not; 0: none."""
        return max((seq for seq in self._labels if seq < before), default=0)


class ItemHistories:
    """Reads the ``ItemHistory`` of many items at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of(self, items: Collection[str]) -> dict[str, ItemHistory]:
        """The history of each item."""
        events: dict[str, list[Event]] = {item: [] for item in items}
        for event in self._ledger.events_about(items, _KINDS) if items else ():
            events[event.subject].append(event)
        receipts = {name for about in events.values() for event in about if (name := _receipt(event))}
        undone = self._ledger.events_about(receipts, (EventKind.UNDONE,)) if receipts else ()
        return {
            item: ItemHistory(about, {event.subject for event in undone if item in restored_by(event)})
            for item, about in events.items()
        }


def flags(body: Mapping[str, Any] | None) -> bool:
    """Whether a recorded ruling holds its item, or would."""
    ruling = (body or {}).get("would") or (body or {}).get("ruling")
    return ruling is not None and Ruling.from_label(str(ruling)) > Ruling.WARN


def origin(event: Event) -> str:
    """The original: the item whose decision was handed on to a copy."""
    return str((event.body or {}).get(COPY_OF, ""))


def decision_of(event: Event, original: ItemHistory) -> int | str:
    """The decision that an event handed on: a label by its number, a release by its receipt.

    ``original`` is the history of the item that the person decided on.
    """
    number = (event.body or {}).get(WORD)
    return _receipt(event) or (int(number) if number is not None else original.last_label(event.seq))


def _receipt(event: Event) -> str:
    return str((event.body or {}).get("receipt", "")) if event.kind is EventKind.RELEASED else ""


def _is_own(event: Event) -> bool:
    """Whether an event is a person's decision on the item itself; assumed for an erased label."""
    body = event.body or {}
    if COPY_OF in body:
        return False
    return event.kind is EventKind.LABELLED or (event.kind is EventKind.RELEASED and body.get("by") != MACHINE)


def _belongs_to(event: Event, labels: Collection[int]) -> bool:
    """Whether an event is the release that was recorded with a label."""
    return event.kind is EventKind.RELEASED and not _receipt(event) and event.seq - 1 in labels


def _for_descent(event: Event) -> bool:
    """Whether an event held or released an item only for an item that it came from."""
    body = event.body or {}
    if event.kind is EventKind.RULED:
        return str(body.get("rule", "")).startswith(FOR_DESCENT) and not body.get("runs")
    return event.kind is EventKind.RELEASED and body.get("by") == MACHINE and BECAUSE in body


def _by_gates(event: Event) -> bool:
    body = event.body or {}
    if _for_descent(event):
        return False
    if event.kind is EventKind.RELEASED:
        return body.get("by") == MACHINE
    return event.kind is EventKind.RULED and not str(body.get("rule", "")).startswith(BY_PERSON)


def _is_handed_on(event: Event) -> bool:
    by_person = event.kind is EventKind.RULED and not _for_descent(event)
    return COPY_OF in (event.body or {}) or by_person


def hands_on_decision(event: Event) -> bool:
    """Whether an event hands a decision on to a copy; the release that belongs to a label does not."""
    return COPY_OF in (event.body or {}) and (event.kind is EventKind.LABELLED or bool(_receipt(event)))
