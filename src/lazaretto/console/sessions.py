"""Sessions, opened with a key of the service and kept in the store, and the token that every form carries."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lazaretto.identity import Identity, ProvedBy
from lazaretto.ledger import Ledger
from lazaretto.types import Draft, EventKind, SourceClass, plain

COOKIE = "lz_console"
LASTS_S = 12 * 3600.0
"""A session ends so long after it began, however busy."""
IDLE_S = 2 * 3600.0
MOST_SESSIONS = 1_000
SECRET_LENGTH = len(secrets.token_urlsafe(32))
CLOCKS_S = 300.0
"""How far the clocks of two machines may be apart."""
ROLES = ("agent", "reviewer", "admin")
"""The roles of the service's keys; each may do all that the ones before it may."""


class Visitor(Protocol):
    """The owner of a key; the service's ``Caller`` is one."""

    @property
    def name(self) -> str:
        """The key's name."""
        ...

    @property
    def role(self) -> str:
        """One of ``ROLES``."""
        ...

    @property
    def identity(self) -> Identity:
        """The visitor's proved identity: items they wrote, they may not clear."""
        ...

    @property
    def key(self) -> str:
        """The digest of the secret of the key."""
        ...


class Entrance(Protocol):
    """The check at the entrance; the service's ``Door`` is one."""

    open: bool
    """Whether it asks for no key."""

    def caller(self, authorization: str) -> Visitor | None:
        """The owner of this key; None: unknown."""
        ...

    def keys_of(self, name: str, role: str) -> Sequence[str]:
        """Digests of the secrets that let a visitor of this name and role in, now."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """One person's visit."""

    name: str
    role: str
    identity: Identity
    """The person's proved identity: items they wrote, they may not clear."""
    began: float
    csrf: str
    """The token that every form of this session carries."""

    def covers(self, role: str) -> bool:
        """Whether the session may do all that a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def vouched(self, token: str) -> bool:
        """Whether a form came from one of this session's own pages."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))


class Sessions:
    """Sessions by the secret of their cookie. They end with the key that opened them.

    They are events of a namespace of the store beside the crew's, so that every process and machine that serves the
    crew knows them, and the record says who signed in when. The secret itself is kept nowhere. A server without keys
    keeps nothing: a visitor with any cookie of its form is the operator. Every call blocks.
    """

    def __init__(self, entrance: Entrance, ledger: Ledger, nobody: tuple[str, str, Identity]) -> None:
        """``nobody``: name, role and identity of a visitor to a server without keys."""
        self._entrance, self._nobody = entrance, nobody
        self._ledger = ledger.within(f"{ledger.namespace}.console")
        self._seen: OrderedDict[str, float] = OrderedDict()
        """By digest of a session, the time at which this process last recorded that it is in use."""

    def begin(self, name: str, role: str, identity: Identity, key: str = "") -> tuple[str, Session]:
        """A new session and the secret for its cookie; ``key``: the digest of the key that opens it."""
        secret, now = secrets.token_urlsafe(32), time.time()
        if not self._entrance.open:
            bound = {"role": role, "identity": plain(identity), "key": _bound(secret, key)}
            self._note(secret, {"began": now, "name": name, **bound})
        return secret, Session(name, role, identity, now, _csrf(secret))

    def find(self, secret: str) -> Session | None:
        """The session of a cookie; None where it ended."""
        if len(secret) != SECRET_LENGTH or not secret.isascii():
            return None
        if self._entrance.open:
            name, role, identity = self._nobody
            return Session(name, role, identity, time.time(), _csrf(secret))
        begun, seen, ended = self._read(secret)
        if begun is None or ended:
            return None
        now, session = time.time(), _session(begun, secret)
        if now - session.began > LASTS_S or now - seen > IDLE_S or session.began > now + CLOCKS_S:
            return None
        keys = self._entrance.keys_of(session.identity.name, session.role)
        if not any(hmac.compare_digest(_bound(secret, key), str(begun.get("key", ""))) for key in keys):
            return None
        if now - max(seen, self._seen.get(_digest(secret), 0.0)) > IDLE_S / 4:
            self._note(secret, {"seen": now})
        return session

    def end(self, secret: str) -> None:
        """Close a session, for all processes."""
        if not self._entrance.open:
            self._note(secret, {"ended": time.time()})

    def _read(self, secret: str) -> tuple[Mapping[str, Any] | None, float, bool]:
        """Its first event, the time of its last use, and whether it was closed."""
        begun, seen, ended = None, 0.0, False
        for event in self._ledger.events(subject=_digest(secret), kinds=(EventKind.NOTED,)):
            body = event.body or {}
            begun = body if "began" in body else begun
            seen = max(seen, float(body.get("seen", body.get("began", 0.0))))
            ended |= "ended" in body
        return begun, seen, ended

    def _note(self, secret: str, body: Mapping[str, Any]) -> None:
        name = _digest(secret)
        self._ledger.append([Draft(EventKind.NOTED, name, body=body)])
        self._seen[name] = time.time()
        while len(self._seen) > MOST_SESSIONS:
            self._seen.popitem(last=False)


def _digest(secret: str) -> str:
    return "session:" + hashlib.sha256(secret.encode()).hexdigest()


def _bound(secret: str, key: str) -> str:
    """A session's bond to the key that opened it; without the cookie nobody can try keys on it."""
    return hmac.new(secret.encode(), f"key {key}".encode(), "sha256").hexdigest()


def _csrf(secret: str) -> str:
    """Known only to the holder of the cookie, alike in every process."""
    return hmac.new(secret.encode(), b"csrf", "sha256").hexdigest()


def _session(begun: Mapping[str, Any], secret: str) -> Session:
    who = begun["identity"]
    identity = Identity(
        ProvedBy(who["kind"]),
        str(who["name"]),
        tuple(who["agents"]),
        tuple(map(SourceClass, who["grants"])),
        bool(who["shared"]),
        tuple(who["taken"]),
    )
    return Session(str(begun["name"]), str(begun["role"]), identity, float(begun["began"]), _csrf(secret))
