"""Events as bytes and rows: the exact bytes that are hashed, the link to the event before, and events read from rows.

The stored bytes are the hashed ones. Digests are salted: once body and salt are erased, no text can be guessed.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import orjson

from lazaretto.errors import InputError, StoreDamaged, TooLarge
from lazaretto.types import Event, EventKind

EventRow = Sequence[Any]
"""A row of lz_events, its columns in the order of the table."""

_KINDS = {kind.value: kind for kind in EventKind}


def event_from(namespace: str, row: EventRow) -> Event:
    """The event in a row of lz_events."""
    _, seq, kind, subject, agent, time, _, prev, link, _, raw = row
    try:
        body = None if raw is None else decode_body(raw)
        return Event(namespace, seq, _KINDS[kind], subject, agent, time, body, prev.hex(), link.hex())
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
