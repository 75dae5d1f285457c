"""Appending: linking checked drafts to the chain, and keeping the derived tables in step with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

import sqlalchemy as sa

from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger import driver, search, vectors
from lazaretto.ledger import refs as lookups
from lazaretto.ledger.chain import GENESIS, EventRow, EventRows, Linker, body_digest, fresh_salts
from lazaretto.ledger.drafts import Batch
from lazaretto.ledger.driver import chunks, gc_paused
from lazaretto.ledger.effects import CHANGING, FIELDS, changes_of, edge_fields
from lazaretto.ledger.schema import blob_refs, edges, events, items, refs
from lazaretto.types import Channel, EventKind

_FIRST_FIELD = 4  # where FIELDS begin in a row of lz_items

_WORDS = {kind: kind.value for kind in EventKind}
_SEEN, _NOTED, _MEMORY = EventKind.SEEN, EventKind.NOTED, Channel.MEMORY.value


def append_batch(
    connection: sa.Connection,
    linker: Linker,
    namespace: str,
    batch: Batch,
    claims: Mapping[str, vectors.KeptClaims],
) -> EventRows:
    """Append ``batch`` to the chain of ``namespace`` and bring the derived tables in step, in one transaction.

    ``claims``: those that the events of the batch record, by item.
    """
    head = lock_head(connection, namespace)
    assert head is not None
    check_references(connection, head[0], namespace, batch)
    claim_events = recorded_claims(batch, claims)
    with gc_paused(len(batch.kinds)):
        recorded = write_batch(connection, linker, namespace, head, batch)
    for item, place in claim_events.items():
        vectors.add(connection, head[0], item, head[1] + 1 + place, claims[item])
    return recorded


@cache
def insert_sql(table: sa.Table, dialect: str) -> str:
    """The plain INSERT of a table for the driver itself: batches skip the statement compiler."""
    mark = "?" if dialect == "sqlite" else "%s"
    names = ", ".join(column.name for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([mark] * len(table.columns))})"


def lock_head(connection: sa.Connection, namespace: str, *, create: bool = True) -> tuple[int, int, bytes] | None:
    """Tenant number, last event and its hash, locked until the transaction ends; made when it is not there yet."""
    mark = driver.mark(connection)
    lock = "" if connection.dialect.name == "sqlite" else " FOR UPDATE"  # SQLite has one writer anyway
    find = f"SELECT tenant, seq, hash FROM lz_heads WHERE namespace = {mark}{lock}"
    rows = driver.read(connection, find, (namespace,))
    if not rows and create:
        make = (
            f"INSERT INTO lz_heads (namespace, seq, hash) VALUES ({mark}, 0, {mark}) ON CONFLICT (namespace) DO NOTHING"
        )
        driver.write(connection, make, [(namespace, GENESIS)])
        rows = driver.read(connection, find, (namespace,))
    return (int(rows[0][0]), int(rows[0][1]), bytes(rows[0][2])) if rows else None


def existing(connection: sa.Connection, tenant: int, column: sa.Column[Any], values: Iterable[str]) -> set[str]:
    """The members of ``values`` that the tenant already has in ``column``."""
    mark = driver.mark(connection)
    found: set[str] = set()
    for chunk in chunks(values):
        among, given = driver.among(connection, column.name, chunk)
        find = f"SELECT {column.name} FROM {column.table.name} WHERE tenant = {mark} AND {among}"
        found.update(row[0] for row in driver.read(connection, find, (tenant, *given)))
    return found


def check_references(connection: sa.Connection, tenant: int, namespace: str, batch: Batch) -> None:
    """Refuse a batch that names an item or decision the namespace does not have, or brings one it already has."""
    found = existing(connection, tenant, items.c.id, [*batch.items, *batch.new])
    for item in batch.new:
        if item in found:
            raise InputError("id", f"{item!r} is already in namespace {namespace!r}", "Ids are used once")
    for item, field in batch.items.items():
        if item not in found:
            raise UnknownItem(item, namespace, field)
    if batch.decisions:
        query = sa.select(events.c.subject).where(
            events.c.tenant == tenant,
            events.c.subject.in_(list(batch.decisions)),
            events.c.kind == EventKind.REPORTED.value,
        )
        reported = {row[0] for row in connection.execute(query)}
        for decision, field in batch.decisions.items():
            if decision not in reported:
                raise UnknownItem(decision, namespace, field)
    for digest in batch.images - existing(connection, tenant, blob_refs.c.digest, batch.images):
        raise InputError("image", f"no blob {digest[:12]}... in namespace {namespace!r}", "Call put_blob first")


def link_batch(linker: Linker, head: tuple[int, int, bytes], batch: Batch) -> list[EventRow]:
    """The batch as rows of lz_events, each linked to the one before it."""
    tenant, seq, prev = head
    words = [_WORDS[kind] for kind in batch.kinds]
    salts = fresh_salts(len(words))
    digests = list(map(body_digest, salts, batch.raws))
    opened = (words, batch.subjects, batch.agents, batch.times, digests)
    hashes = linker.link_all(seq + 1, zip(*opened, strict=True), prev)
    places = range(seq + 1, seq + 1 + len(words))
    columns = (repeat(tenant, len(words)), places, *opened, [prev, *hashes[:-1]], hashes, salts, batch.raws)
    return list(zip(*columns, strict=True))


class DerivedTables:
    """Collects the changes of items, edges and the search index in a run of events; writes them in few statements."""

    def __init__(self, tenant: int) -> None:
        self._tenant = tenant
        self._new: dict[str, list[Any]] = {}
        self._changed: dict[str, dict[str, Any]] = {field: {} for field in FIELDS}
        self._edges: list[tuple[Any, ...]] = []
        self._texts: list[tuple[int, str]] = []
        self._known: list[lookups.FingerprintChange] = []
        self._refs: list[tuple[Any, ...]] = []

    def add_event(
        self, seq: int, kind: EventKind, subject: str, agent: str, time: float, body: Mapping[str, Any] | None
    ) -> None:
        """Note the additions and changes of an event."""
        tenant = self._tenant
        if kind is _SEEN:
            channel = "" if body is None else body["channel"]
            image = None if body is None else body.get("image")
            self._new[subject] = [tenant, subject, seq, agent, channel, image, 0, 0, None, None]
            if body is not None and channel == _MEMORY:
                self._texts.append((seq, body.get("text", "")))
        elif kind in CHANGING:
            self._change(kind, subject, body)
        elif kind is _NOTED and (known := lookups.change_of(subject, body)):
            self._known.append(known)
        if (kind is _SEEN or kind is _NOTED) and (row := lookups.row_of(kind, subject, body)):
            self._refs.append((tenant, row[0], seq, *row[1:]))
        for place, (source, target, word, since) in enumerate(edge_fields(kind, subject, agent, time, body)):
            self._edges.append((tenant, seq, place, source, target, word, since))

    def _change(self, kind: EventKind, subject: str, body: Mapping[str, Any] | None) -> None:
        for item, field, value in changes_of(kind, subject, body):
            row = self._new.get(item)
            if row is None:
                self._changed[field][item] = value
            else:
                row[_FIRST_FIELD + FIELDS.index(field)] = value

    def write(self, connection: sa.Connection) -> None:
        """Write it all, inside the caller's transaction."""
        dialect = connection.dialect.name
        if self._new:
            driver.write(connection, insert_sql(items, dialect), list(self._new.values()))
        mark = driver.mark(connection)
        for field, changed in self._changed.items():
            if changed:
                driver.write(
                    connection,
                    f"UPDATE lz_items SET {field} = {mark} WHERE tenant = {mark} AND id = {mark}",
                    [(value, self._tenant, item) for item, value in changed.items()],
                )
        if self._edges:
            driver.write(connection, insert_sql(edges, dialect), self._edges)
        if self._texts:
            search.add(connection, self._tenant, self._texts)
        if self._refs:
            driver.write(connection, insert_sql(refs, dialect), self._refs)
        for change in self._known:
            lookups.write(connection, self._tenant, change)


def write_events(connection: sa.Connection, rows: Sequence[EventRow]) -> None:
    """Write linked rows and move the head to the last of them."""
    driver.write(connection, insert_sql(events, connection.dialect.name), rows)
    tenant, seq, last = rows[-1][0], rows[-1][1], rows[-1][8]
    mark = driver.mark(connection)
    moved = f"UPDATE lz_heads SET seq = {mark}, hash = {mark} WHERE tenant = {mark}"
    driver.write(connection, moved, [(seq, last, tenant)])


def recorded_claims(batch: Batch, claims: Mapping[str, vectors.KeptClaims]) -> dict[str, int]:
    """By item, the event of the batch that records its claims. An event that does not match the claims is refused."""
    claim_events: dict[str, int] = {}
    for place, body in enumerate(batch.bodies):
        if vectors.RECORD not in body:
            continue
        try:
            record = vectors.record_of(batch.kinds[place], batch.subjects[place], body)
        except ValueError as error:
            raise InputError("body.claims", str(error)) from None
        if record is None:
            continue
        kept = claims.get(record.item)
        if record.item in claim_events or kept is None or kept.record() != body[vectors.RECORD]:
            raise InputError(
                "body.claims", "names claims that this call does not bring", "Call append_item or keep_claims"
            )
        claim_events[record.item] = place
    return claim_events


def write_batch(
    connection: sa.Connection, linker: Linker, namespace: str, head: tuple[int, int, bytes], batch: Batch
) -> EventRows:
    """Append a batch whose references are known to be good after ``head``."""
    rows = link_batch(linker, head, batch)
    write_events(connection, rows)
    derived = DerivedTables(head[0])
    columns = (batch.kinds, batch.subjects, batch.agents, batch.times, batch.bodies)
    deque(map(derived.add_event, range(head[1] + 1, head[1] + 1 + len(rows)), *columns), maxlen=0)
    derived.write(connection)
    return EventRows(namespace, rows)
