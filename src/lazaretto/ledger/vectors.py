"""Vectors beside the ledger: the claims of memories, found by meaning.

A row says where in its item's text a claim stands, and holds its vector in eight bits. A model made the vectors, so the
chain cannot make them again: the event that records them (the item's own, or a ``NOTED`` event about ``claims:ITEM``)
holds their number and digest, and ``verify`` checks the rows. They go when their item is erased.

Look-ups use a small index in memory, one sign bit per dimension. A large tenant's rows lie in cells around fixed
centres, so that a look-up touches about a tenth of them; the results are ranked by the stored vectors.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.ledger import driver
from lazaretto.ledger.chain import decode_body
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import visible_sql
from lazaretto.ledger.schema import claims, events
from lazaretto.types import EventKind

ABOUT = "claims:"
"""Prefix of the subject of an event that records the claims of an older item."""
RECORD = "claims"
"""Key of the record of claims in an event's body."""
PLACES = 1 << 20
"""Claims that an item may have: the number of a row is its event's times this, and its place."""

DIMENSION = 384
CELLS = 256
PROBED = 24
"""Cells that one look-up reads: about a tenth of all."""
WHOLE = 20_000
"""Rows up to which a look-up reads them all: a cell that is not probed must not hide the one claim that matters."""
_WORDS = DIMENSION // 64
_RESCORED = 96
_PAGE = 20_000
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One claim of an item, to be kept."""

    start: int
    end: int
    vector: Floats
    """A unit vector."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A claim near to the query."""

    item: str
    start: int
    end: int
    cosine: float


@cache
def _centres() -> Floats:
    """Fixed directions that cut the space into cells; they must never change."""
    rng = np.random.default_rng(20_261_115)
    made = rng.standard_normal((CELLS, DIMENSION)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def _rounded(vectors: Floats) -> NDArray[np.int8]:
    most = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9)
    return np.asarray((vectors * (127 / most)).round(), np.int8)


def _bits(vectors: NDArray[np.int8]) -> NDArray[np.uint64]:
    return np.packbits(vectors > 0, axis=1).view(np.uint64)


@dataclass(frozen=True, slots=True)
class KeptClaims:
    """The claims of one item in their stored form, and their record in the chain."""

    rows: tuple[tuple[int, int, int, int, bytes], ...]
    """Place, start, end, cell and vector of each."""

    @classmethod
    def of(cls, claims: Sequence[ClaimRow]) -> KeptClaims:
        """Make them from the claims read in a text."""
        if len(claims) >= PLACES:
            raise InputError("claims", f"are {len(claims):,}", f"An item may have {PLACES - 1:,}")
        vectors = _rounded(np.array([row.vector for row in claims], np.float32).reshape(len(claims), DIMENSION))
        cells = (vectors.astype(np.float32) @ _centres().T).argmax(axis=1) if claims else []
        together = zip(claims, cells, vectors, strict=True)
        return cls(tuple((n, c.start, c.end, int(cell), v.tobytes()) for n, (c, cell, v) in enumerate(together)))

    def record(self) -> dict[str, Any]:
        """The body part of the event that records these claims."""
        digest = Digest()
        for row in self.rows:
            digest.add(*row)
        return digest.record()


class Digest:
    """Takes the claims of an item in, row by row, in the order of their places."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"lazaretto claims 1\0")
        self._count = 0

    def add(self, place: int, start: int, end: int, cell: int, vector: bytes) -> None:
        """One more row."""
        self._hash.update(struct.pack(">qqqqq", place, start, end, cell, len(vector)))
        self._hash.update(vector)
        self._count += 1

    def record(self) -> dict[str, Any]:
        """How many there were, and their digest."""
        return {"count": self._count, "digest": self._hash.hexdigest()}


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """The record of an item's claims in an event."""

    item: str
    count: int
    digest: str
    adopted: bool
    """The claims are older than the first event about them: nothing proves that they come from the item's text."""


def record_of(kind: EventKind, subject: str, body: Mapping[str, Any] | None) -> ClaimRecord | None:
    """The record of claims in an event; None for most events, and for erased ones."""
    if body is None or RECORD not in body:
        return None
    if kind is EventKind.NOTED and subject.startswith(ABOUT):
        item = subject.removeprefix(ABOUT)
    elif kind is EventKind.SEEN:
        item = subject
    else:
        return None
    record = body[RECORD]
    if (
        not isinstance(record, Mapping)
        or type(record.get("count")) is not int
        or not isinstance(record.get("digest"), str)
    ):
        raise ValueError(f"{subject!r} says nothing about claims that can be read")
    return ClaimRecord(item, record["count"], record["digest"], bool(body.get("adopted", False)))


def add(connection: sa.Connection, tenant: int, item: str, seq: int, kept: KeptClaims) -> None:
    """Keep the claims of an item that event ``seq`` records; once kept, they stay as they are."""
    mark = driver.mark(connection)
    driver.write(
        connection,
        f"INSERT INTO lz_claims (tenant, id, item, place, start, stop, cell, vector) VALUES ({', '.join([mark] * 8)})",
        [(tenant, seq * PLACES + row[0], item, *row) for row in kept.rows],
    )


def has(connection: sa.Connection, tenant: int, item: str) -> bool:
    """Whether claims of an item are kept."""
    query = sa.select(claims.c.id).where(claims.c.tenant == tenant, claims.c.item == item).limit(1)
    return connection.execute(query).first() is not None


_BY_ITEM = "SELECT item, place, start, stop, cell, vector FROM {table} WHERE tenant = {mark} ORDER BY item, place"


def stored(connection: sa.Connection, tenant: int, table: str = "lz_claims") -> Iterator[tuple[str, KeptClaims]]:
    """The claims of a tenant's items, item by item."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    rows = connection.exec_driver_sql(
        _BY_ITEM.format(table=table, mark=mark), (tenant,), execution_options={"stream_results": True}
    )
    item, waiting = "", list[tuple[int, int, int, int, bytes]]()
    for name, *row, vector in rows:
        if name != item and waiting:
            yield item, KeptClaims(tuple(waiting))
            waiting = []
        item = name
        waiting.append((*row, bytes(vector)))
    if waiting:
        yield item, KeptClaims(tuple(waiting))


def last_record(connection: sa.Connection, tenant: int, item: str) -> tuple[int, ClaimRecord] | None:
    """The chain's last record of an item's claims, and the number of its event."""
    query = sa.select(events.c.seq, events.c.kind, events.c.subject, events.c.body).where(
        events.c.tenant == tenant, events.c.subject.in_((item, ABOUT + item)), events.c.body.is_not(None)
    )
    for seq, kind, subject, body in connection.execute(query.order_by(events.c.seq.desc())).all():
        record = record_of(EventKind(kind), subject, decode_body(bytes(body)))
        if record is not None:
            return int(seq), record
    return None


def drop(connection: sa.Connection, tenant: int, subjects: Iterable[str]) -> None:
    """Forget the claims of erased items."""
    for chunk in chunks(subjects):
        connection.execute(claims.delete().where(claims.c.tenant == tenant, claims.c.item.in_(chunk)))


def unindexed(connection: sa.Connection, tenant: int, after: int, limit: int) -> list[tuple[int, str]]:
    """Memories past an event that have no claims kept, oldest first: event number and id."""
    mark = driver.mark(connection)
    query = (
        f"SELECT seq, id FROM lz_items WHERE tenant = {mark} AND seq > {mark} AND channel = 'memory' AND erased = 0"
        " AND NOT EXISTS (SELECT 1 FROM lz_claims WHERE lz_claims.tenant = lz_items.tenant"
        f" AND lz_claims.item = lz_items.id) ORDER BY seq LIMIT {mark}"
    )
    return [(int(seq), str(item)) for seq, item in driver.read(connection, query, (tenant, after, limit))]


class _Cell:
    """The rows of one cell: bits and numbers, growing."""

    __slots__ = ("bits", "numbers", "size")

    def __init__(self) -> None:
        self.bits = np.empty((_WORDS, 8), np.uint64)  # word by word: so the processor counts many rows at once
        self.numbers = np.empty(8, np.int64)
        self.size = 0

    def extend(self, bits: NDArray[np.uint64], numbers: NDArray[np.int64]) -> None:
        need = self.size + len(numbers)
        if need > len(self.numbers):
            room = max(need, 2 * len(self.numbers)) - self.size
            self.bits = np.concatenate([self.bits[:, : self.size], np.empty((_WORDS, room), np.uint64)], axis=1)
            self.numbers = np.concatenate([self.numbers[: self.size], np.empty(room, np.int64)])
        self.bits[:, self.size : need], self.numbers[self.size : need] = bits.T, numbers
        self.size = need


class VectorIndex:
    """The claims of one tenant in memory. Safe to share between threads; follows the additions of other processes."""

    def __init__(self) -> None:
        self._cells = [_Cell() for _ in range(CELLS)]
        self._whole: _Cell | None = _Cell()
        self._last = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(cell.size for cell in self._cells)

    @property
    def bytes_held(self) -> int:
        """Memory of the arrays."""
        return sum(cell.bits.nbytes + cell.numbers.nbytes for cell in (*self._cells, self._whole) if cell is not None)

    def follow(self, connection: sa.Connection, tenant: int) -> None:
        """Take in the rows that were added since the last time."""
        mark = driver.mark(connection)
        query = (
            f"SELECT id, cell, vector FROM lz_claims WHERE tenant = {mark} AND id > {mark} ORDER BY id LIMIT {_PAGE}"
        )
        with self._lock:
            while True:
                page = driver.read(connection, query, (tenant, self._last))
                if not page:
                    return
                numbers = np.array([row[0] for row in page], np.int64)
                cells = np.array([row[1] for row in page], np.int64)
                vectors = np.frombuffer(b"".join(bytes(row[2]) for row in page), np.int8).reshape(-1, DIMENSION)
                bits = _bits(vectors)
                if self._whole is not None:
                    self._whole.extend(bits, numbers)
                    self._whole = self._whole if self._whole.size <= WHOLE else None
                order = np.argsort(cells, kind="stable")
                bounds = np.searchsorted(cells[order], np.arange(CELLS + 1))
                for cell in np.unique(cells).tolist():
                    chosen = order[bounds[cell] : bounds[cell + 1]]
                    self._cells[cell].extend(bits[chosen], numbers[chosen])
                self._last = int(numbers[-1])
                if len(page) < _PAGE:
                    return

    def candidates(self, vector: Floats, count: int) -> NDArray[np.int64]:
        """Numbers of the rows whose sign bits are most like those of a vector, nearest first."""
        rounded = _rounded(vector.reshape(1, DIMENSION))
        bits = _bits(rounded)[0]
        with self._lock:
            cells = [self._whole] if self._whole is not None else [self._cells[i] for i in _probed(vector)]
            parts = [cell for cell in cells if cell.size]
            views = [(cell.bits[:, : cell.size], cell.numbers[: cell.size]) for cell in parts]
        if not views:
            return np.empty(0, np.int64)
        distance = np.concatenate([_distance(words, bits) for words, _ in views])
        numbers = np.concatenate([n for _, n in views])
        if len(distance) > count:
            chosen = np.argpartition(distance, count - 1)[:count]
            distance, numbers = distance[chosen], numbers[chosen]
        return numbers[np.argsort(distance, kind="stable")]

    def nearest(
        self, connection: sa.Connection, tenant: int, vector: Floats, *, limit: int, least: float, hidden: bool = False
    ) -> list[Neighbour]:
        """Claims of visible items, nearest first; ``least`` is the lowest cosine that counts.

        ``hidden``: of held ones too, but never of erased or superseded ones.
        """
        self.follow(connection, tenant)
        wanted, asked = max(_RESCORED, 4 * limit), 0
        while True:
            numbers = self.candidates(vector, wanted)
            found, farther = _rescored(connection, tenant, vector, numbers.tolist(), hidden, limit, least)
            enough = len(found) + farther >= limit
            if enough or len(numbers) < wanted or wanted > 16 * _RESCORED or asked == len(numbers):
                return found
            asked, wanted = len(numbers), 4 * wanted


def _probed(vector: Floats) -> list[int]:
    """The cells whose centres are nearest."""
    return [int(i) for i in np.argpartition(-(_centres() @ vector), PROBED)[:PROBED]]


def _distance(words: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """The number of bits in which each row differs."""
    total = np.zeros(words.shape[1], np.uint16)
    for word, bit in zip(words, bits, strict=True):
        total += np.bitwise_count(word ^ bit)
    return total


def _rescored(
    connection: sa.Connection, tenant: int, vector: Floats, numbers: Sequence[int], hidden: bool, enough: int,
    least: float,
) -> tuple[list[Neighbour], int]:  # fmt: skip
    """The nearest ``enough`` claims of items that may be seen, fewer where there are no more among ``numbers``; and how
    many of these are farther than ``least``, whether they may be seen or not."""
    # plain look-ups rather than a join: a planner without statistics would walk all items for it
    rows: list[Sequence[Any]] = []
    for chunk in chunks(numbers):
        among, given = driver.among(connection, "id", chunk)
        query = f"SELECT item, start, stop, vector FROM lz_claims WHERE {among} AND tenant = {driver.mark(connection)}"
        rows += driver.read(connection, query, (*given, tenant))
    if not rows:
        return [], 0
    vectors = np.frombuffer(b"".join(bytes(row[3]) for row in rows), np.int8).reshape(-1, DIMENSION).astype(np.float32)
    norms = np.linalg.norm(vectors, axis=1) * max(float(np.linalg.norm(vector)), 1e-9)
    cosines = vectors @ vector / np.maximum(norms, 1e-9)
    order = np.argsort(-cosines, kind="stable")
    order, farther = order[cosines[order] >= least].tolist(), int((cosines < least).sum())
    found: list[Neighbour] = []
    for chunk in (order[: 4 * enough], order[4 * enough :]):  # of most, nobody asks whether they may be seen
        if not chunk:
            break
        seen = _seen(connection, tenant, dict.fromkeys(str(rows[i][0]) for i in chunk), hidden)
        found += [
            Neighbour(str(rows[i][0]), int(rows[i][1]), int(rows[i][2]), float(cosines[i]))
            for i in chunk
            if rows[i][0] in seen
        ]
        if len(found) >= enough:
            break
    return found[:enough], farther


def _seen(connection: sa.Connection, tenant: int, names: Iterable[str], hidden: bool) -> set[str]:
    """The members of ``names`` that may be seen; with ``hidden`` the held ones too."""
    shown = "erased = 0 AND superseded_by IS NULL" if hidden else visible_sql("lz_items")
    found: set[str] = set()
    for chunk in chunks(names):
        among, given = driver.among(connection, "id", chunk)
        query = f"SELECT id FROM lz_items WHERE tenant = {driver.mark(connection)} AND {among} AND {shown}"
        found.update(row[0] for row in driver.read(connection, query, (tenant, *given)))
    return found
