"""The chain: events as exact bytes and rows, each linked to the event before, and a Merkle tree over all of them.

The stored bytes are the hashed ones. Digests are salted: once body and salt are erased, no text can be guessed.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import orjson
import sqlalchemy as sa

from lazaretto.errors import InputError, StoreDamaged, TooLarge
from lazaretto.ledger import driver
from lazaretto.types import Event, EventKind

EventRow = Sequence[Any]
"""A row of lz_events, its columns in the order of the table."""

_KINDS_BY_NAME = {kind.value: kind for kind in EventKind}


def event_from(namespace: str, row: EventRow) -> Event:
    """The event in a row of lz_events."""
    _, seq, kind, subject, agent, time, _, prev, link, _, raw = row
    try:
        body = None if raw is None else decode_body(raw)
        return Event(namespace, seq, _KINDS_BY_NAME[kind], subject, agent, time, body, prev.hex(), link.hex())
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise StoreDamaged(
            f"namespace {namespace!r}, event {seq}: cannot be read ({error}): run 'lazaretto ledger verify'"
        ) from error


class EventRows(Sequence[Event]):
    """The events that an append recorded. Each is built on access, because few callers read all of a large batch.

    Compares and adds up like a list of its events.
    """

    def __init__(self, namespace: str, rows: Sequence[EventRow]) -> None:
        self._namespace, self._rows = namespace, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> EventRows: ...
    def __getitem__(self, place: int | slice) -> Event | EventRows:
        if isinstance(place, slice):
            return EventRows(self._namespace, self._rows[place])
        return event_from(self._namespace, self._rows[place])

    def __iter__(self) -> Iterator[Event]:
        return (event_from(self._namespace, row) for row in self._rows)

    def __add__(self, other: Sequence[Event]) -> list[Event]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Event]) -> list[Event]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    def __hash__(self) -> int:
        raise TypeError("what was recorded compares like a list, and is not hashable either")

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self)} events: {shown}{', ...' if len(self) > 3 else ''}>"


GENESIS = bytes(32)
"""The previous hash of the first event of a namespace."""
SALT_BYTES = 16
MAX_BODY = 512 * 1024 * 1024
"""Largest body in bytes; both databases take it (their own limits are near 1 GB)."""

_MAGIC = b"lazaretto event 1\0"
_OPEN_FIELDS = struct.Struct(">QdIII")
_SALT = struct.Struct(f"{SALT_BYTES}s")

OpenEvent = tuple[str, str, str, float, bytes]
"""The hashed parts of an event, besides its number and the previous hash: kind, subject, agent, time, body digest."""


def check_times(values: Sequence[Any]) -> Sequence[float]:
    """``check_time`` of many at once."""
    # the sum is there for NaN, which neither ``min`` nor ``max`` can be trusted to find
    if set(map(type, values)) == {float} and min(values) > 0.0 and max(values) < 1e12 and sum(values) > 0.0:
        return values
    return [check_time(value) for value in values]


def check_time(value: object, field: str = "time") -> float:
    """``value`` as a finite float; minus zero becomes zero, because not every store can tell them apart."""
    if type(value) is float and 0.0 < value < 1e12:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(field, f"is {type(value).__name__}, not seconds since the epoch")
    try:
        seconds = float(value) + 0.0
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise InputError(field, f"is {value}, not a finite number of seconds")
    return seconds


def _first_fault(value: Any, path: str) -> InputError | None:
    """Why ``value`` cannot be JSON, naming the place; None when nothing is wrong with it."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return InputError(path, "is not valid Unicode (a lone surrogate)", "Decode it with errors='replace'")
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else InputError(path, f"is {value}, which JSON cannot hold")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                return InputError(path, f"has the key {key!r}, which is not text")
            fault = _first_fault(key, f"{path} (a key)") or _first_fault(inner, f"{path}.{key}")
            if fault:
                return fault
        return None
    if isinstance(value, (list, tuple)):
        return next((fault for i, inner in enumerate(value) if (fault := _first_fault(inner, f"{path}[{i}]"))), None)
    if value is None or isinstance(value, (bool, int)):
        return None
    return InputError(path, f"is {type(value).__name__}, not JSON data")


def _is_plain(value: Any) -> bool:
    """Whether a value is made of nothing but JSON's own kinds, and finite; quicker than to look for a fault."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(map(_is_plain, value.values()))
    return (kind is list or kind is tuple) and all(map(_is_plain, value))


def _mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def encode_body(body: Mapping[str, Any]) -> bytes:
    """The bytes of a body, refused with the name of the offending field when it is not JSON data."""
    if type(body) is not dict and not isinstance(body, Mapping):
        raise InputError("body", f"is {type(body).__name__}, not a mapping")
    try:
        raw = orjson.dumps(body, default=_mapping)
    except (TypeError, RecursionError) as error:
        raise (_fault_in_body(body) or InputError("body", f"cannot be written as JSON: {error}")) from None
    if b"null" in raw and not _is_plain(body):  # the writer turns NaN into null without a word
        fault = _fault_in_body(body)
        if fault:
            raise fault
    if len(raw) > MAX_BODY:
        raise TooLarge("body", len(raw), MAX_BODY)
    return raw


def _fault_in_body(body: Mapping[str, Any]) -> InputError | None:
    try:
        return _first_fault(body, "body")
    except RecursionError:
        return InputError("body", "is nested too deeply")


def decode_body(raw: bytes) -> dict[str, Any]:
    """The body that ``raw`` was made from."""
    if raw == b"{}":
        return {}
    body = orjson.loads(raw)
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")
    return body


def fresh_salts(count: int) -> list[bytes]:
    """As many salts as asked for, drawn at once."""
    return [salt for (salt,) in _SALT.iter_unpack(os.urandom(SALT_BYTES * count))]


def body_digest(salt: bytes, raw: bytes) -> bytes:
    """The salted digest that stands for a body in the chain."""
    return hashlib.sha256(salt + raw).digest()


class Linker:
    """Makes the hashes of one namespace's chain."""

    def __init__(self, namespace: str) -> None:
        name = namespace.encode()
        self._start = _MAGIC + len(name).to_bytes(4, "big") + name

    def link(self, seq: int, kind: bytes, subject: bytes, agent: bytes, time: float, digests: bytes) -> bytes:
        """The hash of an event; ``digests`` is its body's digest followed by the hash of the event before it."""
        fields = _OPEN_FIELDS.pack(seq, time, len(kind), len(subject), len(agent))
        return hashlib.sha256(b"".join((self._start, fields, kind, subject, agent, digests))).digest()

    def link_all(self, first: int, opened: Iterable[OpenEvent], prev: bytes) -> list[bytes]:
        """The hashes of a run of events from number ``first`` on: ``link`` of each, without a call for each."""
        start, pack, sha256 = self._start, _OPEN_FIELDS.pack, hashlib.sha256
        hashes: list[bytes] = []
        for seq, (kind, subject, agent, time, digest) in enumerate(opened, first):
            what, about, who = kind.encode(), subject.encode(), agent.encode()
            fields = pack(seq, time, len(what), len(about), len(who))
            prev = sha256(b"".join((start, fields, what, about, who, digest, prev))).digest()
            hashes.append(prev)
        return hashes


# Checks one stored event against the one before it; shared by the verifier and the importer.

_KINDS_BY_BYTES = {kind.value.encode(): kind for kind in EventKind}


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as its bytes lie in the store, before the check."""

    seq: int
    kind: bytes
    subject: bytes
    agent: bytes
    time: float
    digest: bytes
    prev: bytes
    hash: bytes
    salt: bytes | None
    body: bytes | None


def fault_in(stored: StoredEvent, seq: int, prev: bytes, linker: Linker) -> str | None:
    """Why ``stored`` cannot be event ``seq`` after one whose hash is ``prev``; None when it can."""
    try:
        return _fault(stored, seq, prev, linker)
    except (TypeError, ValueError, OverflowError, struct.error):
        return "it was altered: a field has the wrong type"


def _fault(stored: StoredEvent, seq: int, prev: bytes, linker: Linker) -> str | None:
    if stored.seq != seq:
        return "the event is missing" if stored.seq > seq else "an event stands where none can"
    if stored.prev != prev:
        return "it does not carry the hash of the event before it"
    if stored.body is None:
        if stored.salt is not None:
            return "its body is gone, but not its salt"
    elif stored.salt is None or len(stored.salt) != SALT_BYTES:
        return "its salt was altered"
    elif body_digest(stored.salt, stored.body) != stored.digest:
        return "its content was altered"
    link = linker.link(seq, stored.kind, stored.subject, stored.agent, stored.time, stored.digest + stored.prev)
    return None if link == stored.hash else "it was altered: its hash does not fit its fields"


def event_of(namespace: str, stored: StoredEvent) -> Event:
    """The event, once ``fault_in`` found nothing; ``ValueError`` when its bytes mean nothing."""
    kind = _KINDS_BY_BYTES.get(stored.kind)
    if kind is None:
        raise ValueError(f"unknown kind {stored.kind!r}")
    return Event(
        namespace=namespace,
        seq=stored.seq,
        kind=kind,
        subject=stored.subject.decode(),
        agent=stored.agent.decode(),
        time=stored.time,
        body=None if stored.body is None else decode_body(stored.body),
        prev=stored.prev.hex(),
        hash=stored.hash.hex(),
    )


# A Merkle tree over a chain's events, as in RFC 6962: proofs of consistency in the logarithm of its length.
#
# Nodes above whole blocks of events are kept (``lz_tree``) once the block is full, so the length of a chain says which
# nodes there must be, and ``verify`` finds a missing one. Nodes inside a block are made from its events again.

LOWEST = 6
"""The level of the lowest nodes that are kept."""
BLOCK = 1 << LOWEST
"""Events under one of them."""

Node = Callable[[int, int], bytes]
"""The hash of the whole subtree at a level (0: leaves) and place."""


def leaf(digest: bytes) -> bytes:
    """The leaf of an event, from its hash."""
    return hashlib.sha256(b"\0" + digest).digest()


def join(left: bytes, right: bytes) -> bytes:
    """The node above two."""
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def root(node: Node, start: int, end: int) -> bytes:
    """The hash of the leaves from ``start`` up to ``end``; ``start`` is a multiple of the power of two below."""
    size = end - start
    if size == 0:
        return hashlib.sha256().digest()
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return node(level, start >> level)
    middle = start + _split(size)
    return join(root(node, start, middle), root(node, middle, end))


def prove(node: Node, old: int, new: int) -> list[bytes]:
    """Proof that the tree of ``new`` leaves begins with the tree of ``old`` leaves."""
    return [] if old in (0, new) else _prove(node, old, 0, new, True)


def _prove(node: Node, old: int, start: int, end: int, whole: bool) -> list[bytes]:
    size = end - start
    if old == size:
        return [] if whole else [root(node, start, end)]
    middle = _split(size)
    if old <= middle:
        return [*_prove(node, old, start, start + middle, whole), root(node, start + middle, end)]
    return [*_prove(node, old - middle, start + middle, end, False), root(node, start, start + middle)]


def consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether ``proof`` shows that a tree with ``new_root`` only added to one with ``old_root`` (RFC 9162, 2.1.4.2)."""
    if old > new or old < 0:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    small = big = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            small, big = join(node, small), join(node, big)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            big = join(big, node)
        first, last = first >> 1, last >> 1
    return last == 0 and small == old_root and big == new_root


class Builder:
    """Whole subtrees as leaves come in; the verifier compares them with the stored ones."""

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[tuple[int, bytes]] = []

    def add(self, digest: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Level, place and hash of every subtree that this event completes, above the leaves."""
        level, hashed = 0, leaf(digest)
        self.size += 1
        while self._edge and self._edge[-1][0] == level:
            hashed = join(self._edge.pop()[1], hashed)
            level += 1
            yield level, (self.size >> level) - 1, hashed
        self._edge.append((level, hashed))

    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self._edge:
            return hashlib.sha256().digest()
        hashed = self._edge[-1][1]
        for _, left in reversed(self._edge[:-1]):
            hashed = join(left, hashed)
        return hashed


def kept_of(size: int) -> int:
    """How many of a chain's first events have their nodes in the store."""
    return size - size % BLOCK


def _whole(digests: Sequence[bytes]) -> bytes:
    """The node over so many events as fill a subtree, from their hashes."""
    row = [leaf(digest) for digest in digests]
    while len(row) > 1:
        row = list(map(join, row[::2], row[1::2]))
    return row[0]


def _over_events(connection: sa.Connection, tenant: int, level: int, place: int) -> bytes:
    """A node that is not kept, or not yet."""
    mark, start, count = driver.mark(connection), place << level, 1 << level
    find = f"SELECT hash FROM lz_events WHERE tenant = {mark} AND seq > {mark} AND seq <= {mark} ORDER BY seq"
    digests = [bytes(row[0]) for row in driver.read(connection, find, (tenant, start, start + count))]
    if len(digests) != count:
        raise StoreDamaged(
            f"one of the events {start + 1} to {start + count} is missing: run 'lazaretto ledger verify'"
        )
    return _whole(digests)


def stored_node(connection: sa.Connection, tenant: int) -> Node:
    """Nodes from the store; those inside of a block, from the events."""

    mark = driver.mark(connection)
    of_node = f"SELECT hash FROM lz_tree WHERE tenant = {mark} AND level = {mark} AND place = {mark}"

    def node(level: int, place: int) -> bytes:
        if level < LOWEST:
            return _over_events(connection, tenant, level, place)
        found = driver.read(connection, of_node, (tenant, level, place))
        if found:
            return bytes(found[0][0])
        if level == LOWEST:
            return _over_events(connection, tenant, level, place)
        return join(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))

    return node


def extend(connection: sa.Connection, tenant: int, before: int, size: int) -> None:
    """Keep the nodes of every block that became full between two lengths of a chain, in the caller's transaction."""
    mark = driver.mark(connection)
    keep = (
        f"INSERT INTO lz_tree (tenant, level, place, hash) VALUES ({', '.join([mark] * 4)})"
        " ON CONFLICT (tenant, level, place) DO NOTHING"
    )
    node = stored_node(connection, tenant)
    for full in range(kept_of(before) >> LOWEST, kept_of(size) >> LOWEST):
        level, place, above = LOWEST, full, _over_events(connection, tenant, LOWEST, full)
        rows = [(tenant, level, place, above)]
        while place & 1:
            above, level, place = join(node(level, place - 1), above), level + 1, place >> 1
            rows.append((tenant, level, place, above))
        driver.write(connection, keep, rows)
