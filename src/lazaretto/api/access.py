"""Who may call what: keys with roles, kept as hashes in a file of their own.

An agent may have things judged, kept and recalled, and report how its work went. It may not claim to be the user or
the system, release or label anything, or repair. A reviewer may also label, trace and repair. An admin may do
everything. Without a key file and a token the server is open, and then listens on this machine alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from lazaretto.errors import InputError, LazarettoError
from lazaretto.files import replacing
from lazaretto.names import check_name
from lazaretto.policy import CLOSED
from lazaretto.types import SourceClass, plain

NOT_FOR_AGENTS = frozenset({SourceClass.SYSTEM, SourceClass.DIRECT_USER})
"""Source classes that an agent's key may not claim: their orders are tasks."""


class Role(StrEnum):
    """What a key is for; each may do all that the ones before it may."""

    AGENT = "agent"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def covers(self, other: Role) -> bool:
        """Whether this role may do what is open to the other."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)


class Forbidden(LazarettoError):
    """The caller's key does not allow this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    name: str
    role: Role
    agents: tuple[str, ...] = ()
    """The agents it may speak for; none named: any."""

    def require(self, role: Role) -> None:
        """``Forbidden`` unless the caller has at least this role."""
        if not self.role.covers(role):
            raise Forbidden(f"key {self.name!r} has the role {self.role.value}; this call needs {role.value}")

    def speak_as(self, agent: str, source: SourceClass | None = None) -> None:
        """``Forbidden`` when the caller may not act for this agent, or claim this source."""
        if self.agents and agent not in self.agents:
            raise Forbidden(f"key {self.name!r} speaks for {', '.join(self.agents)}, not for {agent!r}")
        if self.role is Role.AGENT and source in NOT_FOR_AGENTS:
            raise Forbidden(f"key {self.name!r} is an agent's; it may not claim the source {source}")

    def may_clear(self, writer: str) -> bool:
        """Whether the caller may release what this agent wrote: nobody clears their own."""
        return writer != self.name and (writer not in self.agents)


ANYBODY = Caller("anybody", Role.ADMIN)
"""Who calls a server that has neither keys nor a token."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it is kept: the secret itself is known to its holder alone."""

    __pydantic_config__ = CLOSED
    name: str
    role: Role
    sha256: str
    namespace: str = ""
    """The tenant it is for; empty: any."""
    agents: tuple[str, ...] = ()


_KEYS = TypeAdapter(tuple[Key, ...])


class KeyFile:
    """Keys in a JSON file that nobody else may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keys(self) -> tuple[Key, ...]:
        """All keys; none where there is no file yet."""
        try:
            return _KEYS.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise InputError("keys", f"{self.path} cannot be read ({error.strerror})", "Check the path") from None
        except ValidationError as error:
            raise InputError(
                "keys", f"{self.path}: {error.errors()[0]['msg']}", "Make it with 'lazaretto keys'"
            ) from None

    def add(self, name: str, role: Role, *, namespace: str = "", agents: Sequence[str] = ()) -> str:
        """A new key; returns its secret, which is shown once and kept nowhere."""
        known = self.keys()
        if any(key.name == name for key in known):
            raise InputError("name", f"{name!r} has a key already", "Revoke it first, or choose another name")
        secret = f"lz_{secrets.token_urlsafe(32)}"
        made = Key(check_name(name, "name", printable=True), role, _digest(secret), namespace, tuple(agents))
        self._write((*known, made))
        return secret

    def revoke(self, name: str) -> None:
        """The key of that name opens nothing any more."""
        known = self.keys()
        left = tuple(key for key in known if key.name != name)
        if len(left) == len(known):
            raise InputError("name", f"no key is named {name!r}", "See 'lazaretto keys list'")
        self._write(left)

    def _write(self, keys: Sequence[Key]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path, durable=True, mode=0o600) as file:
            file.write(orjson.dumps(plain(keys), option=orjson.OPT_INDENT_2))


class Door:
    """Who is let in: by a key of the file, or by the one token, which is an admin's."""

    def __init__(self, namespace: str, token: str | None = None, keys: Sequence[Key] = ()) -> None:
        if token is not None and not token.strip():
            raise InputError("token", "is blank", "Leave it out, or use one such as 'openssl rand -hex 32' makes")
        self._callers = {
            key.sha256: Caller(key.name, key.role, key.agents) for key in keys if key.namespace in ("", namespace)
        }
        if token is not None:
            self._callers[_digest(token.strip())] = Caller("token", Role.ADMIN)
        self.open = token is None and not keys

    def caller(self, authorization: str) -> Caller | None:
        """Who sent this header; None: nobody we know."""
        if self.open:
            return ANYBODY
        sent = _digest(authorization.removeprefix("Bearer ").strip())
        found = None
        for digest, caller in self._callers.items():  # every one is compared, so that the time says nothing
            if hmac.compare_digest(digest, sent):
                found = caller
        return found


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
