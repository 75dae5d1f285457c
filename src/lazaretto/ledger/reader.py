"""Queries of one tenant's ledger, and its events followed: the new ones, and those that no withdrawal takes back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from lazaretto.errors import UnknownItem
from lazaretto.ledger import queries, refs, search, vectors
from lazaretto.ledger.chain import GENESIS
from lazaretto.ledger.effects import EdgeColumns, EdgeEnd, ItemState
from lazaretto.ledger.refs import Fingerprint, RefState
from lazaretto.ledger.store import Store
from lazaretto.ledger.vectors import Floats, Neighbour, VectorIndex
from lazaretto.names import check_name, warn_old_name
from lazaretto.types import Channel, Edge, EdgeKind, Event, EventKind, Head, Observation, Ref


class LedgerReader:
    """The questions that a ledger answers."""

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self._store = store
        self.namespace = check_name(namespace, "namespace")
        self._head: tuple[tuple[int, int], Head] | None = None
        self._vectors = VectorIndex()

    @property
    def url(self) -> str:
        """The store's URL, without any password."""
        return self._store.url

    def _tenant(self, connection: sa.Connection) -> int | None:
        return queries.tenant_of(connection, self.namespace)

    def events(
        self,
        *,
        after: int = 0,
        kinds: Iterable[EventKind] | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Events in the order they were recorded, those past ``after`` only."""
        return queries.read_events(self._store, self.namespace, after=after, kinds=kinds, subject=subject, limit=limit)

    def events_about(self, subjects: Iterable[str], kinds: Sequence[EventKind]) -> list[Event]:
        """Events of some kinds about any of many items, found by their ids; in no order."""
        with self._store.reading() as connection:
            return queries.events_about(connection, self.namespace, subjects, kinds)

    def last_about(self, subjects: Iterable[str], kinds: Sequence[EventKind]) -> dict[str, int]:
        """The number of the last event of some kinds about each of many items; without those that have none."""
        with self._store.reading() as connection:
            return queries.last_about(connection, self.namespace, subjects, kinds)

    def held_items(self) -> list[str]:
        """Ids of the items that a ruling holds now, oldest first; the time grows only with the number of held items."""
        with self._store.reading() as connection:
            return queries.held_items(connection, self.namespace)

    def edges(self, *, after: int = 0) -> Iterator[tuple[int, Edge]]:
        """Every edge with the number of the event that made it: faster than replaying ``events``."""
        return queries.read_edges(self._store, self.namespace, after=after)

    def edge_columns(self, *, after: int, until: int) -> Iterator[EdgeColumns]:
        """The edges of the events past ``after`` up to ``until``, many at a time; the graph is built from them."""
        return queries.read_edge_columns(self._store, self.namespace, after=after, until=until)

    def edges_at(
        self, nodes: Iterable[str], *, end: EdgeEnd, kinds: Sequence[EdgeKind], until: int
    ) -> list[EdgeColumns]:
        """The edges of some kinds that begin (``end="source"``) or end at any of many nodes, found by these; of the
        events up to ``until``."""
        with self._store.reading() as connection:
            return list(queries.read_edges_at(connection, self.namespace, nodes, end=end, kinds=kinds, until=until))

    def item(self, item: str) -> Observation:
        """One item in any state; erased content comes back as no text."""
        with self._store.reading() as connection:
            found = queries.read_items(connection, self.namespace, ids=[item], hidden=True)
        if not found:
            raise UnknownItem(item, self.namespace)
        return found[0]

    def state(self, item: str) -> ItemState:
        """The present state of an item."""
        state = self.states([item]).get(item)
        if state is None:
            raise UnknownItem(item, self.namespace)
        return state

    def states(self, ids: Iterable[str]) -> dict[str, ItemState]:
        """The present states of items, many at once; unknown ones are left out."""
        ids = tuple(ids)
        if not ids:
            return {}
        with self._store.reading() as connection:
            return queries.read_states(connection, self.namespace, ids)

    def unknown(self, ids: Sequence[str]) -> tuple[str, ...]:
        """The members of ``ids`` that this namespace does not have, in order."""
        with self._store.reading() as connection:
            found = queries.known_items(connection, self.namespace, ids)
        return tuple(item for item in ids if item not in found)

    def items(
        self,
        *,
        ids: Sequence[str] | None = None,
        agent: str | None = None,
        channel: Channel | None = None,
        any_state: bool = False,
        limit: int | None = 100,
        hidden: bool | None = None,
    ) -> list[Observation]:
        """Items that may be used, newest first (or in the order of ``ids``); with ``any_state`` also held, hidden,
        replaced and erased ones. ``hidden``: the old name of ``any_state``."""
        if hidden is not None:
            warn_old_name("ledger.items(hidden=)", "any_state=")
            any_state = hidden
        with self._store.reading() as connection:
            return queries.read_items(
                connection, self.namespace, ids=ids, agent=agent, channel=channel, hidden=any_state, limit=limit
            )

    def copies(self, item: str) -> list[Observation]:
        """Visible items with the content of an item, itself among them: the same picture, or the same words.

        Found by index, for a ledger of any size. Of texts: memories, and items of the item's own channel.
        """
        origin = self.item(item)
        with self._store.reading() as connection:
            return queries.read_copies(connection, self.namespace, origin)

    def search(self, query: str, *, agent: str | None = None, limit: int = 10) -> list[tuple[Observation, float]]:
        """Visible memories that share words with ``query``, best first, each with a score (higher is better)."""
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            if tenant is None:
                return []
            hits = search.find(connection, tenant, query, agent=agent, limit=limit)
            found = queries.observations_at(connection, self.namespace, [seq for seq, _ in hits])
        return [(found[seq], score) for seq, score in hits]

    def naming(self, words: Sequence[str], limit: int) -> list[str]:
        """The newest visible memories that hold every one of some words, by their ids."""
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            if tenant is None:
                return []
            return search.with_all(connection, tenant, words, limit)

    def head(self) -> Head:
        """The end of the chain; keep it somewhere else to prove later that nothing was cut off."""
        version = self._store.version()  # before reading: a commit in between then makes us read again next time
        known = self._head
        if known is not None and known[0] == version:
            return known[1]
        with self._store.reading() as connection:
            seq, last = queries.last_event(connection, self.namespace) or (0, GENESIS)
        head = Head(self.namespace, seq, last.hex())
        self._head = None if version is None else (version, head)
        return head

    def stats(self) -> dict[str, Any]:
        """How much this namespace holds."""
        with self._store.reading(snapshot=True) as connection:
            return queries.count_all(connection, self.namespace)

    def find_fingerprints(self, kind: str, keys: Sequence[str]) -> list[Fingerprint]:
        """Fingerprints under any of ``keys``; the time does not grow with the number of stored fingerprints."""
        with self._store.reading() as connection:
            return refs.find(connection, self.namespace, kind, keys)

    def ref_states(self, wanted: Iterable[Ref]) -> dict[Ref, RefState]:
        """The states of records in stores of the caller's own, by ref; unrecorded ones are left out."""
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            return {} if tenant is None else refs.states(connection, tenant, wanted)

    def refs_of(self, system: str, *, due: bool = False) -> list[RefState]:
        """Every record of one such store, oldest first; with ``due`` only those that have to be written back to it."""
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            return [] if tenant is None else list(refs.of_system(connection, tenant, system, due=due))

    def last_failure(self, ref: Ref) -> str | None:
        """Why the last try to write a record back failed; None when it did not."""
        with self._store.reading() as connection:
            seq = refs.last_failure(connection, self._tenant(connection) or 0, ref)
        event = None if seq is None else next(self.events(after=seq - 1, limit=1), None)
        return None if event is None else str((event.body or {}).get("error", ""))

    def nearest_claims(
        self, vector: Floats, *, limit: int = 8, least: float = 0.0, hidden: bool = False
    ) -> list[Neighbour]:
        """Claims of visible memories (with ``hidden`` of held ones too), nearest in meaning first.

        ``least`` is the lowest cosine that counts.
        """
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            if tenant is None:
                return []
            return self._vectors.nearest(connection, tenant, vector, limit=limit, least=least, hidden=hidden)

    def without_claims(self, *, after: int = 0, limit: int = 100) -> list[tuple[int, str]]:
        """Memories past an event whose claims are not kept, oldest first: number of the event, and id."""
        with self._store.reading() as connection:
            tenant = self._tenant(connection)
            return [] if tenant is None else vectors.unindexed(connection, tenant, after, limit)


# The events that count: all but those that a withdrawal takes back.
#
# A decision that is taken back stays in the chain; a ``WITHDRAWN`` event per item names, by number, the events that
# count no longer. Readers of labels and rulings read through here (``Tail`` does, with ``anew``).


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


# Following a ledger: the new events of some kinds, each once, however many of other kinds lie between them.


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

        ``anew`` is for readers of people's decisions: they get no event that was taken back (``ledger/reader.py``).
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
