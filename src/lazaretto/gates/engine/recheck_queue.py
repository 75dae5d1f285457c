"""The memories that are due for a recheck: recent ones, held ones, and those behind decisions that failed.

Every step of a re-evaluation leaves one NOTED event (subject ``tend``) in the transaction of its changes, so a
restart forgets nothing. Time is counted in passes: a memory is looked at by the next two passes after it was written, a
held or blamed one by the next twenty, and a settled one (a person ruled on it, it was replaced or erased) by none.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.ledger import ItemState, Ledger, changes_of, with_change
from lazaretto.ledger.reader import Tail, standing_events
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, REBUILT, Channel, Event, EventKind

Ints = NDArray[np.int64]
LOOKS = 2
"""Passes that look again at every memory."""
HELD_LOOKS = 20
"""Passes for which a held memory may still prove clean, and one in use is looked at again when uses of it fail."""
BLAMED = 2
"""Failed uses since the last look that ask for another."""


class RecheckSchedule:
    """The state of each memory that decides whether it is due."""

    def __init__(self, size: int = 1_024) -> None:
        self.admitted = np.zeros(size, dtype=bool)
        """In use: neither held nor taken out."""
        self.settled = np.zeros(size, dtype=bool)
        self.blame = np.zeros(size, dtype=np.int64)
        self.count = 0
        """Memories so far: the number of the next one."""
        self._starts: deque[int] = deque(maxlen=HELD_LOOKS)

    def wrote(self, ids: Ints, admitted: NDArray[np.bool_]) -> None:
        """New memories, and which of them may be used."""
        self.count = max(self.count, int(ids.max()) + 1)
        while self.count > len(self.admitted):
            for name in ("admitted", "settled", "blame"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.admitted[ids] = admitted

    def failed(self, parents: Ints) -> None:
        """A use of each of these failed; -1 is none."""
        np.add.at(self.blame, parents[parents >= 0], 1)

    @property
    def recent(self) -> int:
        """The first memory that every pass looks at."""
        return self._starts[-LOOKS] if len(self._starts) >= LOOKS else 0

    @property
    def oldest(self) -> int:
        """The first memory that any pass looks at."""
        return self._starts[0] if len(self._starts) == HELD_LOOKS else 0

    def due(self, ids: Ints) -> NDArray[np.bool_]:
        """For each of these memories: whether the current pass rechecks it."""
        waiting = ~self.admitted[ids] | (self.blame[ids] >= BLAMED)
        return ~self.settled[ids] & ((ids >= self.recent) | (waiting & (ids >= self.oldest)))

    def close_pass(self, start: int | None = None) -> None:
        """A pass is over; memories from number ``start`` on (default: those to come) are the next ones' news."""
        self._starts.append(self.count if start is None else start)


TENDED = "tend"
"""Subject of the NOTED events that record rechecks; the stored word is older than the name."""
HORIZON = 60_000
"""Events that are read back when a ledger is opened."""
_KINDS = (
    EventKind.SEEN, EventKind.RULED, EventKind.RELEASED, EventKind.ERASED, EventKind.SUPERSEDED, EventKind.REPAIRED,
    EventKind.UNDONE, EventKind.REPORTED, EventKind.LABELLED, EventKind.NOTED,
)  # fmt: skip


WORDS = (EventKind.LABELLED, EventKind.RELEASED, EventKind.RULED)
"""Kinds of events that may be a person's decision on an item (``by_person``)."""


class RecheckQueue:
    """Follows one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tail = Tail(ledger, _KINDS, back=HORIZON, anew=self._forget)
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._looks = RecheckSchedule()
        self._names: list[str] = []
        self._seqs: list[int] = []
        self._numbers: dict[str, int] = {}
        self._states: list[ItemState] = []
        self._shared = {ItemState(): ItemState()}
        """Few states are ever different: memories share them."""
        self._until: int | None = None
        """Last event of the pass under way; None between passes."""
        self._looked: set[int] = set()
        self._origins: dict[str, None] = {}
        self._news: list[int] = []
        self._failures: list[int] = []
        self._spoken: set[str] = set()

    def follow(self) -> int:
        """Read the events since the last call, from all writers; the number of the last event read."""
        with self._lock:
            for event in self._tail.new():
                self._take(event)
            return self._tail.seq

    @property
    def news(self) -> int:
        """Memories, outcomes and people's decisions since the last pass began: whether the evidence has changed."""
        return len(self._news)

    @property
    def failures(self) -> int:
        """Failed decisions since the last pass began."""
        return len(self._failures)

    def spoken_for(self, item: str) -> bool:
        """Whether a person ruled on an item, of any channel: no machine overturns that."""
        with self._lock:
            return item in self._spoken

    @property
    def under_way(self) -> bool:
        """Whether a pass was begun and not ended."""
        return self._until is not None

    @property
    def origins(self) -> tuple[str, ...]:
        """Memories that were held after they had been in use, and whose descendants were not looked after yet."""
        return tuple(self._origins)

    def due(self, limit: int, also: Sequence[str] = (), news: int = 1) -> tuple[list[str], int, int]:
        """The next memories to recheck, blamed ones first; the last event of the pass; how many are left after these.

        ``also`` names memories that are suspect however old they are; a new pass begins only after so many ``news``.
        """
        with self._lock:
            until = self._until
            if until is None:
                if len(self._news) < news:
                    return [], self._tail.seq, 0
                until = self._tail.seq
            count = bisect_right(self._seqs, until)
            ids = np.arange(self._looks.oldest, count)
            chosen = {int(n) for n in ids[self._looks.due(ids)]} if len(ids) else set()
            chosen |= {n for n in map(self._numbers.get, also) if n is not None and not self._looks.settled[n]}
            waiting = sorted(chosen - self._looked, key=lambda n: (self._looks.blame[n] < BLAMED, n))
            return [self._names[n] for n in waiting[:limit]], until, max(0, len(waiting) - limit)

    def state(self, item: str) -> ItemState | None:
        """The state of a memory; None where it is unknown, or a machine may not rule on it any more."""
        with self._lock:
            number = self._numbers.get(item)
            if number is None:
                return self._older(item)
            return None if self._looks.settled[number] else self._states[number]

    def visible(self, item: str) -> bool:
        """Whether a memory is in use, and a machine has a say in it."""
        state = self.state(item)
        return state is not None and state.visible

    def _older(self, item: str) -> ItemState | None:
        """The state of a memory from before the horizon."""
        state = self._ledger.states([item]).get(item)
        if state is None or state.hidden or state.erased or state.superseded_by or item in self._spoken:
            return None
        words = standing_events(self._ledger, WORDS, subject=item)
        return None if any(by_person(event) for event in words) else state

    def _take(self, event: Event) -> None:
        body = event.body or {}
        if event.kind is EventKind.SEEN:
            if body.get("channel") == Channel.MEMORY.value:
                self._wrote(event, body)
        elif event.kind is EventKind.REPORTED:
            self._news.append(event.seq)
            if body.get("success") is False:
                self._failures.append(event.seq)
                self._blame(body.get("rests_on", ()))
        elif event.kind is EventKind.NOTED:
            if event.subject == TENDED:
                self._rechecked(body)
        elif event.kind is EventKind.LABELLED:
            if by_person(event):
                self._spoken.add(event.subject)
                self._settle(event.subject)
            self._news.append(event.seq)
        else:
            self._change(event)

    def _wrote(self, event: Event, body: Mapping[str, Any]) -> None:
        number = len(self._names)
        self._names.append(event.subject)
        self._seqs.append(event.seq)
        self._states.append(self._shared[ItemState()])
        self._numbers[event.subject] = number
        self._looks.wrote(np.array([number]), np.array([True]))
        meta = (body.get("fields") or {}).get("meta") or {}
        self._looks.settled[number] = bool(meta.get(REBUILT))
        self._news.append(event.seq)
        if meta.get("success") is False:
            self._blame(body.get("parents", ()))

    def _blame(self, items: Sequence[str]) -> None:
        used = [self._numbers[item] for item in items if item in self._numbers]
        self._looks.failed(np.array(used, dtype=np.int64))

    def _change(self, event: Event) -> None:
        person = by_person(event)
        for item, name, value in changes_of(event.kind, event.subject, event.body):
            if person:
                self._spoken.add(item)
            number = self._numbers.get(item)
            if number is None:
                continue
            changed = with_change(self._states[number], name, value)
            state = self._shared.setdefault(changed, changed)
            self._states[number] = state
            self._looks.admitted[number] = state.visible
            if state.erased:
                self._origins.pop(item, None)
            if person or state.hidden or state.erased or state.superseded_by:
                self._settle(item)

    def _settle(self, item: str) -> None:
        number = self._numbers.get(item)
        if number is not None:
            self._looks.settled[number] = True

    def _rechecked(self, body: Mapping[str, Any]) -> None:
        for item in body.get("looked", {}):
            number = self._numbers.get(item)
            if number is not None:
                self._looks.blame[number] = 0
                if "until" in body:
                    self._looked.add(number)
        if "until" in body:
            self._until = int(body["until"])
            self._news = [seq for seq in self._news if seq > self._until]
            self._failures = [seq for seq in self._failures if seq > self._until]
            if body.get("done"):
                self._looks.close_pass(bisect_right(self._seqs, self._until))
                self._until = None
                self._looked.clear()
        self._origins.update(dict.fromkeys(body.get("origins", ())))
        for item in body.get("repaired", ()):
            self._origins.pop(item, None)


def by_person(event: Event) -> bool:
    """Whether an event is a person's decision on an item, given to it and not to a copy."""
    body = event.body or {}
    if COPY_OF in body:
        return False
    if event.kind is EventKind.RELEASED:
        return body.get("by") != MACHINE
    ruled_by = str(body.get("rule", ""))
    return event.kind in (EventKind.UNDONE, EventKind.LABELLED) or ruled_by.startswith(BY_PERSON)
