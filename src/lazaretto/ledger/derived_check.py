"""The derived tables held to a replay of the chain: each row that is missing, altered or too many is named."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from itertools import groupby, zip_longest
from typing import Any

import sqlalchemy as sa

from lazaretto.ledger import search, vectors
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.replay import REF_TEXTS, ExpectedTables
from lazaretto.ledger.schema import blob_refs, blobs, items

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
