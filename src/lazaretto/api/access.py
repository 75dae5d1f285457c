"""Access by keys with roles, kept as hashes in a file of their own.

An agent may have things judged, kept and recalled, and report results; it claims only sources granted to it
(``identity``). A reviewer may also label, trace and repair. An admin may do everything. Without a key file and a token
the server is open, and listens on this machine alone.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from lazaretto.errors import Forbidden, InputError
from lazaretto.files import replacing
from lazaretto.identity import OWN_WORDS, Identity, ProvedBy
from lazaretto.names import check_name
from lazaretto.policy import CLOSED
from lazaretto.types import MACHINE, SourceClass, plain

log = logging.getLogger("lazaretto")


class Role(StrEnum):
    """The role of a key; each may do all that the roles before it may."""

    AGENT = "agent"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def covers(self, other: Role) -> bool:
        """Whether this role may do all that the other may."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    name: str
    role: Role
    agents: tuple[str, ...] = ()
    """The agents it may speak for; none named: any."""
    grants: tuple[SourceClass, ...] = ()
    """Sources that it may claim beside an agent's own."""
    shared: bool = False
    """Whether everybody may be this caller: the holder of the one token, or of none."""
    taken: tuple[str, ...] = ()
    """Names of other keys, and those they are bound to: a key for any agent may not use them."""
    key: str = field(default="", repr=False, compare=False)
    """The digest of the secret that the caller sent; empty: none was asked for."""

    @property
    def identity(self) -> Identity:
        """The proved identity of the caller: an admin is the operator, everybody else the holder of a key."""
        kind = ProvedBy.OPERATOR if self.role is Role.ADMIN else ProvedBy.KEY
        return Identity(kind, self.name, self.agents, (*OWN_WORDS, *self.grants), self.shared, self.taken)

    def require(self, role: Role) -> None:
        """``Forbidden`` unless the caller has at least this role."""
        if not self.role.covers(role):
            raise Forbidden(f"key {self.name!r} has the role {self.role.value}; this call needs {role.value}")


ANYBODY = Caller("anybody", Role.ADMIN, shared=True)
"""The caller of a server that has neither keys nor a token."""


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
    """The agents it may speak for; none: any, and it is one writer under all names it uses."""
    grants: tuple[SourceClass, ...] = ()
    """Sources that it may claim beside an agent's own."""

    @property
    def unbound(self) -> bool:
        """Whether it may write under any name, and is no admin's."""
        return not self.agents and self.role is not Role.ADMIN


RESERVED = ("open", "token", "anybody", MACHINE)
"""Names in the ledger of callers without a key of their own, and of the guard itself."""
_KEYS = TypeAdapter(tuple[Key, ...])


class KeyFile:
    """Keys in a JSON file that only its owner may read."""

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

    def add(
        self,
        name: str,
        role: Role,
        *,
        namespace: str = "",
        agents: Sequence[str] = (),
        any_agent: bool = False,
        grants: Sequence[SourceClass] = (),
    ) -> str:
        """A new key; returns its secret, which is shown once and kept nowhere.

        An agent's key names its agents. With ``any_agent`` it writes under any name, and is one writer all the same.
        """
        if role is Role.AGENT and not agents and not any_agent:
            fix = "Name them with --agent; --any-agent makes a key that is one writer under any name"
            raise InputError("agent", "an agent's key is for one agent or several, and none is named", fix)
        if agents and any_agent:
            raise InputError("any_agent", "is asked for beside agents that are named", "Give one of the two")
        if name in RESERVED:
            raise InputError(
                "name", f"{name!r} means the guard itself, or a caller without a key", "Choose another name"
            )
        spoken = tuple(check_name(agent, "agent", printable=True) for agent in agents)
        known = self.keys()
        if any(key.name == name for key in known):
            raise InputError("name", f"{name!r} has a key already", "Revoke it first, or choose another name")
        secret = f"lz_{secrets.token_urlsafe(32)}"
        made = Key(check_name(name, "name", printable=True), role, _digest(secret), namespace, spoken, tuple(grants))
        self._write((*known, made))
        return secret

    def revoke(self, name: str) -> None:
        """The key of that name opens nothing any more."""
        known = self.keys()
        left = tuple(key for key in known if key.name != name)
        if len(left) == len(known):
            raise InputError("name", f"no key is named {name!r}", "See 'lazaretto keys list'")
        self._write(left)

    def revision(self) -> tuple[int, int, int]:
        """Changes when the file does; zeros if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _write(self, keys: Sequence[Key]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path, durable=True, mode=0o600) as file:
            file.write(orjson.dumps(plain(keys), option=orjson.OPT_INDENT_2))


class Door:
    """The check at the entrance: callers enter by a key of the file, or by the one token, which is an admin's.

    A key file is read again when it changes, so that a new key opens and a revoked one opens nothing, at once. A file
    that is gone or cannot be read lets nobody in; a door that had keys never becomes open.
    """

    def __init__(self, namespace: str, token: str | None = None, keys: Sequence[Key] | KeyFile = ()) -> None:
        if token is not None and not token.strip():
            raise InputError("token", "is blank", "Leave it out, or use one such as 'openssl rand -hex 32' makes")
        self._namespace, self._file = namespace, keys if isinstance(keys, KeyFile) else None
        self._revision = (0, 0, 0) if self._file is None else self._file.revision()
        self._token = {} if token is None else _of_token(_digest(token.strip()))
        known = keys.keys() if isinstance(keys, KeyFile) else keys
        self._callers = self._of(known)
        self.open = token is None and not known and self._file is None

    def _of(self, keys: Sequence[Key]) -> dict[str, Caller]:
        ours = [key for key in keys if key.namespace in ("", self._namespace)]
        owners = [(name, key.name) for key in ours for name in (key.name, *key.agents)]
        return {
            key.sha256: Caller(
                key.name, key.role, key.agents, key.grants,
                taken=tuple(name for name, owner in owners if owner != key.name) if key.unbound else (), key=key.sha256,
            )
            for key in ours
        }  # fmt: skip

    def _current(self) -> dict[str, Caller]:
        """Digest of each secret that opens, and whose it is."""
        if self._file is not None and (revision := self._file.revision()) != self._revision:
            try:
                self._callers, self._revision = self._of(self._file.keys()), revision
            except InputError as error:
                log.error("nobody is let in by a key: %s", error)
                self._callers, self._revision = {}, revision
        return {**self._callers, **self._token}

    def keys_of(self, name: str, role: str) -> tuple[str, ...]:
        """Digests of the secrets that let a caller of this name and role in, now."""
        return tuple(caller.key for caller in self._current().values() if (caller.name, caller.role) == (name, role))

    def caller(self, authorization: str) -> Caller | None:
        """The caller who sent this header; None: unknown."""
        if self.open:
            return ANYBODY
        sent = _digest(authorization.removeprefix("Bearer ").strip())
        found = None
        for digest, caller in self._current().items():  # every one is compared, so that the time says nothing
            if hmac.compare_digest(digest, sent):
                found = caller
        return found


def _of_token(digest: str) -> dict[str, Caller]:
    return {digest: Caller("token", Role.ADMIN, shared=True, key=digest)}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
