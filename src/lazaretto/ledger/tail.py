"""Following a ledger: the new events of some kinds, each once, however many of other kinds lie between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from lazaretto.types import Event, EventKind, Head


class Followed(Protocol):
    """What is needed of a ledger to follow it."""

    def head(self) -> Head:
        """The last event."""
        ...

    def events(
        self, *, after: int = 0, kinds: Iterable[EventKind] | None = None, subject: str | None = None
    ) -> Iterator[Event]:
        """Events in order."""
        ...


class Tail:
    """How far somebody has read. The callers' own lock keeps two threads from reading at once."""

    def __init__(
        self, ledger: Followed, kinds: Iterable[EventKind], *, back: int | None = None, subject: str | None = None
    ) -> None:
        """``back``: how many events a new reader looks back; all by default. ``subject``: only events about it."""
        self._ledger, self._kinds, self._back, self._subject = ledger, tuple(kinds), back, subject
        self._seq: int | None = None

    @property
    def seq(self) -> int:
        """The number of the last event that was read, or was of no kind that matters."""
        return self._seq or 0

    def skip_to(self, seq: int) -> None:
        """Everything up to this event was read in another way."""
        self._seq = seq

    def new(self) -> Iterator[Event]:
        """What was recorded since the last time, by anybody. An event counts as read once the next is asked for."""
        head = self._ledger.head().seq  # before the events: none up to it is missed
        if self._seq is None:
            self._seq = 0 if self._back is None else max(0, head - self._back)
        if head <= self._seq:
            return
        for event in self._ledger.events(after=self._seq, kinds=self._kinds, subject=self._subject):
            yield event
            self._seq = event.seq
        self._seq = max(self._seq, head)  # past events of other kinds, too: nobody reads over them again
