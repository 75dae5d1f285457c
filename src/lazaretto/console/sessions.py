"""Who is looking: sessions opened with a key of the service, kept in memory, and the token every form carries."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from lazaretto.identity import Identity
from lazaretto.types import RepairPlan

COOKIE = "lz_console"
LASTS_S = 12 * 3600.0
"""A session ends so long after it began, however busy."""
IDLE_S = 2 * 3600.0
MOST_SESSIONS = 1_000
MOST_PLANS = 16
ROLES = ("agent", "reviewer", "admin")
"""The roles of the service's keys; each may do all that the ones before it may."""


class Visitor(Protocol):
    """Whom a key belongs to; the service's ``Caller`` is one."""

    @property
    def name(self) -> str:
        """As the key is named."""
        ...

    @property
    def role(self) -> str:
        """One of ``ROLES``."""
        ...

    @property
    def identity(self) -> Identity:
        """Who the visitor proved to be: what they wrote, they may not clear."""
        ...


class Entrance(Protocol):
    """Who is let in; the service's ``Door`` is one."""

    open: bool
    """Whether it asks for no key."""

    def caller(self, authorization: str) -> Visitor | None:
        """Whose key this is; None: nobody's."""
        ...

    def admits(self, name: str, role: str) -> bool:
        """Whether a visitor of this name and role would still be let in."""
        ...


@dataclass(slots=True)
class Session:
    """One person's visit."""

    name: str
    role: str
    identity: Identity
    """Who the person proved to be: what they wrote, they may not clear."""
    began: float
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    plans: OrderedDict[str, tuple[RepairPlan, str]] = field(default_factory=OrderedDict)
    """Repairs that were shown as a dry run and may now be applied, each with the page to go back to."""
    notice: str = ""
    """What to say on the next page, once."""

    def covers(self, role: str) -> bool:
        """Whether the session may do what is open to a role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def vouched(self, token: str) -> bool:
        """Whether a form came from one of this session's own pages."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))

    def keep(self, plan: RepairPlan, back: str) -> None:
        """Remember a plan that was shown; the oldest is forgotten when there are many."""
        self.plans[plan.id] = (plan, back)
        while len(self.plans) > MOST_PLANS:
            self.plans.popitem(last=False)


class Sessions:
    """Open sessions by the secret of their cookie. They end with the server, and with the key that opened them."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance
        self._open: OrderedDict[str, Session] = OrderedDict()

    def begin(self, name: str, role: str, identity: Identity) -> tuple[str, Session]:
        """A new session and the secret for its cookie."""
        now = time.monotonic()
        secret, session = secrets.token_urlsafe(32), Session(name, role, identity, now, now)
        self._open[secret] = session
        while len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)
        return secret, session

    def find(self, secret: str) -> Session | None:
        """The session of a cookie; None where it ended."""
        session, now = self._open.get(secret), time.monotonic()
        if session is None:
            return None
        known = self._entrance.admits(session.identity.name, session.role)
        if not known or now - session.began > LASTS_S or now - session.seen > IDLE_S:
            del self._open[secret]
            return None
        session.seen = now
        return session

    def end(self, secret: str) -> None:
        """Close a session."""
        self._open.pop(secret, None)
