"""Proof that nothing was altered: the chain link by link, and every derived table against a replay of it.

Memory stays bounded however long the chain is: events and edges are streamed side by side, and the expected tables
live in a temporary SQLite file.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import sqlalchemy as sa

from lazaretto.errors import InputError, StoreDamaged
from lazaretto.ledger import fingerprints, refs, search
from lazaretto.ledger.chain import StoredEvent, event_of, fault_in
from lazaretto.ledger.checkpoints import Checkpoint
from lazaretto.ledger.chunking import chunks
from lazaretto.ledger.edges import edges_of
from lazaretto.ledger.encoding import GENESIS, Linker
from lazaretto.ledger.item_state import changes_of
from lazaretto.ledger.merkle import Builder
from lazaretto.ledger.schema import blob_refs, blobs, events, heads, items, metadata
from lazaretto.ledger.schema_check import fault_in_schema
from lazaretto.ledger.signing import PublicKey, Trust, head_statement
from lazaretto.types import Channel, Event, EventKind, Head

_FETCH = 500
_REF_TEXTS = ("ref", "told", "item", "system", "namespace", "key")


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found."""

    ok: bool
    checked: int
    """How many events were read and found good."""
    first_bad: int | None = None
    """Number of the first event that is not as it was recorded; None when the fault is no event's."""
    reason: str = ""


class _Fault(Exception):
    def __init__(self, seq: int | None, reason: str) -> None:
        super().__init__(reason)
        self.seq, self.reason = seq, reason


def _bytes_of(column: str, dialect: str) -> str:
    """A text column as bytes: altered text may not be text any more, and must not stop the reading."""
    return f"CAST({column} AS BLOB)" if dialect == "sqlite" else f"convert_to({column}, 'UTF8')"


def _stream(connection: sa.Connection, statement: str, tenant: int) -> Iterator[tuple[Any, ...]]:
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    result = connection.exec_driver_sql(
        statement.replace("{tenant}", mark), (tenant,), execution_options={"stream_results": True}
    )
    while rows := result.fetchmany(_FETCH):
        yield from (tuple(row) for row in rows)


def _stored_events(connection: sa.Connection, tenant: int) -> Iterator[StoredEvent]:
    texts = ", ".join(_bytes_of(column, connection.dialect.name) for column in ("kind", "subject", "agent"))
    for row in _stream(
        connection,
        f"SELECT seq, {texts}, time, digest, prev, hash, salt, body FROM lz_events"
        " WHERE tenant = {tenant} ORDER BY seq",
        tenant,
    ):
        yield StoredEvent(*row)


def _stored_edges(connection: sa.Connection, tenant: int) -> Iterator[tuple[Any, ...]]:
    texts = ", ".join(_bytes_of(column, connection.dialect.name) for column in ("source", "target", "kind"))
    yield from _stream(
        connection,
        f"SELECT seq, place, {texts}, time FROM lz_edges WHERE tenant = {{tenant}} ORDER BY seq, place",
        tenant,
    )


class _ExpectedTables:
    """What the items, tombstones and memories must look like, on disk rather than in memory."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)  # SQLite's own temporary file
        self._file.executescript(
            "PRAGMA synchronous=OFF; BEGIN;"
            "CREATE TABLE items (id TEXT PRIMARY KEY, seq, agent, channel, image, hidden, erased, superseded_by,"
            " ruling) WITHOUT ROWID;"
            "CREATE TABLE missing (seq INTEGER PRIMARY KEY); CREATE TABLE named (seq INTEGER PRIMARY KEY);"
            "CREATE TABLE known (kind, key, item, label, PRIMARY KEY (kind, key, item)) WITHOUT ROWID;"
            "CREATE TABLE texts (seq INTEGER PRIMARY KEY, text TEXT);"
            "CREATE TABLE refs (ref, told, item, system, namespace, key, seq, PRIMARY KEY (ref, seq)) WITHOUT ROWID"
        )

    def close(self) -> None:
        self._file.close()

    def add_event(self, event: Event) -> None:
        body = event.body
        if body is None:
            self._file.execute("INSERT INTO missing VALUES (?)", (event.seq,))
        row = refs.row_of(event.kind, event.subject, body)
        if row is not None:
            self._file.execute("INSERT INTO refs VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, event.seq))
        if event.kind is EventKind.SEEN:
            channel, image = ("", None) if body is None else (body["channel"], body.get("image"))
            self._file.execute(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, 0, 0, NULL, NULL)",
                (event.subject, event.seq, event.agent, channel, image),
            )
            if body is not None and channel == Channel.MEMORY.value:
                self._file.execute(
                    "INSERT INTO texts VALUES (?, ?)", (event.seq, search.indexed_text(body.get("text", "")))
                )
            return
        if event.kind is EventKind.NOTED:
            self._note(fingerprints.change_of(event.subject, body))
        for item, field, value in changes_of(event.kind, event.subject, body):
            self._file.execute(f"UPDATE items SET {field} = ? WHERE id = ?", (value, item))
        if event.kind is EventKind.ERASED and body is not None:
            gone = [(seq,) for seq in body["events"] if seq < event.seq]
            self._file.executemany("INSERT OR IGNORE INTO named VALUES (?)", gone)

    def _note(self, change: fingerprints.Change | None) -> None:
        if change is not None and change.label is None:
            self._file.execute("DELETE FROM known WHERE item = ?", (change.item,))
        elif change is not None:
            rows = [(kind, key, change.item, change.label) for kind, key in change.keys]
            self._file.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)

    def known(self) -> Iterator[tuple[Any, ...]]:
        columns = ("kind", "key", "item", "label")
        yield from self._file.execute(
            f"SELECT {', '.join(f'CAST({one} AS BLOB)' for one in columns)} FROM known ORDER BY kind, key, item"
        )

    def refs(self) -> Iterator[tuple[Any, ...]]:
        names = ", ".join(f"CAST({one} AS BLOB)" for one in _REF_TEXTS)
        yield from self._file.execute(f"SELECT seq, {names} FROM refs ORDER BY ref, seq")

    def texts(self) -> Iterator[tuple[int, str]]:
        """What the search index holds of each memory."""
        yield from self._file.execute("SELECT seq, text FROM texts ORDER BY seq")

    def words(self) -> Iterator[tuple[Any, ...]]:
        """Every word of the memories with its place, as a fresh index of them has it."""
        search.build_expected(self._file, self.texts())
        yield from self._file.execute(f"SELECT term, doc, offset FROM {search.EXPECTED_WORDS}")

    def check_tombstones(self) -> None:
        for mine, other, reason in (
            ("missing", "named", "its content is gone, and no later event says that it was erased"),
            ("named", "missing", "a later event says that it was erased, but its content is there"),
        ):
            row = self._file.execute(
                f"SELECT min(seq) FROM {mine} WHERE seq NOT IN (SELECT seq FROM {other})"
            ).fetchone()
            if row[0] is not None:
                raise _Fault(row[0], reason)

    def items(self) -> Iterator[tuple[Any, ...]]:
        yield from self._file.execute(
            "SELECT CAST(id AS BLOB), seq, CAST(agent AS BLOB), channel, image, hidden, erased, superseded_by, ruling"
            " FROM items ORDER BY id"
        )

    def memories(self) -> Iterator[tuple[Any, ...]]:
        yield from self._file.execute("SELECT seq FROM items WHERE channel = 'memory' AND erased = 0 ORDER BY seq")

    def images(self) -> Iterator[tuple[str, int]]:
        yield from self._file.execute(
            "SELECT image, min(seq) FROM items WHERE image IS NOT NULL GROUP BY image ORDER BY image"
        )


def verify(
    connection: sa.Connection,
    namespace: str,
    head: Head | None,
    checkpoints: tuple[Checkpoint, ...] = (),
    keys: tuple[PublicKey, ...] = (),
) -> Verification:
    """Check everything a tenant has; a fault is an answer, not an exception."""
    for kept in (*([head] if head else ()), *checkpoints):
        if kept.namespace != namespace:
            raise InputError("head", f"is of namespace {kept.namespace!r}, not {namespace!r}")
    verifier = _Verifier(connection, namespace, head, checkpoints, keys)
    try:
        verifier.run()
    except _Fault as fault:
        return Verification(False, verifier.checked, fault.seq, fault.reason)
    except (StoreDamaged, sa.exc.DatabaseError, UnicodeDecodeError) as error:
        if isinstance(error, sa.exc.OperationalError) and connection.dialect.name == "postgresql":
            raise
        text = " ".join(str(getattr(error, "orig", error)).split())
        return Verification(False, verifier.checked, verifier.checked + 1, f"the store cannot be read here: {text}")
    return Verification(True, verifier.checked)


class _Verifier:
    """One verification on its way."""

    def __init__(
        self,
        connection: sa.Connection,
        namespace: str,
        head: Head | None,
        checkpoints: tuple[Checkpoint, ...],
        keys: tuple[PublicKey, ...],
    ) -> None:
        self._connection, self._namespace, self._wanted = connection, namespace, head
        self._checkpoints, self._keys = checkpoints, keys
        self.checked = 0
        self._last = GENESIS

    def run(self) -> None:
        fault = fault_in_schema(self._connection)
        if fault:
            raise _Fault(None, fault)
        row = self._connection.execute(
            sa.select(heads.c.tenant, heads.c.seq, heads.c.hash).where(heads.c.namespace == self._namespace)
        ).first()
        if row is None:
            last = self._kept_seq()
            if last > 0:
                raise _Fault(1, f"the chain is gone; the kept head stands at event {last}")
            if self._keys:
                raise _Fault(1, "the chain is gone, and with it its signatures")
            self._check_orphans()
            self._check_file()
            return
        tenant, seq, last = row
        tables = _ExpectedTables()
        try:
            self._check_chain(tenant, tables)
            self._check_head(seq, bytes(last), "its own head")
            kept = self._kept_seq()
            if kept > self.checked:
                raise _Fault(self.checked + 1, f"the tail is cut: the kept head stands at event {kept}")
            tables.check_tombstones()
            self._check_items(tenant, tables)
            self._check_search(tenant, tables)
            self._check_known(tenant, tables)
            self._check_refs(tenant, tables)
            self._check_blobs(tenant, tables)
        finally:
            tables.close()
        self._check_orphans()
        self._check_file()

    def _kept_seq(self) -> int:
        """How far the chain reached at least, by what was kept of it."""
        return max([self._wanted.seq if self._wanted else 0, *(one.seq for one in self._checkpoints)])

    def _check_orphans(self) -> None:
        """Rows whose head was removed belong to nobody, so an empty namespace may be one that lost its own; and a head
        without events is one that somebody made up."""
        kept = sa.select(heads.c.tenant)
        for table in metadata.tables.values():
            if "tenant" not in table.columns or table is heads:
                continue
            if self._connection.execute(sa.select(table.c.tenant).where(table.c.tenant.not_in(kept)).limit(1)).first():
                raise _Fault(1, f"a head was removed, or {table.name} holds rows that belong to no namespace")
        unshown = sa.select(blobs.c.digest).where(blobs.c.digest.not_in(sa.select(blob_refs.c.digest))).limit(1)
        if self._connection.execute(unshown).first():
            raise _Fault(None, "a blob stands in the store that no namespace put there")
        ends = sa.exists().where(events.c.tenant == heads.c.tenant, events.c.seq == heads.c.seq)
        made_up = sa.select(heads.c.namespace).where(heads.c.seq > 0, ~ends).limit(1)
        row = self._connection.execute(made_up).first()
        if row is not None and row[0] != self._namespace:
            raise _Fault(None, "a head stands in the store whose events are not there")

    def _check_chain(self, tenant: int, tables: _ExpectedTables) -> None:
        linker = Linker(self._namespace)
        proofs = _Proofs(self._connection, tenant, self._namespace, self._checkpoints, self._keys)
        stored_edges = _EdgeReader(_stored_edges(self._connection, tenant))
        for stored in _stored_events(self._connection, tenant):
            seq = self.checked + 1
            fault = fault_in(stored, seq, self._last, linker)
            if fault:
                raise _Fault(seq, fault)
            try:
                event = event_of(self._namespace, stored)
                tables.add_event(event)
                edges = edges_of(event)
            except (ValueError, KeyError, TypeError, sqlite3.Error) as error:
                raise _Fault(seq, f"it means nothing: {error}") from error
            if self._wanted is not None and seq == self._wanted.seq and event.hash != self._wanted.hash:
                raise _Fault(seq, "the chain was rewritten: the kept head has another hash here")
            expected = [
                (seq, n, edge.source.encode(), edge.target.encode(), edge.kind.value.encode(), edge.time)
                for n, edge in enumerate(edges)
            ]
            if stored_edges.up_to(seq) != expected:
                raise _Fault(seq, "the edges table does not agree with this event")
            proofs.follow(event, stored.hash)
            self.checked, self._last = seq, stored.hash
        proofs.finish(self.checked)
        left = stored_edges.next_seq()
        if left is not None:
            raise _Fault(self.checked + 1, f"the edges table holds an edge of event {left}, which is not there")

    def _check_head(self, seq: int, last: bytes, whose: str) -> None:
        if seq > self.checked:
            raise _Fault(self.checked + 1, f"the tail is cut: {whose} stands at event {seq}")
        if seq < self.checked:
            raise _Fault(seq + 1, f"an event stands past the end: {whose} stands at event {seq}")
        if last != self._last:
            raise _Fault(max(seq, 1), f"{whose} has another hash")

    def _check_items(self, tenant: int, tables: _ExpectedTables) -> None:
        dialect = self._connection.dialect.name
        names = (_bytes_of("id", dialect), "seq", _bytes_of("agent", dialect), "channel", "image")
        stored = _stream(
            self._connection,
            f"SELECT {', '.join(names)}, hidden, erased, superseded_by, ruling FROM lz_items"
            " WHERE tenant = {tenant} ORDER BY id",
            tenant,
        )
        for expected, found in zip_longest(tables.items(), stored):
            if expected != found:
                # both come in the order of ids, so the smaller id is the one that the other side lacks
                odd = min((row for row in (expected, found) if row is not None), key=lambda row: bytes(row[0]))
                seq = odd[1] if isinstance(odd[1], int) else None
                raise _Fault(seq, f"item {odd[0]!r} does not agree with a replay of the chain")

    def _check_search(self, tenant: int, tables: _ExpectedTables) -> None:
        if self._connection.dialect.name == "postgresql":
            indexed = _stream(
                self._connection, "SELECT seq FROM lz_search WHERE tenant = {tenant} ORDER BY seq", tenant
            )
        elif sa.inspect(self._connection).has_table(f"lz_search_{tenant}_docsize"):
            indexed = _stream(
                self._connection,
                f"SELECT id FROM lz_search_{int(tenant)}_docsize WHERE {{tenant}} > 0 ORDER BY id",
                tenant,
            )
        else:
            indexed = iter(())
        for expected, found in zip_longest(tables.memories(), indexed):
            if expected != found:
                seqs = [row[0] for row in (expected, found) if row is not None]
                raise _Fault(min(seqs), "the search index does not agree with the memories")
        self._check_words(tenant, tables)

    def _check_words(self, tenant: int, tables: _ExpectedTables) -> None:
        """The words behind the rows: an index may name every memory and still find none of them."""
        if self._connection.dialect.name == "postgresql":
            for page in chunks(tables.texts()):
                odd = search.altered(self._connection, tenant, page)
                if odd is not None:
                    raise _Fault(odd, "the search index holds other words than this memory")
            return
        for expected, found in zip_longest(tables.words(), search.stored_words(self._connection, tenant)):
            if expected != found:
                seqs = [row[1] for row in (expected, found) if row is not None]
                raise _Fault(min(seqs), "the search index holds other words than this memory")

    def _check_known(self, tenant: int, tables: _ExpectedTables) -> None:
        names = ", ".join(_bytes_of(name, self._connection.dialect.name) for name in ("kind", "key", "item", "label"))
        stored = _stream(
            self._connection,
            f"SELECT {names} FROM lz_known WHERE tenant = {{tenant}} ORDER BY kind, key, item",
            tenant,
        )
        for expected, found in zip_longest(tables.known(), stored):
            if expected != (None if found is None else tuple(bytes(part) for part in found)):
                raise _Fault(None, "the fingerprints of known items do not agree with a replay of the chain")

    def _check_refs(self, tenant: int, tables: _ExpectedTables) -> None:
        names = ", ".join(_bytes_of(name, self._connection.dialect.name) for name in _REF_TEXTS)
        stored = _stream(
            self._connection, f"SELECT seq, {names} FROM lz_refs WHERE tenant = {{tenant}} ORDER BY ref, seq", tenant
        )
        for expected, found in zip_longest(tables.refs(), stored):
            if expected != (None if found is None else (found[0], *map(bytes, found[1:]))):
                raise _Fault(None, "the refs to records elsewhere do not agree with a replay of the chain")

    def _check_blobs(self, tenant: int, tables: _ExpectedTables) -> None:
        for digest, seq in tables.images():
            if not self._blob_is_sound(tenant, digest):
                raise _Fault(seq, f"its picture {digest[:12]}... is missing or was altered")
        shown = sa.select(items.c.image).where(items.c.tenant == tenant, items.c.image.is_not(None))
        unshown = sa.select(blob_refs.c.digest).where(blob_refs.c.tenant == tenant, blob_refs.c.digest.not_in(shown))
        for (digest,) in self._connection.execute(unshown).all():
            if not self._blob_is_sound(tenant, digest):
                raise _Fault(None, f"blob {digest[:12]}... is missing or was altered")

    def _blob_is_sound(self, tenant: int, digest: str) -> bool:
        data = self._connection.execute(
            sa.select(blobs.c.data)
            .join(blob_refs, blob_refs.c.digest == blobs.c.digest)
            .where(blob_refs.c.tenant == tenant, blob_refs.c.digest == digest)
        ).scalar()
        return isinstance(data, (bytes, memoryview)) and hashlib.sha256(data).hexdigest() == digest

    def _check_file(self) -> None:
        """SQLite's own check: it sees damage to an index or a page that no query above came by."""
        if self._connection.dialect.name != "sqlite":
            return
        answer = self._connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if answer != "ok":
            raise _Fault(None, f"the file is damaged: {answer}")


class _Proofs:
    """Signatures, tree and kept checkpoints, followed event by event."""

    def __init__(
        self,
        connection: sa.Connection,
        tenant: int,
        namespace: str,
        checkpoints: tuple[Checkpoint, ...],
        keys: tuple[PublicKey, ...],
    ) -> None:
        self._namespace, self._checkpoints, self._keys = namespace, checkpoints, keys
        self._due = sorted(checkpoints, key=lambda one: -one.seq)
        self._trust = Trust(keys)
        self._signatures = _stream(
            connection,
            "SELECT seq, prev, key, signature FROM lz_signatures WHERE tenant = {tenant} ORDER BY seq",
            tenant,
        )
        self._next = next(self._signatures, None)
        self._signed = 0
        nodes = _stream(connection, "SELECT level, place, hash FROM lz_tree WHERE tenant = {tenant}", tenant)
        self._nodes = {(level, place): bytes(digest) for level, place, digest in nodes}
        self._whole = 2 * (max((place for level, place in self._nodes if level == 1), default=-1) + 1)
        self._tree = Builder()

    def follow(self, event: Event, digest: bytes) -> None:
        for level, place, node in self._tree.add(digest):
            if event.seq <= self._whole and self._nodes.pop((level, place), None) != node:
                raise _Fault(event.seq, "the tree over the events does not agree with them")
        while self._due and self._due[-1].seq <= event.seq:
            kept = self._due.pop()
            if kept.seq and (kept.hash != event.hash or kept.root != self._tree.root().hex()):
                raise _Fault(event.seq, "the chain was rewritten: a kept checkpoint has another hash here")
        if event.kind is EventKind.NOTED:
            self._trust.follow(event.subject, event.body)
        if self._next is None or self._next[0] != event.seq:
            return
        _, prev, key, signature = self._next
        if prev != self._signed:
            raise _Fault(event.seq, f"a signature is missing: the one before this stood at event {prev}")
        self._next, self._signed = next(self._signatures, None), event.seq
        if self._keys:
            statement = head_statement(self._namespace, event.seq, prev, digest)
            fault = self._trust.fault_in(key, statement, signature)
            if fault:
                raise _Fault(event.seq, fault)

    def finish(self, last: int) -> None:
        if self._next is not None:
            raise _Fault(last + 1, f"a signature stands at event {self._next[0]}, which is not there")
        if self._nodes:
            raise _Fault(None, "the tree over the events holds nodes that no events have")
        if self._keys and self._signed != last:
            raise _Fault(self._signed + 1, "from here on nothing is signed: somebody without the key wrote it")
        for kept in self._checkpoints if self._keys else ():
            if not kept.signed_by(self._trust.ever):
                raise _Fault(kept.seq, "a kept checkpoint is not signed by a key that is trusted here")


class _EdgeReader:
    """Hands out the stored edges event by event."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._waiting = next(rows, None)

    def next_seq(self) -> Any:
        """The event of the first edge not handed out yet; None when there is none."""
        return None if self._waiting is None else self._waiting[0]

    def up_to(self, seq: int) -> list[tuple[Any, ...]]:
        """The edges of event ``seq``, and any that stand before it where none should be left."""
        taken = []
        while self._waiting is not None and not (isinstance(self._waiting[0], int) and self._waiting[0] > seq):
            taken.append(self._waiting)
            self._waiting = next(self._rows, None)
        return taken
