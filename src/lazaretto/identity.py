"""The proved identity of a caller, and the claims it may make: every interface asks here.

An HTTP key, an MCP connection, the proxy and the operator's own code each make an ``Identity``: the names under which
the caller writes, the sources it may claim, the principal recorded behind its writes, and what it may clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lazaretto.errors import Forbidden, InputError, NotYours
from lazaretto.names import check_name, look_of
from lazaretto.types import (
    MACHINE,
    OPEN_PROXY,
    Observation,
    SourceClass,
    claimed_name,
    is_author,
    key_behind,
    principal_of,
)

OWN_WORDS = (SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE)
"""Sources that every agent may claim: its own words."""
ORDERS = frozenset({SourceClass.SYSTEM, SourceClass.DIRECT_USER})
"""Sources whose orders are tasks. They are granted by name, at any trust that the policy gives them."""


class ProvedBy(StrEnum):
    """The way in which a caller proved who it is."""

    KEY = "key"
    MCP = "mcp"
    PROXY = "proxy"
    OPERATOR = "operator"  # an admin's key or token, or a server without keys: it vouches for the names it uses


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """The recorded writer and source of a write, after the check."""

    agent: str
    source: SourceClass
    principal: str


@dataclass(frozen=True, slots=True)
class Identity:
    """One caller."""

    kind: ProvedBy
    name: str
    agents: tuple[str, ...] = ()
    """The names it may write under; none: any. It is one principal under all of them."""
    grants: tuple[SourceClass, ...] = OWN_WORDS
    """Sources that the operator granted; sources that are trusted no more than these may be claimed too."""
    shared: bool = False
    """Whether everybody may be this caller (one token for all, a server without keys): then it proves no authorship."""
    taken: tuple[str, ...] = ()
    """Names that belong to others: a caller that may write under any name may not use these."""

    def principal(self, agent: str) -> str:
        """The principal recorded behind a write as ``agent``."""
        own = f"{self.kind.value}:{self.name}"
        return f"{own}/{agent}" if self.kind is ProvedBy.OPERATOR else own

    def speak_as(self, agent: str) -> None:
        """``Forbidden`` for a name that the caller may not use."""
        if self.agents and agent not in self.agents:
            raise Forbidden(f"{self.kind.value} {self.name!r} speaks for {', '.join(self.agents)}, not for {agent!r}")
        if self.taken and look_of(agent) in map(look_of, self.taken):
            raise Forbidden(
                f"{self.kind.value} {self.name!r} may not write as {agent!r}: another key is bound to that name"
            )

    def claim(
        self, agent: str, source: SourceClass | None, usual: SourceClass, trust: Mapping[SourceClass, float]
    ) -> WriterClaim:
        """The caller's claims about itself, if it may make them: ``Forbidden`` names the grant that it lacks.

        ``usual`` is the source if it claims none; ``trust`` is the policy's table. To claim less trust is free.
        """
        self.speak_as(agent)
        if source is None:
            highest = max(self.grants, key=lambda source: trust[source], default=SourceClass.UNTRUSTED_DOCUMENT)
            source = usual if self.may_claim(usual, trust) else highest
        elif not self.may_claim(source, trust):
            words = ", ".join(source.value for source in self.grants) or "nothing"
            raise Forbidden(
                f"source: {self.kind.value} {self.name!r} may not claim {source.value!r}; it was granted {words}. "
                "Claim a source that is trusted no more, or let the operator grant it"
            )
        return WriterClaim(agent, source, self.principal(agent))

    def may_claim(self, source: SourceClass, trust: Mapping[SourceClass, float]) -> bool:
        """Whether the caller was granted a source, or another that is trusted as much."""
        if self.kind is ProvedBy.OPERATOR or source in self.grants:
            return True
        granted = [grant for grant in self.grants if source not in ORDERS or grant in ORDERS]
        return any(trust[source] <= trust[grant] for grant in granted)

    def wrote(self, item: Observation) -> bool:
        """Whether an item is the caller's own: written with its key or connection, or under one of its names."""
        if self.shared:
            return False
        own = f"{self.kind.value}:{self.name}"
        behind = principal_of(item)
        if behind == f"{ProvedBy.PROXY.value}:{self.name}" and behind != OPEN_PROXY:
            return True  # its key, used through the proxy
        named = set(map(look_of, _writers(item))) & set(map(look_of, (self.name, *self.agents)))
        return bool(named) or behind == own or behind.startswith(f"{own}/")


def check_person(name: object, field: str = "by", *, empty: bool = False) -> str:
    """``check_name`` of who signs a decision. The guard's own name is refused: what it signs is no person's word."""
    if name == MACHINE:
        raise InputError(field, f"{name!r} means the guard itself", "Sign with the person's name")
    return check_name(name, field, printable=True, empty=empty)


def require_not_own(caller: Identity | None, by: str, cleared: Iterable[Observation]) -> None:
    """The question before anything is cleared, whichever way: ``NotYours`` for an item that the caller wrote.

    ``cleared`` is everything that would be shown again, also items held only because of the others. ``by`` is the name
    that the decision is signed with, empty without one. ``caller`` is None in the operator's own code.
    """
    for item in cleared:
        if is_own(caller, by, item):
            raise NotYours(item.id, by or (caller.name if caller else ""))


def is_own(caller: Identity | None, by: str, item: Observation) -> bool:
    """Whether the caller, or who signs, wrote an item. A name counts in every spelling that a reader takes for it."""
    signed = bool(by) and look_of(by) in map(look_of, _writers(item))
    return signed or (caller is not None and caller.wrote(item))


def is_by_author(by: str, item: Observation) -> bool:
    """Whether the name that signed a decision is that of an item's author: of its agent, or of the key behind it."""
    return bool(by) and any(is_own(Identity(kind, by), by, item) for kind in (ProvedBy.KEY, ProvedBy.MCP))


def writer_of(item: Observation) -> str:
    """An item's writer for people to read: the name, and who is behind it where nobody vouches for that name."""
    behind = key_behind(principal_of(item))
    vouched = behind == f"{ProvedBy.KEY.value}:{item.agent}" or is_author(item.agent, behind, item.agent, "")
    return item.agent if vouched else f"{item.agent} ({behind})"


def _writers(item: Observation) -> tuple[str, ...]:
    """The names under which an item was written."""
    claimed = claimed_name(item)
    return (item.agent, claimed) if claimed and claimed != item.agent else (item.agent,)
