"""Makes the derived tables again from the chain, which must verify first.

Claims are the exception: a model made their vectors, and the chain has only digests. Rows that fit their digest stay;
the items of the others are read again by a process that has the model (``Ledger.restore_claims``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from lazaretto.errors import ChainBroken, StoreDamaged
from lazaretto.ledger import chain, migrations, search, vectors
from lazaretto.ledger.appending import DerivedTables, insert_sql, lock_head
from lazaretto.ledger.chain import GENESIS, Linker, event_of, fault_in
from lazaretto.ledger.checkpoints import PublicKey
from lazaretto.ledger.derived_check import ClaimsOfItem, ExpectedTables, stored_claims
from lazaretto.ledger.migrations import fault_in_schema
from lazaretto.ledger.schema import blob_refs, blobs, claims, edges, items, known, migrations_table, refs, tree
from lazaretto.ledger.verify import Verification, stored_events, verify
from lazaretto.types import Event

_CHUNK = 1_000
FROM_CHAIN = (items, edges, known, refs, tree)
"""Tables that the chain makes again row by row; the search index and the steps beside them."""
COMMAND = "lazaretto ledger rebuild"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild."""

    events: int
    """Number of events in the chain that it was made from."""
    fault: str
    """The fault before the rebuild; empty if there was none."""
    claims_lost: tuple[str, ...] = ()
    """Items whose claims have to be read again: their rows were missing or altered."""


def rebuild(connection: sa.Connection, namespace: str, keys: tuple[PublicKey, ...] = ()) -> Rebuilt:
    """Make all derived tables of a namespace again, inside the caller's transaction; ``ChainBroken`` where the chain
    itself is not as it was recorded."""
    _steps(connection)
    fault = fault_in_schema(connection)
    if fault is not None:
        raise StoreDamaged(f"{fault[1]}: a rebuild makes rows again, not the schema. Undo that change first")
    before = verify(connection, namespace, None, (), keys)
    head = lock_head(connection, namespace, create=False)
    if head is None:
        return Rebuilt(0, before.reason)
    tenant, seq, last = head
    expected = ExpectedTables()
    try:
        _remove(connection, tenant)
        _replay(connection, namespace, tenant, expected, (seq, last))
        lost = _sift_claims(connection, tenant, expected)
        _lend_blobs(connection, tenant, expected)
    finally:
        expected.close()
    after = verify(connection, namespace, None, (), keys)
    _require_good(namespace, after, lost)
    return Rebuilt(seq, before.reason, lost)


def _require_good(namespace: str, after: Verification, lost: tuple[str, ...]) -> None:
    if after.ok or (lost and after.table == claims.name):
        return
    raise ChainBroken(namespace, after.first_bad or 0, f"{after.reason}. It cannot be rebuilt: restore a backup")


def _steps(connection: sa.Connection) -> None:
    """The names of the migrations that this store has had; which it has had was asked when it was opened."""
    found = connection.execute(sa.select(migrations_table).order_by(migrations_table.c.step)).all()
    wanted = [(step.number, step.name) for step in migrations.MIGRATIONS]
    if [tuple(row) for row in found] != wanted and [row[0] for row in found] == [number for number, _ in wanted]:
        connection.execute(migrations_table.delete())
        connection.execute(migrations_table.insert(), [{"step": number, "name": name} for number, name in wanted])


def _remove(connection: sa.Connection, tenant: int) -> None:
    for table in FROM_CHAIN:
        connection.execute(table.delete().where(table.c.tenant == tenant))
    search.remove(connection, tenant)


def _replay(
    connection: sa.Connection, namespace: str, tenant: int, expected: ExpectedTables, head: tuple[int, bytes]
) -> None:
    prev, derived, waiting, seq = GENESIS, DerivedTables(tenant), 0, 0
    for event, link in _checked_events(connection, namespace, tenant):
        seq, prev = event.seq, link
        try:
            derived.add_event(seq, event.kind, event.subject, event.agent, event.time, event.body)
            expected.add_event(event)
        except (ValueError, KeyError, TypeError) as error:
            raise ChainBroken(namespace, seq, f"the event is invalid: {error}") from error
        waiting += 1
        if waiting == _CHUNK:
            derived.write(connection)
            derived, waiting = DerivedTables(tenant), 0
    derived.write(connection)
    if (seq, prev) != head:
        raise ChainBroken(namespace, seq, "the head in lz_heads is not that of the last event: restore a backup")
    chain.extend(connection, tenant, 0, seq)
    if connection.dialect.name == "sqlite":  # has FTS5 write what it still holds in memory
        connection.exec_driver_sql("SAVEPOINT lz_written")
        connection.exec_driver_sql("RELEASE lz_written")


def _checked_events(connection: sa.Connection, namespace: str, tenant: int) -> Iterator[tuple[Event, bytes]]:
    """Events page by page, so that rows can be written in between; each is held to the one before it."""
    linker, prev, after = Linker(namespace), GENESIS, 0
    while page := list(stored_events(connection, tenant, after=after, limit=_CHUNK)):
        for stored in page:
            fault = fault_in(stored, after + 1, prev, linker)
            if fault:
                raise ChainBroken(namespace, after + 1, f"lz_events: {fault}. Nothing is rebuilt: restore a backup")
            try:
                event = event_of(namespace, stored)
            except ValueError as error:
                raise ChainBroken(namespace, after + 1, f"lz_events: the event is invalid: {error}") from error
            yield event, stored.hash
            prev, after = stored.hash, after + 1


def _sift_claims(connection: sa.Connection, tenant: int, expected: ExpectedTables) -> tuple[str, ...]:
    """Rows that are not as the chain recorded them go; the items that lost theirs."""
    sqlite = connection.dialect.name == "sqlite"
    odd, lost = list[bytes](), list[str]()
    for wanted, found in _side_by_side(expected.claims(), stored_claims(connection, tenant)):
        if found is not None and found != wanted:
            odd.append(found[0])
        if wanted is not None and found != wanted:
            lost.append(wanted[0].decode())
    statement = "tenant = ? AND CAST(item AS BLOB) = ?" if sqlite else "tenant = %s AND item = %s"
    for item in odd:
        named = item if sqlite else item.decode()
        connection.exec_driver_sql(f"DELETE FROM lz_claims WHERE {statement}", (tenant, named))
    return tuple(lost)


def _side_by_side(
    expected: Iterator[ClaimsOfItem], found: Iterator[ClaimsOfItem]
) -> Iterator[tuple[ClaimsOfItem | None, ClaimsOfItem | None]]:
    """Both in the order of their items; None where a side has none."""
    wanted, stands = next(expected, None), next(found, None)
    while wanted is not None or stands is not None:
        if stands is None or (wanted is not None and wanted[0] < stands[0]):
            yield wanted, None
            wanted = next(expected, None)
        elif wanted is None or stands[0] < wanted[0]:
            yield None, stands
            stands = next(found, None)
        else:
            yield wanted, stands
            wanted, stands = next(expected, None), next(found, None)


def _lend_blobs(connection: sa.Connection, tenant: int, expected: ExpectedTables) -> None:
    """Put back missing rows that say which item uses which picture, if the picture is there and whole."""
    for digest, _ in expected.images():
        mine = sa.select(blob_refs.c.digest).where(blob_refs.c.tenant == tenant, blob_refs.c.digest == digest)
        if connection.execute(mine).first() is not None:
            continue
        data = connection.execute(sa.select(blobs.c.data).where(blobs.c.digest == digest)).scalar()
        if isinstance(data, (bytes, memoryview)) and hashlib.sha256(data).hexdigest() == digest:
            connection.exec_driver_sql(insert_sql(blob_refs, connection.dialect.name), [(tenant, digest)])


def restore_claims(connection: sa.Connection, tenant: int, item: str, kept: vectors.KeptClaims) -> bool:
    """Put rows back that were read again; False unless they are the very ones that the chain recorded last."""
    query = sa.select(claims.c.id).where(claims.c.tenant == tenant, claims.c.item == item).limit(1)
    if connection.execute(query).first() is not None:
        return True
    record = vectors.last_record(connection, tenant, item)
    if record is None or kept.record() != {"count": record[1].count, "digest": record[1].digest}:
        return False
    vectors.add(connection, tenant, item, record[0], kept)
    return True
