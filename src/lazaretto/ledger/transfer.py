"""Carrying one tenant's ledger to another store: one JSON document per line, checked link by link on arrival.

A forged file can have every link sound. So signatures travel too; an importer with the key, a head or a checkpoint
checks them on arrival. ``Importer.proof`` has the result.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
import sqlalchemy as sa

from lazaretto.errors import ChainBroken, InputError, StoreUnavailable
from lazaretto.files import replacing
from lazaretto.ledger import chain, contents, vectors
from lazaretto.ledger.appending import DerivedTables, insert_sql, lock_head, write_events
from lazaretto.ledger.chain import GENESIS, Linker, StoredEvent, event_of, fault_in
from lazaretto.ledger.checkpoints import Checkpoint, PublicKey
from lazaretto.ledger.schema import blob_refs, claims, events, heads, signatures
from lazaretto.ledger.verify import verify
from lazaretto.names import check_name
from lazaretto.types import Head, plain

FORMAT = 3
"""In format 1 the fingerprints of known items stood beside the chain, where nothing vouched for them; format 2 carried
neither signatures nor claims."""
_READ = (2, FORMAT)
Proof = Literal["proved", "unchecked", "unsigned"]
"""The result of an import: all of it is signed by a trusted key; it is signed, but no key was given to check it
with; nothing is signed, so the links hold but nobody vouches for the content."""
_CHUNK = 1000


def export_to(connection: sa.Connection, namespace: str, path: Path) -> int:
    """Write a tenant's blobs and events to ``path``; how many events. Never leaves half a file."""
    count = 0
    try:
        with replacing(path, durable=True, mode=0o600) as file:  # it holds all that the tenant's agents wrote
            for line in _lines(connection, namespace):
                file.write(orjson.dumps(line) + b"\n")
                count += "seq" in line
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot be written: {error.strerror}") from error
    return count


def _lines(connection: sa.Connection, namespace: str) -> Iterator[dict[str, Any]]:
    row = connection.execute(sa.select(heads).where(heads.c.namespace == namespace)).first()
    tenant, seq, last = (None, 0, GENESIS) if row is None else (row.tenant, row.seq, bytes(row.hash))
    yield {"lazaretto": "ledger", "format": FORMAT, "head": plain(Head(namespace, seq, last.hex()))}
    for (digest,) in connection.execute(sa.select(blob_refs.c.digest).where(blob_refs.c.tenant == tenant)).all():
        data = contents.get(connection, tenant, digest) or b""
        yield {"blob": digest, "data": base64.b64encode(data).decode()}
    query = sa.select(events).where(events.c.tenant == tenant).order_by(events.c.seq)
    for event in connection.execution_options(yield_per=500).execute(query):
        yield {
            "seq": event.seq,
            "kind": event.kind,
            "subject": event.subject,
            "agent": event.agent,
            "time": event.time,
            "digest": event.digest.hex(),
            "prev": event.prev.hex(),
            "hash": event.hash.hex(),
            "salt": None if event.salt is None else event.salt.hex(),
            "body": None if event.body is None else event.body.decode(),  # the very bytes that were hashed, as text
        }
    signed = sa.select(signatures).where(signatures.c.tenant == tenant).order_by(signatures.c.seq)
    for row in connection.execution_options(yield_per=500).execute(signed):
        yield {"signature": row.seq, "prev": row.prev, "key": row.key, "value": row.signature.hex()}
    kept = sa.select(claims).where(claims.c.tenant == tenant).order_by(claims.c.id)
    for row in connection.execution_options(yield_per=500).execute(kept):
        vector = base64.b64encode(row.vector).decode()
        yield {"claim": row.id, "item": row.item, "place": row.place, "start": row.start, "stop": row.stop,
               "cell": row.cell, "vector": vector}  # fmt: skip
    yield {"end": seq}


def read_head(path: Path) -> Head:
    """The head that an exported file claims to carry."""
    for line in _documents(path):
        head = line.get("head")
        if line.get("lazaretto") != "ledger" or not isinstance(head, dict):
            break
        if line.get("format") not in _READ:
            raise InputError("path", f"{path} has format {line.get('format')!r}", "This version reads 2 and 3")
        try:
            return Head(check_name(head["namespace"], "head.namespace"), int(head["seq"]), str(head["hash"]))
        except (KeyError, TypeError, ValueError):
            break
    raise InputError("path", f"{path} is not an exported ledger", "Use a file that 'lazaretto ledger export' wrote")


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    document = orjson.loads(line)
                except orjson.JSONDecodeError:
                    raise InputError("path", f"{path}, line {number} is not JSON") from None
                if not isinstance(document, dict):
                    raise InputError("path", f"{path}, line {number} is not a JSON object")
                yield document
    except OSError as error:
        raise InputError("path", f"{path} cannot be read: {error.strerror}") from error


class Importer:
    """Takes an exported ledger in, in one transaction: all of it, verified, or nothing."""

    def __init__(
        self,
        path: Path,
        keys: Sequence[PublicKey] = (),
        kept: Head | None = None,
        checkpoints: Sequence[Checkpoint] = (),
        *,
        unsigned: bool = False,
    ) -> None:
        """``unsigned``: a file without signatures is taken in although ``keys`` are given."""
        self._path = path
        self._keys, self._kept, self._checkpoints, self._unsigned = tuple(keys), kept, tuple(checkpoints), unsigned
        self._signatures = 0
        self.proof: Proof = "unsigned"
        self.head = read_head(path)
        self._namespace = self.head.namespace
        self._linker = Linker(self._namespace)

    def run(self, connection: sa.Connection) -> Head:
        """Import into a namespace that is still empty."""
        head = lock_head(connection, self._namespace)
        assert head is not None
        if head[1]:
            raise InputError(
                "namespace", f"{self._namespace!r} already has {head[1]} events", "Import into a new store"
            )
        self._signatures = 0
        self._import_all(connection, head[0])
        keys = self._keys
        if keys and not self._signatures:
            if not self._unsigned:
                raise InputError("path", f"{self._path} carries no signatures", "Give --unsigned to take it on trust")
            keys = ()
        for wanted in (self.head, *([self._kept] if self._kept else ())):
            found = verify(connection, self._namespace, wanted, self._checkpoints, keys)
            if not found.ok:
                raise ChainBroken(self._namespace, found.first_bad or 0, found.reason)
        self.proof = "proved" if keys else "unchecked" if self._signatures else "unsigned"
        return self.head

    def _import_all(self, connection: sa.Connection, tenant: int) -> None:
        waiting: list[StoredEvent] = []
        beside: list[tuple[sa.Table, tuple[Any, ...]]] = []
        last, ended = GENESIS, False
        for line in _documents(self._path):
            if "seq" in line:
                waiting.append(_stored(line))
                if len(waiting) == _CHUNK:
                    last = self._import_events(connection, tenant, waiting, last)
                    waiting = []
            elif "blob" in line:
                self._import_blob(connection, tenant, line)
            elif "signature" in line:
                self._signatures += 1
                beside.append((signatures, self._beside(line, _signature_row, tenant)))
            elif "claim" in line:
                beside.append((claims, self._beside(line, _claim_row, tenant)))
            if len(beside) == _CHUNK:
                _write_beside(connection, beside)
            ended = ended or "end" in line
        if waiting:
            self._import_events(connection, tenant, waiting, last)
        if not ended:
            raise InputError("path", f"{self._path} ends too early", "Export it again")
        _write_beside(connection, beside)
        head = lock_head(connection, self._namespace)
        chain.extend(connection, tenant, 0, 0 if head is None else head[1])
        if connection.dialect.name == "sqlite":  # has FTS5 write what it still holds in memory
            connection.exec_driver_sql("SAVEPOINT lz_written")
            connection.exec_driver_sql("RELEASE lz_written")

    def _beside(
        self, line: dict[str, Any], read: Callable[[dict[str, Any]], tuple[Any, ...]], tenant: int
    ) -> tuple[Any, ...]:
        """A row beside the chain; ``verify`` checks whether it fits."""
        try:
            return tenant, *read(line)
        except (KeyError, TypeError, ValueError, binascii.Error):
            kind = "signature" if "signature" in line else "claim"
            raise InputError("path", f"{self._path}: {kind} {line[kind]!r} cannot be read") from None

    def _import_events(self, connection: sa.Connection, tenant: int, waiting: list[StoredEvent], prev: bytes) -> bytes:
        derived = DerivedTables(tenant)
        seq = waiting[0].seq
        rows = []
        for stored in waiting:
            fault = fault_in(stored, seq, prev, self._linker)
            if fault:
                raise ChainBroken(self._namespace, seq, fault)
            try:
                event = event_of(self._namespace, stored)
                derived.add_event(seq, event.kind, event.subject, event.agent, event.time, event.body)
            except (ValueError, KeyError, TypeError) as error:
                raise ChainBroken(self._namespace, seq, f"the event is invalid: {error}") from error
            rows.append(
                (
                    *(tenant, seq, event.kind.value, event.subject, event.agent, event.time),
                    *(stored.digest, stored.prev, stored.hash, stored.salt, stored.body),
                )
            )
            prev, seq = stored.hash, seq + 1
        write_events(connection, rows)
        derived.write(connection)
        return prev

    def _import_blob(self, connection: sa.Connection, tenant: int, line: dict[str, Any]) -> None:
        try:
            data = base64.b64decode(line["data"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            raise InputError("path", f"{self._path}: blob {line['blob']!r} cannot be read") from None
        if contents.put(connection, tenant, data) != line["blob"]:
            raise InputError("path", f"{self._path}: blob {line['blob']!r} was altered")


def _number(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError("not a number")
    return value


def _small(value: Any) -> int:
    if not -(1 << 15) <= _number(value) < 1 << 31:
        raise ValueError("too large")
    return int(value)


def _signature_row(line: dict[str, Any]) -> tuple[Any, ...]:
    key = check_name(line["key"], "key")
    return _number(line["signature"]), _number(line["prev"]), key, bytes.fromhex(line["value"])


def _claim_row(line: dict[str, Any]) -> tuple[Any, ...]:
    numbers = [_small(line[name]) for name in ("place", "start", "stop")]
    if not 0 <= _number(line["cell"]) < vectors.CELLS:
        raise ValueError("not a cell")
    vector = base64.b64decode(line["vector"], validate=True)
    if len(vector) != vectors.DIMENSION:
        raise ValueError("not a vector")
    return _number(line["claim"]), check_name(line["item"], "item"), *numbers, line["cell"], vector


def _write_beside(connection: sa.Connection, rows: list[tuple[sa.Table, tuple[Any, ...]]]) -> None:
    """Write rows of two tables, and empty the list."""
    for table in (signatures, claims):
        mine = [row for owner, row in rows if owner is table]
        if mine:
            try:
                connection.exec_driver_sql(insert_sql(table, connection.dialect.name), mine)
            except sa.exc.IntegrityError:
                raise InputError("path", f"the file holds a row of {table.name} twice", "Export it again") from None
    rows.clear()


def _stored(line: dict[str, Any]) -> StoredEvent:
    try:
        return StoredEvent(
            seq=int(line["seq"]),
            kind=line["kind"].encode(),
            subject=line["subject"].encode(),
            agent=line["agent"].encode(),
            time=float(line["time"]),
            digest=bytes.fromhex(line["digest"]),
            prev=bytes.fromhex(line["prev"]),
            hash=bytes.fromhex(line["hash"]),
            salt=None if line["salt"] is None else bytes.fromhex(line["salt"]),
            body=None if line["body"] is None else line["body"].encode(),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("path", f"event {line.get('seq')!r} of the file cannot be read: {error}") from None
