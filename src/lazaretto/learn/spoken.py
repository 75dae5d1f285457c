"""What people said of items, as far as it counts: of each item itself, and of the item whose copy it is.

A word is about a text. It counts while it was not taken back, its release was not undone, and nobody said something
later of the same item. Copies are given it by events of their own (``copy_of``), which count as long as it does. It
does so when the item itself was erased, too: what copies were told names it by its number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import taken_back
from lazaretto.provenance.taint import BECAUSE, FOR_DESCENT
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Event, EventKind, Ruling

WORD = "word"
"""In the body of what a copy is told again: the number of the word, which was given earlier."""
_KINDS = (EventKind.LABELLED, EventKind.RULED, EventKind.RELEASED, EventKind.WITHDRAWN)


class Spoken:
    """What was recorded about one item, in order."""

    def __init__(self, events: Iterable[Event], undone: Collection[str]) -> None:
        """``undone``: receipts of repairs that were undone."""
        told = sorted(events, key=lambda event: event.seq)
        back = [event for event in told if event.kind is EventKind.WITHDRAWN]
        gone = taken_back(back)
        aside = taken_back(event for event in back if COPY_OF in (event.body or {}))
        stand = [
            event
            for event in told
            if event.kind is not EventKind.WITHDRAWN and event.seq not in gone and _receipt(event) not in undone
        ]
        labels = {event.seq for event in told if event.kind is EventKind.LABELLED}
        self.words = [event for event in stand if _is_own(event) and not _belongs_to(event, labels)]
        """What people said of it, the last of which counts; a release that belongs to a label is left out."""
        descent = [event for event in stand if _for_descent(event)]
        self.tainted = bool(descent) and descent[-1].kind is EventKind.RULED
        """Whether it is held, since it was judged, for what it was made from."""
        gates = [event for event in stand if _by_gates(event)]
        self.ruling: Mapping[str, Any] | None = gates[-1].body if gates else None
        """The last ruling of gates on what it says, or the release by looking again."""
        self.ruled = gates[-1].seq if gates else 0
        given = [event for event in stand if event.seq > self.ruled and _is_given(event)]
        self.given = given if any(map(names_a_word, given)) else []
        """What it was told as a copy since then, the rulings and releases with it."""
        self._labels = [event.seq for event in told if event.kind is EventKind.LABELLED and _is_own(event)]
        since = self.given[0].seq if self.given else 0
        until = max((event.seq for event in descent if event.kind is EventKind.RELEASED), default=0)
        self.passed = [event.seq for event in descent if 0 < since < event.seq <= until]
        """Rulings since then for what it was made from, and the releases that ended them."""
        told_as_copy = [event for event in told if names_a_word(event) and _receipt(event) not in undone]
        self.offered = [event for event in told_as_copy if event.seq not in gone or event.seq in aside]
        """Every word that it was ever given as a copy; without those that were taken back from it alone."""
        self.refused = [event for event in told_as_copy if event.seq in gone - aside]

    @property
    def flagged(self) -> bool:
        """Whether gates hold it, or would; for what it says or for what it was made from."""
        return self.tainted or flags(self.ruling)

    def counts(self, word: int | str, since: int) -> bool:
        """Whether a word on this item counts: a label by its number, a release by its receipt (given ``since``)."""
        if isinstance(word, int):
            return bool(self.words) and self.words[-1].seq == word
        return all(event.seq < since or _receipt(event) == word for event in self.words)

    @property
    def newest_label(self) -> int:
        """The number of the last label of this item, taken back or not; 0: none."""
        return self._labels[-1] if self._labels else 0

    def last_label(self, before: int) -> int:
        """The number of the last label of this item before an event, taken back or not; 0: none."""
        return max((seq for seq in self._labels if seq < before), default=0)


class Spoke:
    """Reads ``Spoken`` of many items at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of(self, items: Collection[str]) -> dict[str, Spoken]:
        """What was said of each."""
        events: dict[str, list[Event]] = {item: [] for item in items}
        for event in self._ledger.events_about(items, _KINDS) if items else ():
            events[event.subject].append(event)
        receipts = {name for told in events.values() for event in told if (name := _receipt(event))}
        undone = {one.subject for one in self._ledger.events_about(receipts, (EventKind.UNDONE,))} if receipts else ()
        return {item: Spoken(told, undone) for item, told in events.items()}


def flags(body: Mapping[str, Any] | None) -> bool:
    """Whether a recorded ruling holds its item, or would."""
    word = (body or {}).get("would") or (body or {}).get("ruling")
    return word is not None and Ruling.from_label(str(word)) > Ruling.WARN


def origin(event: Event) -> str:
    """The item whose word a copy was given."""
    return str((event.body or {}).get(COPY_OF, ""))


def word_of(event: Event, first: Spoken) -> int | str:
    """Which word a copy was given: a label by its number, a release by its receipt. ``first``: of the item with it."""
    told = (event.body or {}).get(WORD)
    return _receipt(event) or (int(told) if told is not None else first.last_label(event.seq))


def _receipt(event: Event) -> str:
    return str((event.body or {}).get("receipt", "")) if event.kind is EventKind.RELEASED else ""


def _is_own(event: Event) -> bool:
    """Whether an event is a person's word on the item itself; of a label that was erased it is assumed."""
    body = event.body or {}
    if COPY_OF in body:
        return False
    return event.kind is EventKind.LABELLED or (event.kind is EventKind.RELEASED and body.get("by") != MACHINE)


def _belongs_to(event: Event, labels: Collection[int]) -> bool:
    """Whether an event is the release that was recorded with a label."""
    return event.kind is EventKind.RELEASED and not _receipt(event) and event.seq - 1 in labels


def _for_descent(event: Event) -> bool:
    """Whether an item was held, or released again, for nothing but what it was made from."""
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


def _is_given(event: Event) -> bool:
    by_person = event.kind is EventKind.RULED and not _for_descent(event)
    return COPY_OF in (event.body or {}) or by_person


def names_a_word(event: Event) -> bool:
    """Whether an event tells a copy a word; the release that belongs to a label does not."""
    return COPY_OF in (event.body or {}) and (event.kind is EventKind.LABELLED or bool(_receipt(event)))
