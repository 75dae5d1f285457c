"""The derived tables held to a replay of the chain: each row that is missing, altered or too many is named."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from itertools import groupby, zip_longest
from typing import Any

import sqlalchemy as sa

from lazaretto.ledger import chain, search, vectors
from lazaretto.ledger import refs as lookups
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import changes_of
from lazaretto.ledger.schema import blob_refs, blobs, items
from lazaretto.types import Channel, Event, EventKind

_FETCH = 500
Row = tuple[Any, ...]
ClaimsOfItem = tuple[bytes, int | None, int, str]
"""Item, event, count and digest of its claims; no event where their numbers are of none."""


class VerifyFault(Exception):
    """A fault that a verification found; ``seq`` is the event it concerns, if it concerns one."""

    def __init__(self, seq: int | None, table: str, reason: str) -> None:
        super().__init__(reason)
        self.seq, self.table, self.reason = seq, table, reason


def bytes_of(column: str, dialect: str) -> str:
    """A text column as bytes: altered text may not be text any more, and must not stop the reading."""
    return f"CAST({column} AS BLOB)" if dialect == "sqlite" else f"convert_to({column}, 'UTF8')"


def stream(connection: sa.Connection, statement: str, tenant: int) -> Iterator[Row]:
    """The rows of a statement that names the tenant once, a few at a time."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    result = connection.exec_driver_sql(
        statement.replace("{tenant}", mark), (tenant,), execution_options={"stream_results": True}
    )
    while rows := result.fetchmany(_FETCH):
        yield from (tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in rows)


def _named(key: Iterable[Any]) -> str:
    return ", ".join(part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in key)


def _order(value: Any) -> tuple[int, Any]:
    """A sort key in the order of both databases: numbers first, then texts and bytes by their bytes."""
    if isinstance(value, (int, float)):
        return 0, value
    return 1, value.encode() if isinstance(value, str) else b"" if value is None else bytes(value)


def compare(table: str, expected: Iterable[Row], found: Iterable[Row], *, key: int, seq: int | None = None) -> None:
    """Fault at the first row that differs; both sides come in the order of their first ``key`` columns.

    ``seq``: the column that holds the number of an event.
    """
    try:
        for wanted, row in zip_longest(expected, found):
            if wanted != row:
                raise _difference(table, wanted, row, key, seq)
    finally:
        for side in (expected, found):
            if isinstance(side, Generator):
                side.close()


def _difference(table: str, wanted: Row | None, row: Row | None, key: int, seq: int | None) -> VerifyFault:
    sides = [(tuple(map(_order, side[:key])), side) for side in (wanted, row) if side is not None]
    _, odd = min(sides, key=lambda side: side[0])
    if wanted is not None and row is not None and sides[0][0] == sides[1][0]:
        what = "is not what the chain says"
    elif wanted is not None and odd is wanted:
        what = "is missing"
    else:
        what = "stands there, but not by the chain"
    event = odd[seq] if seq is not None and isinstance(odd[seq], int) else None
    return VerifyFault(event, table, f"{table}: the row ({_named(odd[:key])}) {what}")


class DerivedCheck:
    """Checks the derived tables of one tenant."""

    def __init__(self, connection: sa.Connection, tenant: int, tables: ExpectedTables) -> None:
        self._connection, self._tenant, self._tables = connection, tenant, tables
        self._dialect = connection.dialect.name
        self.table = "lz_items"
        """The one that is being read: should it turn out to be unreadable."""

    def run(self) -> None:
        """Fault at the first row that is not as the chain says."""
        for table, check in (
            ("lz_items", self._items),
            ("lz_search", self._search),
            ("lz_known", self._known),
            ("lz_refs", self._refs),
            ("lz_claims", self._claims),
            ("lz_tree", self._tree),
            ("lz_blobs", self._blobs),
        ):
            self.table = table
            check()

    def _items(self) -> None:
        names = (bytes_of("id", self._dialect), "seq", bytes_of("agent", self._dialect), "channel", "image")
        stored = stream(
            self._connection,
            f"SELECT {', '.join(names)}, hidden, erased, superseded_by, ruling FROM lz_items"
            " WHERE tenant = {tenant} ORDER BY id",
            self._tenant,
        )
        compare("lz_items", self._tables.items(), stored, key=1, seq=1)

    def _known(self) -> None:
        names = ", ".join(bytes_of(column, self._dialect) for column in ("kind", "key", "item", "label"))
        stored = stream(
            self._connection,
            f"SELECT {names} FROM lz_known WHERE tenant = {{tenant}} ORDER BY kind, key, item",
            self._tenant,
        )
        compare("lz_known", self._tables.known(), stored, key=3)

    def _refs(self) -> None:
        others = ", ".join(bytes_of(name, self._dialect) for name in REF_TEXTS[1:])
        stored = stream(
            self._connection,
            f"SELECT {bytes_of('ref', self._dialect)}, seq, {others} FROM lz_refs"
            " WHERE tenant = {tenant} ORDER BY ref, seq",
            self._tenant,
        )
        compare("lz_refs", self._tables.refs(), stored, key=2, seq=1)

    def _tree(self) -> None:
        stored = stream(
            self._connection,
            "SELECT level, place, hash FROM lz_tree WHERE tenant = {tenant} ORDER BY level, place",
            self._tenant,
        )
        compare("lz_tree", self._tables.nodes(), stored, key=2)

    def _claims(self) -> None:
        """Rows by item, each item's held to the digest that the chain has of them."""
        compare("lz_claims", self._tables.claims(), stored_claims(self._connection, self._tenant), key=1, seq=1)

    def _search(self) -> None:
        if self._dialect == "postgresql":
            self._postgres_search()
        elif search.has_index(self._connection, self._tenant):
            self._sqlite_search()
        elif next(self._tables.memories(), None) is not None:
            raise VerifyFault(None, f"lz_search_{self._tenant}", f"lz_search_{self._tenant}: the index is missing")

    def _postgres_search(self) -> None:
        indexed = stream(
            self._connection, "SELECT seq FROM lz_search WHERE tenant = {tenant} ORDER BY seq", self._tenant
        )
        compare("lz_search", self._tables.memories(), indexed, key=1, seq=0)
        for page in chunks(self._tables.texts()):
            odd = search.altered(self._connection, self._tenant, page)
            if odd is not None:
                raise VerifyFault(odd, "lz_search", f"lz_search: the row ({odd}) holds other words than this memory")

    def _sqlite_search(self) -> None:
        tables, table = self._tables, f"lz_search_{self._tenant}"
        tables.build_index()

        def rows(part: str, columns: str, order: str) -> Iterator[Row]:
            statement = f"SELECT {columns} FROM {table}_{part} WHERE {{tenant}} > 0 ORDER BY {order}"
            return stream(self._connection, statement, self._tenant)

        self.table = f"{table}_config"
        compare(self.table, tables.settings(), rows("config", "k, v", "k"), key=1)
        self.table = f"{table}_docsize"
        compare(self.table, tables.sizes(), rows("docsize", "id, sz", "id"), key=1, seq=0)
        self.table = f"{table}_data"
        row = self._connection.exec_driver_sql(f"SELECT block FROM {table}_data WHERE id = {search.AVERAGES}").first()
        wanted, counted = tables.averages(), b"" if row is None else bytes(row[0])
        if row is None or (counted != wanted and (any(wanted) or any(counted))):  # of no memory: nothing, or zeros
            raise VerifyFault(None, self.table, f"{self.table}: the row (1) counts other words than the memories have")
        self.table = f"{table}_data and {table}_idx"  # a word is found by its key, in a page: either may be wrong
        compare(self.table, tables.words(), search.stored_words(self._connection, self._tenant), key=3, seq=1)
        fault = search.fault_in_pages(self._connection, self._tenant)
        if fault is not None:
            raise VerifyFault(None, fault[0], f"{fault[0]}: {fault[1]}")

    def _blobs(self) -> None:
        for digest, seq in self._tables.images():
            self._blob(digest, seq)
        shown = sa.select(items.c.image).where(items.c.tenant == self._tenant, items.c.image.is_not(None))
        unshown = sa.select(blob_refs.c.digest).where(
            blob_refs.c.tenant == self._tenant, blob_refs.c.digest.not_in(shown)
        )
        for (digest,) in self._connection.execute(unshown).all():
            self._blob(digest, None)

    def _blob(self, digest: str, seq: int | None) -> None:
        mine = sa.select(blob_refs.c.digest).where(blob_refs.c.tenant == self._tenant, blob_refs.c.digest == digest)
        if self._connection.execute(mine).first() is None:
            raise VerifyFault(seq, "lz_blob_refs", f"lz_blob_refs: the row of the picture {digest[:12]}... is missing")
        data = self._connection.execute(sa.select(blobs.c.data).where(blobs.c.digest == digest)).scalar()
        if not isinstance(data, (bytes, memoryview)) or hashlib.sha256(data).hexdigest() != digest:
            which = "lz_blobs" if seq is not None or data is not None else "lz_blobs and lz_blob_refs"
            raise VerifyFault(seq, which, f"{which}: the picture {str(digest)[:12]}... is missing or was altered")


def stored_claims(connection: sa.Connection, tenant: int) -> Iterator[ClaimsOfItem]:
    """The claims of each item as they stand, in the order of the items."""
    item = bytes_of("item", connection.dialect.name)
    rows = stream(
        connection,
        f"SELECT {item}, id, place, start, stop, cell, vector FROM lz_claims"
        " WHERE tenant = {tenant} ORDER BY item, place",
        tenant,
    )
    yield from _by_item(rows)


def _by_item(rows: Iterator[Row]) -> Iterator[ClaimsOfItem]:
    for item, group in groupby(rows, key=lambda row: bytes(row[0])):
        digest, seqs = vectors.Digest(), set[int | None]()
        for _, number, place, start, end, cell, vector in group:
            fits = all(isinstance(n, int) for n in (number, place, start, end, cell)) and isinstance(vector, bytes)
            if not fits:
                seqs.add(None)
                continue
            seqs.add((number - place) // vectors.PLACES if (number - place) % vectors.PLACES == 0 else None)
            digest.add(place, start, end, cell, vector)
        record = digest.record()
        yield item, seqs.pop() if len(seqs) == 1 else None, record["count"], record["digest"]


# The expected content of the derived tables, replayed from the chain into a temporary SQLite file (not memory).

REF_TEXTS = ("ref", "told", "item", "system", "namespace", "key")


class ExpectedTables:
    """Takes events in, and gives the expected content of every derived table after them."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)  # SQLite's own temporary file
        self._file.executescript(
            "PRAGMA synchronous=OFF; BEGIN;"
            "CREATE TABLE items (id TEXT PRIMARY KEY, seq, agent, channel, image, hidden, erased, superseded_by,"
            " ruling) WITHOUT ROWID;"
            "CREATE TABLE missing (seq INTEGER PRIMARY KEY); CREATE TABLE named (seq INTEGER PRIMARY KEY);"
            "CREATE TABLE known (kind, key, item, label, PRIMARY KEY (kind, key, item)) WITHOUT ROWID;"
            "CREATE TABLE texts (seq INTEGER PRIMARY KEY, text TEXT);"
            "CREATE TABLE claims (item TEXT PRIMARY KEY, seq, count, digest, adopted) WITHOUT ROWID;"
            "CREATE TABLE again (item TEXT PRIMARY KEY, seq) WITHOUT ROWID;"
            "CREATE TABLE nodes (level, place, hash, PRIMARY KEY (level, place)) WITHOUT ROWID;"
            "CREATE TABLE refs (ref, told, item, system, namespace, key, seq, PRIMARY KEY (ref, seq)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def add_event(self, event: Event) -> None:
        """The next event of the chain; ``ValueError`` and others when it is invalid."""
        body = event.body
        if body is None:
            self._file.execute("INSERT INTO missing VALUES (?)", (event.seq,))
        row = lookups.row_of(event.kind, event.subject, body)
        if row is not None:
            self._file.execute("INSERT INTO refs VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, event.seq))
        record = vectors.record_of(event.kind, event.subject, body)
        if record is not None:
            self._record_claims(event.seq, record)
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
            self._note(lookups.change_of(event.subject, body))
        for item, field, value in changes_of(event.kind, event.subject, body):
            self._file.execute(f"UPDATE items SET {field} = ? WHERE id = ?", (value, item))
        if event.kind is EventKind.ERASED and body is not None:
            self._file.execute("DELETE FROM claims WHERE item = ?", (event.subject,))
            gone = [(seq,) for seq in body["events"] if seq < event.seq]
            self._file.executemany("INSERT OR IGNORE INTO named VALUES (?)", gone)

    def add_nodes(self, nodes: Iterable[tuple[int, int, bytes]]) -> None:
        """Subtrees of the tree over the events, as they become whole: those that the store keeps."""
        kept = [node for node in nodes if node[0] >= chain.LOWEST]
        if kept:
            self._file.executemany("INSERT INTO nodes VALUES (?, ?, ?)", kept)

    def nodes(self) -> Iterator[tuple[Any, ...]]:
        """The stored nodes of the tree over the events."""
        yield from self._file.execute("SELECT level, place, hash FROM nodes ORDER BY level, place")

    def _record_claims(self, seq: int, record: vectors.ClaimRecord) -> None:
        row = (record.item, seq, record.count, record.digest, int(record.adopted))
        known = self._file.execute("SELECT 1 FROM claims WHERE item = ?", (record.item,)).fetchone()
        if known is not None and record.adopted:
            raise ValueError(f"it adopts claims of {record.item!r} that the chain had recorded before")
        if known is not None:
            self._file.execute("INSERT OR IGNORE INTO again VALUES (?, ?)", (record.item, seq))
        self._file.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)", row)

    def claims(self) -> Iterator[tuple[bytes, int, int, str]]:
        """Item, event, count and digest of every item whose claims are kept."""
        yield from self._file.execute("SELECT CAST(item AS BLOB), seq, count, digest FROM claims ORDER BY item")

    def adopted(self) -> int:
        """Items whose claims are older than the chain's first event about them."""
        return int(self._file.execute("SELECT count(*) FROM claims WHERE adopted").fetchone()[0])

    def read_again(self) -> tuple[int, int]:
        """How many items' claims were recorded a second time, and the first event that did so."""
        count, seq = self._file.execute("SELECT count(*), min(seq) FROM again").fetchone()
        return int(count), int(seq or 0)

    def _note(self, change: lookups.FingerprintChange | None) -> None:
        if change is not None and change.label is None:
            self._file.execute("DELETE FROM known WHERE item = ?", (change.item,))
        elif change is not None:
            rows = [(kind, key, change.item, change.label) for kind, key in change.keys]
            self._file.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)

    def known(self) -> Iterator[tuple[Any, ...]]:
        columns = ("kind", "key", "item", "label")
        yield from self._file.execute(
            f"SELECT {', '.join(f'CAST({column} AS BLOB)' for column in columns)} FROM known ORDER BY kind, key, item"
        )

    def refs(self) -> Iterator[tuple[Any, ...]]:
        first, *others = (f"CAST({column} AS BLOB)" for column in REF_TEXTS)
        yield from self._file.execute(f"SELECT {first}, seq, {', '.join(others)} FROM refs ORDER BY ref, seq")

    def texts(self) -> Iterator[tuple[int, str]]:
        """The indexed text of each memory."""
        yield from self._file.execute("SELECT seq, text FROM texts ORDER BY seq")

    def build_index(self) -> None:
        """Make a fresh search index of the memories, to be read by ``words``, ``sizes``, ``settings``, ``averages``."""
        search.build_expected(self._file, self.texts())
        self._file.execute("COMMIT")  # FTS5's counts are written with it
        self._file.execute("BEGIN")

    def words(self) -> Iterator[tuple[Any, ...]]:
        """Every word of the memories with its place."""
        yield from self._file.execute(f"SELECT term, doc, offset FROM {search.EXPECTED_WORDS}")

    def sizes(self) -> Iterator[tuple[Any, ...]]:
        """How many words the index counts in each memory."""
        yield from self._file.execute("SELECT id, sz FROM expected_docsize ORDER BY id")

    def settings(self) -> Iterator[tuple[Any, ...]]:
        """The settings of the index."""
        yield from self._file.execute("SELECT k, v FROM expected_config ORDER BY k")

    def averages(self) -> bytes:
        """The input for ranking: how many memories and words there are."""
        row = self._file.execute("SELECT block FROM expected_data WHERE id = ?", (search.AVERAGES,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def fault_in_tombstones(self) -> tuple[int, str] | None:
        """The first event that lost its content without a tombstone, or has it despite one."""
        for mine, other, reason in (
            ("missing", "named", "its content is gone, and no later event says that it was erased"),
            ("named", "missing", "a later event says that it was erased, but its content is there"),
        ):
            row = self._file.execute(
                f"SELECT min(seq) FROM {mine} WHERE seq NOT IN (SELECT seq FROM {other})"
            ).fetchone()
            if row[0] is not None:
                return int(row[0]), reason
        return None

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
