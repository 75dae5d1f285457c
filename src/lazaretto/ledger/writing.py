"""Appending: linking checked drafts to the chain, and keeping the derived tables in step with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger import search
from lazaretto.ledger.canon import GENESIS, Linker
from lazaretto.ledger.drafts import Batch
from lazaretto.ledger.edges import edges_of
from lazaretto.ledger.replay import CHANGING, FIELDS, changes_of
from lazaretto.ledger.schema import blob_refs, edges, events, heads, items
from lazaretto.types import Channel, EdgeKind, Event, EventKind

_CHUNK = 500
_FIRST_FIELD = 4  # where FIELDS begin in a row of lz_items

_WORDS = {kind: (kind.value, kind.value.encode()) for kind in EventKind}
_SEEN, _MEMORY = EventKind.SEEN, Channel.MEMORY.value
_EDGE_WORDS = {kind: kind.value for kind in EdgeKind}

EventRow = tuple[Any, ...]


def insert_sql(table: sa.Table, dialect: str) -> str:
    """The plain INSERT of a table for the driver itself: batches skip the statement compiler."""
    mark = "?" if dialect == "sqlite" else "%s"
    names = ", ".join(column.name for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([mark] * len(table.columns))})"


def chunks(values: Iterable[Any], size: int = _CHUNK) -> Iterator[list[Any]]:
    """``values`` in lists that fit into one statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def lock_head(connection: sa.Connection, namespace: str, *, create: bool = True) -> tuple[int, int, bytes] | None:
    """Tenant number, last event and its hash, locked until the transaction ends; made when it is not there yet."""
    query = sa.select(heads.c.tenant, heads.c.seq, heads.c.hash).where(heads.c.namespace == namespace).with_for_update()
    row = connection.execute(query).first()
    if row is None and create:
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        connection.exec_driver_sql(
            f"INSERT INTO lz_heads (namespace, seq, hash) VALUES ({mark}, 0, {mark})"
            " ON CONFLICT (namespace) DO NOTHING",
            (namespace, GENESIS),
        )
        row = connection.execute(query).first()
    return None if row is None else (int(row[0]), int(row[1]), bytes(row[2]))


def existing(connection: sa.Connection, tenant: int, column: sa.Column[Any], values: Iterable[str]) -> set[str]:
    """Which of ``values`` a tenant has in ``column``."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    found: set[str] = set()
    for chunk in chunks(values):
        marks = ", ".join([mark] * len(chunk))
        rows = connection.exec_driver_sql(
            f"SELECT {column.name} FROM {column.table.name} WHERE tenant = {mark} AND {column.name} IN ({marks})",
            (tenant, *chunk),
        )
        found.update(row[0] for row in rows)
    return found


def check_references(connection: sa.Connection, tenant: int, namespace: str, batch: Batch) -> None:
    """Refuse a batch that names what this namespace does not have, or brings what it already has."""
    found = existing(connection, tenant, items.c.id, [*batch.items, *batch.new])
    for item in batch.new:
        if item in found:
            raise InputError("id", f"{item!r} is already in namespace {namespace!r}", "Ids are used once")
    for item, field in batch.items.items():
        if item not in found:
            raise UnknownItem(item, namespace, field)
    if batch.decisions:
        told = sa.select(events.c.subject).where(
            events.c.tenant == tenant,
            events.c.subject.in_(list(batch.decisions)),
            events.c.kind == EventKind.REPORTED.value,
        )
        reported = {row[0] for row in connection.execute(told)}
        for decision, field in batch.decisions.items():
            if decision not in reported:
                raise UnknownItem(decision, namespace, field)
    for digest in batch.images - existing(connection, tenant, blob_refs.c.digest, batch.images):
        raise InputError("image", f"no blob {digest[:12]}... in namespace {namespace!r}", "Call put_blob first")


def link_batch(
    linker: Linker, namespace: str, head: tuple[int, int, bytes], batch: Batch
) -> tuple[list[Event], list[EventRow]]:
    """The batch as events and as rows, each linked to the one before it."""
    tenant, seq, prev = head
    linked: list[Event] = []
    rows: list[EventRow] = []
    prev_hex = prev.hex()
    link = linker.link
    for kind, subject, agent, time, body, raw, salt, digest in batch.drafts:
        seq += 1
        word, word_bytes = _WORDS[kind]
        this = link(seq, word_bytes, subject.encode(), agent.encode(), time, digest + prev)
        this_hex = this.hex()
        linked.append(Event(namespace, seq, kind, subject, agent, time, body, prev_hex, this_hex))
        rows.append((tenant, seq, word, subject, agent, time, digest, prev, this, salt, raw))
        prev, prev_hex = this, this_hex
    return linked, rows


class Derived:
    """Collects what a run of events means for items, edges and the search index, and writes it in few statements."""

    def __init__(self, tenant: int) -> None:
        self._tenant = tenant
        self._new: dict[str, list[Any]] = {}
        self._changed: dict[str, dict[str, Any]] = {field: {} for field in FIELDS}
        self._edges: list[tuple[Any, ...]] = []
        self._texts: list[tuple[int, str]] = []

    def take(self, event: Event) -> None:
        """Note what ``event`` adds and changes."""
        kind = event.kind
        if kind is _SEEN:
            self._take_item(event)
        elif kind in CHANGING:
            for item, field, value in changes_of(kind, event.subject, event.body):
                row = self._new.get(item)
                if row is None:
                    self._changed[field][item] = value
                else:
                    row[_FIRST_FIELD + FIELDS.index(field)] = value
        for place, edge in enumerate(edges_of(event)):
            self._edges.append(
                (self._tenant, event.seq, place, edge.source, edge.target, _EDGE_WORDS[edge.kind], edge.time)
            )

    def _take_item(self, event: Event) -> None:
        body = event.body
        channel = "" if body is None else body["channel"]
        image = None if body is None else body.get("image")
        self._new[event.subject] = [
            self._tenant, event.subject, event.seq, event.agent, channel, image, 0, 0, None, None
        ]  # fmt: skip
        if body is not None and channel == _MEMORY:
            self._texts.append((event.seq, body.get("text", "")))

    def write(self, connection: sa.Connection) -> None:
        """Write it all, inside the caller's transaction."""
        dialect = connection.dialect.name
        if self._new:
            connection.exec_driver_sql(insert_sql(items, dialect), [tuple(row) for row in self._new.values()])
        mark = "?" if dialect == "sqlite" else "%s"
        for field, changed in self._changed.items():
            if changed:
                connection.exec_driver_sql(
                    f"UPDATE lz_items SET {field} = {mark} WHERE tenant = {mark} AND id = {mark}",
                    [(value, self._tenant, item) for item, value in changed.items()],
                )
        if self._edges:
            connection.exec_driver_sql(insert_sql(edges, dialect), self._edges)
        if self._texts:
            search.add(connection, self._tenant, self._texts)


def write_events(connection: sa.Connection, rows: Sequence[EventRow]) -> None:
    """Write linked rows and move the head to the last of them."""
    connection.exec_driver_sql(insert_sql(events, connection.dialect.name), list(rows))
    tenant, seq, last = rows[-1][0], rows[-1][1], rows[-1][8]
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(
        f"UPDATE lz_heads SET seq = {mark}, hash = {mark} WHERE tenant = {mark}", (seq, last, tenant)
    )


def append_batch(connection: sa.Connection, linker: Linker, namespace: str, batch: Batch) -> list[Event]:
    """Append ``batch`` to the chain of ``namespace`` and bring the derived tables in step, in one transaction."""
    head = lock_head(connection, namespace)
    assert head is not None
    check_references(connection, head[0], namespace, batch)
    linked, rows = link_batch(linker, namespace, head, batch)
    derived = Derived(head[0])
    for event in linked:
        derived.take(event)
    write_events(connection, rows)
    derived.write(connection)
    return linked
