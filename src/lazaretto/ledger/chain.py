"""Checks one stored event against the one before it; shared by the verifier and the importer."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lazaretto.ledger.encoding import SALT_BYTES, Linker, body_digest, decode_body
from lazaretto.types import Event, EventKind

_KINDS = {kind.value.encode(): kind for kind in EventKind}


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
    kind = _KINDS.get(stored.kind)
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
