"""One tenant's ledger: append-only, hash-chained, and blind to every other tenant."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from lazaretto.errors import InputError, StaleState, UnknownItem
from lazaretto.kept_texts import forget
from lazaretto.ledger import chain, contents, erasure, queries, rebuild, refs, transfer, vectors, verify
from lazaretto.ledger.appending import append_batch, lock_head
from lazaretto.ledger.chain import GENESIS, Linker, check_time
from lazaretto.ledger.checkpoints import (
    WITNESSED,
    Checkpoint,
    ConsistencyProof,
    PublicKey,
    SigningKey,
    Witness,
    checkpoint_from,
    handover,
    head_statement,
    witness_at,
)
from lazaretto.ledger.drafts import check_drafts, seen_draft
from lazaretto.ledger.driver import gc_paused, translate
from lazaretto.ledger.effects import ItemState
from lazaretto.ledger.lease import Lease
from lazaretto.ledger.reader import LedgerReader
from lazaretto.ledger.rebuild import Rebuilt
from lazaretto.ledger.schema import events, signatures
from lazaretto.ledger.store import CommitUnsure, Store
from lazaretto.ledger.vectors import ClaimRow, KeptClaims, VectorIndex
from lazaretto.ledger.verify import Verification
from lazaretto.names import check_name, warn_old_name
from lazaretto.policy import LedgerProofPolicy
from lazaretto.types import Draft, Event, EventKind, Head, Observation, Ref

log = logging.getLogger("lazaretto")
T = TypeVar("T")
PARTS = ("cases", "admission", "console")
"""Namespaces beside a tenant's own that belong to its record, by what follows its name: the case library, the
memory gate's rulings on its cases, and the console's sessions."""
_UNSURE_KEPT = 64
_REPAIRS = (EventKind.REPAIRED.value, EventKind.UNDONE.value)


OLD_NAMES = {
    "prove_as": "configure_signing",
    "observe": "append_item",
    "retain": "erase_older_than",
    "mark_known": "add_fingerprints",
    "find_known": "find_fingerprints",
    "forget_known": "drop_fingerprints",
}
"""Names of a ledger's calls that go in 0.3, each with the one it has now."""


@contextmanager
def _forgetting() -> Iterator[None]:
    """Around an erasure: caches forget even if it fails, for the content may be gone already."""
    try:
        yield
    finally:
        forget()


class Ledger(LedgerReader):
    """The record of one namespace, and the only way to write to it. ``LedgerReader`` has the queries."""

    def __init__(self, store: Store, namespace: str = "default", key: SigningKey | None = None) -> None:
        super().__init__(store, namespace)
        self._key = key
        self._witness: tuple[Witness, int] | None = None
        self._witnessed = 0
        self._linker = Linker(namespace)
        self._unsure: list[tuple[tuple[object, ...], Sequence[Event]]] = []
        self._lent: dict[str, tuple[bytes, int]] = {}
        self._lending = threading.Lock()
        self.imported: transfer.Proof | None = None
        """How far the imported file was proved; None if the ledger was not imported."""

    @classmethod
    def open(
        cls,
        url: str | None = None,
        namespace: str = "default",
        *,
        create: bool = True,
        read_only: bool = False,
        key: SigningKey | None = None,
    ) -> Ledger:
        """Open a ledger; without ``url`` the one ``LAZARETTO_STORE`` names, or a file in the user's data folder.

        With ``key`` everything that is appended is signed.
        """
        check_name(namespace, "namespace")
        return cls(Store.open(url, create=create, read_only=read_only), namespace, key)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in OLD_NAMES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warn_old_name(f"ledger.{name}", f"ledger.{OLD_NAMES[name]}")
            return getattr(self, OLD_NAMES[name])

    def within(self, namespace: str) -> Ledger:
        """The ledger of another tenant of the same store."""
        return Ledger(self._store, namespace, self._key)

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading alone: everything that writes is refused."""
        return self._store.read_only

    def lease(self, name: str) -> Lease:
        """A right that one process of this namespace holds at a time."""
        return Lease(self._store, f"{self.namespace}:{name}")

    def close(self) -> None:
        """Give the connections back."""
        self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # writing

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        states: Mapping[str, ItemState] | None = None,
        no_repair_after: int | None = None,
        no_label_after: int | None = None,
        first: str | None = None,
    ) -> Sequence[Event]:
        """Append ``drafts`` together or not at all; when this returns, they are on disk.

        Refused (``StaleState``) unless the items of ``states`` still stand as the caller saw them, when anything was
        repaired or undone after the event ``no_repair_after``, and when a person labelled one of those items after the
        event ``no_label_after``. Refused as well when anything was ever recorded about the subject ``first``: an action
        that may happen once is noted under a name of its own.
        """
        return self._append_if(
            drafts, states, no_repair_after=no_repair_after, no_label_after=no_label_after, first=first
        )

    def _append_if(
        self,
        drafts: Sequence[Draft],
        states: Mapping[str, ItemState] | None,
        *,
        no_repair_after: int | None = None,
        no_label_after: int | None = None,
        first: str | None = None,
        claims: Mapping[str, KeptClaims] | None = None,
        record: tuple[Ref, refs.SeenRecord] | None = None,
    ) -> Sequence[Event]:
        """Append ``drafts`` if everything still is as the caller saw it; ``StaleState`` if not."""
        wanted = tuple(drafts)
        if not wanted:
            return []
        with gc_paused(len(wanted)):
            batch = check_drafts(wanted, self.namespace)

        def work(connection: sa.Connection) -> Sequence[Event]:
            if states or no_repair_after is not None:
                self._require_unchanged(connection, states or {}, no_repair_after)
            if states and no_label_after is not None:
                self._require_no_label(connection, states, no_label_after)
            if first is not None:
                self._require_first(connection, first)
            if record is not None:
                self._require_record(connection, *record)
            return append_batch(connection, self._linker, self.namespace, batch, claims or {})

        return self._write_once(wanted, work)

    def _require_unchanged(
        self, connection: sa.Connection, states: Mapping[str, ItemState], no_repair_after: int | None
    ) -> None:
        head = lock_head(connection, self.namespace)  # every change of an item holds this lock
        assert head is not None
        if no_repair_after is not None:
            later = sa.select(events.c.subject).where(
                events.c.tenant == head[0], events.c.seq > no_repair_after, events.c.kind.in_(_REPAIRS)
            )
            for (receipt,) in connection.execute(later.limit(1)):
                raise StaleState(receipt)
        found = queries.read_states(connection, self.namespace, states)
        for item, state in states.items():
            if found.get(item) != state:
                raise StaleState(item)

    def _require_no_label(self, connection: sa.Connection, items: Container[str], after: int) -> None:
        labelled = sa.select(events.c.subject).where(
            events.c.tenant == self._tenant(connection),
            events.c.seq > after,
            events.c.kind.in_((EventKind.LABELLED.value, EventKind.WITHDRAWN.value)),
        )
        for (item,) in connection.execute(labelled):
            if item in items:
                raise StaleState(item)

    def _require_first(self, connection: sa.Connection, subject: str) -> None:
        head = lock_head(connection, self.namespace)  # no other process appends until this is done
        assert head is not None
        known = sa.select(events.c.seq).where(events.c.tenant == head[0], events.c.subject == subject).limit(1)
        if connection.execute(known).first() is not None:
            raise StaleState(subject)

    def _require_record(self, connection: sa.Connection, ref: Ref, seen: refs.SeenRecord) -> None:
        head = lock_head(connection, self.namespace)  # it gets no other owner until this is done
        assert head is not None
        if refs.seen_record(refs.states(connection, head[0], [ref]).get(ref)) != seen:
            raise StaleState(ref.key)

    def _write_once(self, key: tuple[object, ...], work: Callable[[sa.Connection], Sequence[Event]]) -> Sequence[Event]:
        """Run ``work`` so that its events are recorded exactly once, even when the store dies while it commits."""
        tried = next((events for tried_key, events in self._unsure if tried_key == key), None)
        for _ in range(2):
            try:
                recorded = self._store.transact(partial(self._unless_recorded, work=work, tried=tried))
            except CommitUnsure as unsure:
                tried, cause = unsure.result, unsure.cause
                continue
            self._unsure = [entry for entry in self._unsure if entry[0] != key]
            if not self._store.scrubbed:
                self._store.scrub()
            if recorded and self._witness is not None:
                self._tell_witness(recorded[-1].seq)
            return recorded
        # a second try with the same key is recorded once, whether the first was written or not
        self._unsure = [*self._unsure[-_UNSURE_KEPT:], (key, tried or [])]
        raise translate(cause, self.url) from cause

    def _unless_recorded(
        self, connection: sa.Connection, work: Callable[[sa.Connection], Sequence[Event]], tried: Sequence[Event] | None
    ) -> Sequence[Event]:
        """Run ``work``, unless an earlier try whose end nobody saw turns out to have succeeded."""
        head = lock_head(connection, self.namespace) if tried else None
        if tried and head is not None:
            last = tried[-1]
            query = sa.select(events.c.hash).where(events.c.tenant == head[0], events.c.seq == last.seq)
            found = connection.execute(query).scalar()
            if found is not None and bytes(found).hex() == last.hash:
                return tried
        recorded = work(connection)
        if recorded:
            last = recorded[-1]  # each is made from its row when it is asked for
            before = last.seq - len(recorded)
            if chain.kept_of(before) != chain.kept_of(last.seq):
                chain.extend(connection, self._sure_tenant(connection), before, last.seq)
            if self._key is not None:
                self._sign(connection, self._key, last)
        return recorded

    def _sign(self, connection: sa.Connection, key: SigningKey, last: Event) -> None:
        """Sign the end of the events just appended, in the same transaction."""
        tenant = self._tenant(connection)
        newest = sa.select(sa.func.max(signatures.c.seq)).where(signatures.c.tenant == tenant)
        prev = int(connection.execute(newest).scalar() or 0)
        signature = key.sign(head_statement(self.namespace, last.seq, prev, bytes.fromhex(last.hash)))
        row = {"tenant": tenant, "seq": last.seq, "prev": prev, "key": key.public.id, "signature": signature}
        connection.execute(signatures.insert().values(**row))

    def append_item(
        self,
        observation: Observation,
        extra: Sequence[Draft] = (),
        *,
        states: Mapping[str, ItemState] | None = None,
        claims: Sequence[ClaimRow] = (),
        record: refs.SeenRecord | None = None,
    ) -> Sequence[Event]:
        """Append an item and the events that belong to it, in one transaction.

        On the way down: ``_append_if`` compares the states that the caller saw, ``_write_once`` commits exactly once
        even if the end of the commit is unseen, ``appending.append_batch`` links and writes the rows.

        ``claims``: the claims of its text, kept as by ``keep_claims``. ``record``: the state of its ref when the
        observation was ruled on; ``StaleState`` if the ref has a new owner or holds another item since then.
        """
        if observation.namespace != self.namespace:
            raise InputError("namespace", f"{observation.namespace!r} is not this ledger's {self.namespace!r}")
        seen = seen_draft(observation)
        ref = None if observation.ref is None or record is None else (observation.ref, record)
        if not claims:
            return self._append_if([seen, *extra], states, record=ref)
        kept = KeptClaims.of(claims)
        seen = replace(seen, body={**seen.body, vectors.RECORD: kept.record()})
        return self._append_if([seen, *extra], states, claims={observation.id: kept}, record=ref)

    # proving

    def checkpoint(self) -> Checkpoint:
        """The state of the chain for others to keep; signed where the ledger has a key."""

        with self._store.reading(snapshot=True) as connection:
            tenant = self._tenant(connection)
            seq, last = queries.last_event(connection, self.namespace) or (0, GENESIS)
            root = chain.root(chain.stored_node(connection, tenant or 0), 0, seq)
        made = Checkpoint(self.namespace, seq, last.hex(), root.hex(), time.time())
        if self._key is None:
            return made
        signature = self._key.sign(made.statement()).hex()
        return replace(made, key=self._key.public.id, signature=signature)

    def prove(self, old: Checkpoint, new: Checkpoint) -> ConsistencyProof:
        """A proof, a few dozen hashes long, that the later chain only added to the earlier one."""
        with self._store.reading(snapshot=True) as connection:
            tenant = self._tenant(connection) or 0
            if not 0 <= old.seq <= new.seq <= self.head().seq:
                raise InputError(
                    "checkpoint", f"{old.seq} to {new.seq} is no stretch of this chain", "Give older, newer"
                )
            path = chain.prove(chain.stored_node(connection, tenant), old.seq, new.seq)
        return ConsistencyProof(old.seq, new.seq, tuple(node.hex() for node in path))

    def configure_signing(self, rules: LedgerProofPolicy) -> Ledger:
        """Sign and send checkpoints as the policy says; returns the ledger itself."""
        if rules.key and not self._store.read_only:
            self._key = SigningKey.load(Path(rules.key))
        if rules.witness and not self._store.read_only:
            self.send_checkpoints(witness_at(rules.witness, keep_in), rules.witness_every)
        return self

    def witnessed(self, namespace: str) -> list[Checkpoint]:
        """The checkpoints of another chain that this one keeps as its witness."""
        notes = self.events(subject=WITNESSED + namespace, kinds=(EventKind.NOTED,))
        return [checkpoint_from(event.body or {}, f"event {event.seq} of {self.url}") for event in notes]

    def send_checkpoints(self, witness: Witness, every: int) -> None:
        """Let a witness have a checkpoint whenever so many events were added."""
        self._witness, self._witnessed = (witness, every), self.head().seq

    def hand_over(self, new: SigningKey) -> None:
        """Sign with another key from now on; the old one vouches for it with its last signature."""
        if self._key is None:
            raise InputError("key", "this ledger is not signed", "Open it with the key that is to be replaced")
        self.append([handover(self._key.public, new.public)])
        self._key = new

    def _tell_witness(self, seq: int) -> None:
        if self._witness is None or seq - self._witnessed < self._witness[1]:
            return
        self._witnessed = seq  # one that is away is tried again after as many events, and never stops a write
        try:
            self._witness[0](self.checkpoint())
        except Exception:
            log.exception("the checkpoint could not be sent to the witness of namespace %r", self.namespace)

    def verify(
        self, head: Head | None = None, *, checkpoints: Sequence[Checkpoint] = (), keys: Sequence[PublicKey] = ()
    ) -> Verification:
        """Check the whole chain and all derived tables, and that it still contains the kept head and checkpoints.

        With ``keys`` every part of it, and its end, must be signed by one of them or by a key they handed over to, and
        so must the checkpoints. The namespaces that belong to this one (``PARTS``) are checked with it; a fault in one
        is named with it, and ``checked`` counts the events of this one.
        """
        with self._store.reading(snapshot=True) as connection:
            found = verify.verify(connection, self.namespace, head, tuple(checkpoints), tuple(keys))
            for part in (f"{self.namespace}.{name}" for name in PARTS):
                if found.ok and queries.tenant_of(connection, part) is not None:
                    other = verify.verify(connection, part, None, (), tuple(keys))
                    if not other.ok:
                        fix = f"{other.fix} --namespace {part}" if other.fix else ""
                        return replace(other, checked=found.checked, reason=f"in {part}: {other.reason}", fix=fix)
            return found

    def rebuild(self, *, keys: Sequence[PublicKey] = ()) -> Rebuilt:
        """Make every derived table again from the chain, all or nothing; ``ChainBroken`` where the chain does not hold.

        With ``keys`` the chain must be signed, as for ``verify``. Where ``claims_lost`` names items, their claims have
        to be read again: ``restore_claims``.
        """
        made = self._repeatable(lambda c: rebuild.rebuild(c, self.namespace, tuple(keys)))
        self._vectors = VectorIndex()
        return made

    def restore_claims(self, item: str, rows: Sequence[ClaimRow]) -> bool:
        """Put the claims of an item back after ``rebuild``; False where these are not those that the chain recorded,
        so that ``keep_claims`` has to record them again."""
        check_name(item, "item")
        kept = KeptClaims.of(rows)
        return self._repeatable(lambda c: rebuild.restore_claims(c, self._sure_tenant(c), item, kept))

    # privacy and transport

    @property
    def scrubbed(self) -> bool:
        """False while SQLite's log may still have erased bytes, because a reader has the old state open."""
        return self._store.scrubbed

    def erase(self, item: str, reason: str, *, by: str = "") -> Event:
        """Remove the content of an item or a decision for good; its tombstone keeps the chain whole, and says why and
        ``by`` whom."""
        check_name(item, "item")
        check_name(reason, "reason")
        check_name(by, "by", empty=True, printable=True)
        with _forgetting():
            recorded = self._write_once(
                ("erase", item, reason, by),
                lambda c: erasure.erase_subjects(c, self._linker, self.namespace, [item], reason, by=by),
            )
            self._store.scrub()
        return recorded[0]

    def erase_older_than(self, before: float, *, by: str = "") -> int:
        """Erase the content of every item and decision from before a moment; how many. ``by`` is recorded."""
        moment, count = check_time(before, "before"), 0
        with _forgetting():
            while recorded := self._write_once(
                ("retain", moment, count),
                lambda c: erasure.erase_before(c, self._linker, self.namespace, moment, by),
            ):
                count += len(recorded)
            self._store.scrub()
        return count

    def export(self, path: str | Path) -> int:
        """Write this namespace to a file that ``import_`` reads; how many events."""
        with self._store.reading(snapshot=True) as connection:
            return transfer.export_to(connection, self.namespace, Path(path))

    @classmethod
    def import_(
        cls,
        path: str | Path,
        url: str | None = None,
        *,
        keys: Sequence[PublicKey] = (),
        head: Head | None = None,
        checkpoints: Sequence[Checkpoint] = (),
        unsigned: bool = False,
    ) -> Ledger:
        """Read an exported namespace into the store at ``url``, verifying every link: all of it or nothing.

        With ``keys`` all of it must be signed, as for ``verify``; a file without signatures is then refused, unless
        ``unsigned``. ``imported`` of the ledger has the result. A namespace that belongs to another's record
        (``PARTS``) has to be proved by one of ``keys``, ``head`` and ``checkpoints``: the file alone names its owner.
        """
        importer = transfer.Importer(Path(path), keys, head, checkpoints, unsigned=unsigned)
        owner, _, part = importer.head.namespace.rpartition(".")
        if owner and part in PARTS and not (head or checkpoints) and (unsigned or not keys):
            words = f"{path} says it is the {part} namespace of {owner!r}, and nothing proves it"
            raise InputError(
                "path", words, "Give a head of it that was kept, its checkpoints, or the key that signed it"
            )
        ledger = cls.open(url, importer.head.namespace)
        try:
            ledger._store.transact(importer.run)
        except CommitUnsure as unsure:
            ledger.close()
            raise translate(unsure.cause, ledger.url) from unsure
        except BaseException:
            ledger._store.discard()
            raise
        ledger.imported = importer.proof
        if importer.proof != "proved":
            log.warning("%s: imported, but who wrote it was not proved (%s)", path, importer.proof)
        return ledger

    # blobs and fingerprints

    def put_blob(self, data: bytes) -> str:
        """Store bytes once, also when other items have them; returns their content address (sha256 in hex)."""
        checked = contents.check_blob(data)
        return self._repeatable(lambda c: contents.put(c, self._sure_tenant(c), checked))

    @contextmanager
    def lent_blob(self, data: bytes) -> Iterator[str]:
        """The content address of bytes that ``blob`` gives while the block runs, and that are never stored."""
        checked = contents.check_blob(data)
        digest = hashlib.sha256(checked).hexdigest()
        with self._lending:
            self._lent[digest] = (checked, self._lent.get(digest, (checked, 0))[1] + 1)
        try:
            yield digest
        finally:
            with self._lending:
                users = self._lent.pop(digest)[1] - 1
                if users:
                    self._lent[digest] = (checked, users)

    def blob(self, digest: str) -> bytes:
        """The bytes at a content address, if this tenant put them."""
        lent = self._lent.get(digest)
        if lent is not None:
            return lent[0]
        with self._store.reading() as connection:
            data = contents.get(connection, self._tenant(connection), digest)
        if data is None:
            raise UnknownItem(digest, self.namespace, "blob")
        return data

    def add_fingerprints(self, keys: Sequence[tuple[str, str]], item: str, verdict_label: str) -> None:
        """Keep (kind, key) fingerprints of an item with its ruling; recorded as an event."""
        check_name(item, "item")
        check_name(verdict_label, "verdict_label")
        if keys:
            self.append([refs.marked(keys, item, verdict_label)])

    def drop_fingerprints(self, item: str) -> int:
        """Drop the fingerprints of an item; how many there were."""
        with self._store.reading() as connection:
            count = refs.count(connection, self._tenant(connection), item)
        if count:
            self.append([refs.forgotten(item)])
        return count

    # claims

    def keep_claims(self, item: str, rows: Sequence[ClaimRow]) -> None:
        """Keep the places and vectors of an item's claims, so that ``nearest_claims`` finds them."""
        check_name(item, "item")
        kept = KeptClaims.of(rows)
        draft = Draft(EventKind.NOTED, vectors.ABOUT + item, body={vectors.RECORD: kept.record()})
        batch = check_drafts((draft,), self.namespace)

        def work(connection: sa.Connection) -> Sequence[Event]:
            tenant = self._sure_tenant(connection)
            state = queries.read_states(connection, self.namespace, [item]).get(item)
            if state is None:
                raise UnknownItem(item, self.namespace)
            if not rows or state.erased or vectors.has(connection, tenant, item):
                return []
            return append_batch(connection, self._linker, self.namespace, batch, {item: kept})

        self._write_once(("claims", item, kept), work)

    def _sure_tenant(self, connection: sa.Connection) -> int:
        head = lock_head(connection, self.namespace)
        assert head is not None
        return head[0]

    def _repeatable(self, work: Callable[[sa.Connection], T]) -> T:
        """A write that does no harm when it is done twice: after an unsure commit it is simply done again."""
        try:
            return self._store.transact(work)
        except CommitUnsure:
            pass
        try:
            return self._store.transact(work)
        except CommitUnsure as unsure:
            raise translate(unsure.cause, self.url) from unsure


def keep_in(url: str, draft: Draft) -> None:
    """Append an event to the witness's namespace of the store at a URL."""
    with Ledger.open(url, "witness") as ledger:
        ledger.append([draft])
