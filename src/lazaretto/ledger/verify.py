"""Proof that nothing was altered: the chain link by link, and every derived table against a replay of it.

Memory stays bounded however long the chain is: events and edges are streamed side by side, and the expected tables
live in a temporary SQLite file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from lazaretto.errors import InputError, StoreDamaged
from lazaretto.ledger import search
from lazaretto.ledger.chain import GENESIS, Builder, Linker, StoredEvent, event_of, fault_in
from lazaretto.ledger.checkpoints import Checkpoint, PublicKey, SigningKeys, head_statement
from lazaretto.ledger.derived_check import DerivedCheck, ExpectedTables, VerifyFault, bytes_of, stream
from lazaretto.ledger.effects import edges_of
from lazaretto.ledger.migrations import fault_in_schema
from lazaretto.ledger.schema import blob_refs, blobs, events, heads, metadata
from lazaretto.types import Event, EventKind, Head, NeitherTrueNorFalse


@dataclass(frozen=True, slots=True)
class Verification(NeitherTrueNorFalse):
    """The result of a verification."""

    ok: bool
    checked: int
    """How many events were read and found good."""
    first_bad: int | None = None
    """Number of the first event that is not as it was recorded; None when the fault is no event's."""
    reason: str = ""
    table: str = ""
    """The table at fault; two with "and" between them when it is their disagreement that shows it."""
    unproved: tuple[str, ...] = ()
    """Parts that nothing here can prove or disprove, though no fault was found in them."""
    fix: str = ""
    """How to repair the fault, if the chain can: it makes derived tables again. Else empty."""


def stored_events(
    connection: sa.Connection, tenant: int, after: int = 0, limit: int | None = None
) -> Iterator[StoredEvent]:
    """Events as their bytes lie there, in their order."""
    texts = ", ".join(bytes_of(column, connection.dialect.name) for column in ("kind", "subject", "agent"))
    most = "" if limit is None else f" LIMIT {int(limit)}"
    past = f" AND seq > {int(after)}" if after else ""  # a number that is none stands before all others
    for row in stream(
        connection,
        f"SELECT seq, {texts}, time, digest, prev, hash, salt, body FROM lz_events"
        f" WHERE tenant = {{tenant}}{past} ORDER BY seq{most}",
        tenant,
    ):
        yield StoredEvent(*row)


def _stored_edges(connection: sa.Connection, tenant: int) -> Iterator[tuple[Any, ...]]:
    texts = ", ".join(bytes_of(column, connection.dialect.name) for column in ("source", "target", "kind"))
    yield from stream(
        connection,
        f"SELECT seq, place, {texts}, time FROM lz_edges WHERE tenant = {{tenant}} ORDER BY seq, place",
        tenant,
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
    except VerifyFault as fault:
        return Verification(False, verifier.checked, fault.seq, fault.reason, fault.table, fix=_fix(fault.table))
    except (StoreDamaged, sa.exc.DatabaseError, UnicodeDecodeError) as error:
        if isinstance(error, sa.exc.OperationalError) and connection.dialect.name == "postgresql":
            raise
        text = " ".join(str(getattr(error, "orig", error)).split())
        reason = f"{verifier.table}: the store cannot be read here: {text}"
        fix = _fix(verifier.table)
        return Verification(False, verifier.checked, verifier.checked + 1, reason, verifier.table, fix=fix)
    return Verification(True, verifier.checked, unproved=tuple(verifier.unproved))


_DERIVED = ("lz_items", "lz_edges", "lz_search", "lz_known", "lz_refs", "lz_claims", "lz_tree", "lz_steps")


def _fix(table: str) -> str:
    """How to repair a fault in a table."""
    derived = all(name.startswith(_DERIVED) for name in table.split(" and "))
    return "it can be made again from the chain: run 'lazaretto ledger rebuild'" if derived else ""


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
        self.unproved: list[str] = []
        self._last = GENESIS
        self._derived: DerivedCheck | None = None

    @property
    def table(self) -> str:
        """The one that is being read."""
        return "lz_events" if self._derived is None else self._derived.table

    def run(self) -> None:
        fault = fault_in_schema(self._connection)
        if fault:
            raise VerifyFault(None, *fault)
        row = self._connection.execute(
            sa.select(heads.c.tenant, heads.c.seq, heads.c.hash).where(heads.c.namespace == self._namespace)
        ).first()
        if row is None:
            last = self._kept_seq()
            if last > 0:
                raise VerifyFault(1, "lz_heads", f"lz_heads: the chain is gone; the kept head stands at event {last}")
            if self._keys:
                raise VerifyFault(1, "lz_heads", "lz_heads: the chain is gone, and with it its signatures")
            self._check_orphans()
            self._check_file()
            return
        tenant, seq, last = row
        tables = ExpectedTables()
        try:
            self._check_chain(tenant, tables)
            self._check_head(seq, bytes(last))
            kept = self._kept_seq()
            if kept > self.checked:
                cut = f"lz_events: the tail is cut: the kept head stands at event {kept}"
                raise VerifyFault(self.checked + 1, "lz_events", cut)
            hollow = tables.fault_in_tombstones()
            if hollow is not None:
                raise VerifyFault(hollow[0], "lz_events", hollow[1])
            self._derived = DerivedCheck(self._connection, tenant, tables)
            self._derived.run()
            self._say_unproved(tables)
        finally:
            tables.close()
        self._check_orphans()
        self._check_file()

    def _say_unproved(self, tables: ExpectedTables) -> None:
        adopted, (again, seq) = tables.adopted(), tables.read_again()
        if adopted:
            self.unproved.append(
                f"the claims of {adopted:,} items were written before the chain recorded claims: they are as they were"
                " when the store was upgraded, and nothing proves what they were before"
            )
        if again:
            self.unproved.append(
                f"the claims of {again:,} items were recorded a second time, first at event {seq}: rows had been lost,"
                " and what they were is not known"
            )

    def _kept_seq(self) -> int:
        """The least length of the chain, by the kept head and checkpoints."""
        return max([self._wanted.seq if self._wanted else 0, *(checkpoint.seq for checkpoint in self._checkpoints)])

    def _check_orphans(self) -> None:
        """Rows whose head was removed belong to nobody, so an empty namespace may be one that lost its own; and a head
        without events is forged."""
        kept = sa.select(heads.c.tenant)
        for table in metadata.tables.values():
            if "tenant" not in table.columns or table is heads:
                continue
            lost = sa.select(table.c.tenant).where(table.c.tenant.not_in(kept)).limit(1)
            if self._connection.execute(lost).first():
                reason = f"a head was removed, or {table.name} holds rows that belong to no namespace"
                raise VerifyFault(1, f"lz_heads and {table.name}", reason)
        unindexed = search.orphans(self._connection)  # tables in SQLite, rows in PostgreSQL
        if unindexed:
            reason = f"a head was removed, or {unindexed[0]} belongs to no namespace"
            raise VerifyFault(1, f"lz_heads and {unindexed[0]}", reason)
        unshown = sa.select(blobs.c.digest).where(blobs.c.digest.not_in(sa.select(blob_refs.c.digest))).limit(1)
        row = self._connection.execute(unshown).first()
        if row is not None:
            reason = f"the blob {row[0][:12]}... stands in lz_blobs, but no namespace put it there by lz_blob_refs"
            raise VerifyFault(None, "lz_blobs and lz_blob_refs", reason)
        ends = sa.exists().where(events.c.tenant == heads.c.tenant, events.c.seq == heads.c.seq)
        made_up = sa.select(heads.c.namespace).where(
            sa.or_((heads.c.seq != 0) & ~ends, (heads.c.seq == 0) & (heads.c.hash != GENESIS))
        )
        for (namespace,) in self._connection.execute(made_up).all():
            if namespace != self._namespace:
                raise VerifyFault(None, "lz_heads", f"lz_heads: the head of {namespace!r} has no such event")

    def _check_chain(self, tenant: int, tables: ExpectedTables) -> None:
        linker = Linker(self._namespace)
        proofs = _Proofs(self._connection, tenant, self._namespace, self._checkpoints, self._keys)
        stored_edges = _EdgeReader(_stored_edges(self._connection, tenant))
        for stored in stored_events(self._connection, tenant):
            seq = self.checked + 1
            fault = fault_in(stored, seq, self._last, linker)
            if fault:
                raise VerifyFault(seq, "lz_events", f"lz_events: {fault}")
            try:
                event = event_of(self._namespace, stored)
                tables.add_event(event)
                edges = edges_of(event)
            except (ValueError, KeyError, TypeError, sqlite3.Error) as error:
                raise VerifyFault(seq, "lz_events", f"lz_events: the event is invalid: {error}") from error
            if self._wanted is not None and seq == self._wanted.seq and event.hash != self._wanted.hash:
                reason = "lz_events: the chain was rewritten: the kept head has another hash here"
                raise VerifyFault(seq, "lz_events", reason)
            expected = [
                (seq, n, edge.source.encode(), edge.target.encode(), edge.kind.value.encode(), edge.time)
                for n, edge in enumerate(edges)
            ]
            if stored_edges.up_to(seq) != expected:
                raise VerifyFault(seq, "lz_edges", f"lz_edges: the rows of event {seq} are not what it says")
            tables.add_nodes(proofs.follow(event, stored.hash))
            self.checked, self._last = seq, stored.hash
        proofs.finish(self.checked)
        left = stored_edges.next_seq()
        if left is not None:
            reason = f"lz_edges: it holds an edge of event {left}, which is not there"
            raise VerifyFault(self.checked + 1, "lz_edges", reason)

    def _check_head(self, seq: int, last: bytes) -> None:
        both = "lz_events and lz_heads"
        if seq > self.checked:
            raise VerifyFault(self.checked + 1, both, f"{both}: the tail is cut: the head stands at event {seq}")
        if seq < self.checked:
            raise VerifyFault(seq + 1, both, f"{both}: an event stands past the end: the head stands at event {seq}")
        if last != self._last:
            raise VerifyFault(max(seq, 1), "lz_heads", "lz_heads: the head has another hash")

    def _check_file(self) -> None:
        """SQLite's own check: it sees damage to an index or a page that no query above came by."""
        if self._connection.dialect.name != "sqlite":
            return
        answer = self._connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if answer != "ok":
            raise VerifyFault(None, "the file", f"the file is damaged: {answer}")


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
        self._due = sorted(checkpoints, key=lambda checkpoint: -checkpoint.seq)
        self._trust = SigningKeys(keys)
        self._signatures = stream(
            connection,
            "SELECT seq, prev, key, signature FROM lz_signatures WHERE tenant = {tenant} ORDER BY seq",
            tenant,
        )
        self._next = next(self._signatures, None)
        self._signed = 0
        self._tree = Builder()

    def follow(self, event: Event, digest: bytes) -> list[tuple[int, int, bytes]]:
        """The subtrees that the event completes; faults if a kept or signed value differs."""
        nodes = list(self._tree.add(digest))
        while self._due and self._due[-1].seq <= event.seq:
            kept = self._due.pop()
            if kept.seq and (kept.hash != event.hash or kept.root != self._tree.root().hex()):
                reason = "lz_events: the chain was rewritten: a kept checkpoint has another hash here"
                raise VerifyFault(event.seq, "lz_events", reason)
        if event.kind is EventKind.NOTED:
            self._trust.follow(event.subject, event.body)
        if self._next is not None and not isinstance(self._next[0], int):
            raise VerifyFault(event.seq, "lz_signatures", "lz_signatures: a row belongs to no event")
        if self._next is not None and self._next[0] <= event.seq:
            self._check_signature(event, digest, *self._next)
        return nodes

    def _check_signature(self, event: Event, digest: bytes, seq: Any, prev: Any, key: Any, signature: Any) -> None:
        if seq != event.seq or prev != self._signed:
            reason = f"lz_signatures: a row is missing: the one before event {seq} stood at event {prev}"
            raise VerifyFault(event.seq, "lz_signatures", reason)
        self._next, self._signed = next(self._signatures, None), event.seq
        if self._keys:
            statement = head_statement(self._namespace, event.seq, prev, digest)
            fault = self._trust.fault_in(key, statement, signature)
            if fault:
                raise VerifyFault(event.seq, "lz_events and lz_signatures", f"lz_signatures, event {seq}: {fault}")

    def finish(self, last: int) -> None:
        if self._next is not None:
            reason = f"lz_signatures: a row stands at event {self._next[0]}, which is not there"
            raise VerifyFault(last + 1, "lz_events and lz_signatures", reason)
        if self._keys and self._signed != last:
            reason = "lz_signatures: nothing is signed from here on: it was written without the key"
            raise VerifyFault(self._signed + 1, "lz_events and lz_signatures", reason)
        for kept in self._checkpoints if self._keys else ():
            if not kept.signed_by(self._trust.ever):
                reason = "a kept checkpoint is not signed by a key that is trusted here"
                raise VerifyFault(kept.seq, "the checkpoint", reason)


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
