"""Following a ledger: the new events of some kinds, each once, however many of other kinds lie between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from lazaretto.ledger.standing import Readable, taken_back, withdrawn
from lazaretto.types import Event, EventKind, Head


class Followed(Readable, Protocol):
    """The part of a ledger that a follower needs."""

    def head(self) -> Head:
        """The last event."""
        ...


class Tail:
    """How far a follower has read. The callers' own lock keeps two threads from reading at once."""

    def __init__(
        self,
        ledger: Followed,
        kinds: Iterable[EventKind],
        *,
        back: int | None = None,
        subject: str | None = None,
        anew: Callable[[], None] | None = None,
    ) -> None:
        """``back``: how many events a new reader looks back; all by default. ``subject``: only events about it.

        ``anew`` is for readers of people's decisions: they get no event that was taken back (``ledger/standing.py``).
        If one that they read already is taken back, it is called, so that they forget everything; then they are
        given the events that count from the beginning, unless they read them in another way and ``skip_to`` their end.
        """
        self._ledger, self._kinds, self._back, self._subject = ledger, tuple(kinds), back, subject
        self._anew = anew
        self._read = self._kinds if anew is None else (*self._kinds, EventKind.WITHDRAWN)
        self._gone: frozenset[int] | None = None
        self._seq: int | None = None

    @property
    def seq(self) -> int:
        """The number of the last event that was read, or was of no kind that matters."""
        return self._seq or 0

    def skip_to(self, seq: int) -> None:
        """Everything up to this event was read in another way, without the events taken back by then."""
        self._seq = seq
        if self._anew is not None:
            withdrawals = self._ledger.events(kinds=(EventKind.WITHDRAWN,))
            self._gone = taken_back(event for event in withdrawals if event.seq <= seq)

    def new(self) -> Iterator[Event]:
        """Events since the last call, by any writer. An event counts as read once the next is asked for."""
        head = self._ledger.head().seq  # before the events: none up to it is missed
        if self._seq is None:
            self._seq = 0 if self._back is None else max(0, head - self._back)
        if head <= self._seq:
            return
        if self._gone is None:
            self._gone = frozenset() if self._anew is None else withdrawn(self._ledger)
        for event in self._ledger.events(after=self._seq, kinds=self._read, subject=self._subject):
            if self._anew is not None and event.kind is EventKind.WITHDRAWN:
                if not taken_back([event]) <= self._gone:
                    self._seq, self._gone = None, withdrawn(self._ledger)
                    self._anew()
                    yield from self.new()
                    return
            elif event.seq not in self._gone:
                yield event
            self._seq = event.seq
        self._seq = max(self._seq, head)  # past events of other kinds, too: nobody reads over them again
