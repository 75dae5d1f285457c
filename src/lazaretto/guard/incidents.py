"""Incidents: findings, items that wait for a person, and agents to look at next."""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Sequence
from typing import Any

from lazaretto.errors import InputError
from lazaretto.guard.core import Core
from lazaretto.incidents.records import Incident, State
from lazaretto.learn.lessons import SCREENED, ContactQueue
from lazaretto.names import check_name, warn_old_name
from lazaretto.provenance.suspects import Suspect, suspects
from lazaretto.types import Draft, EventKind


class IncidentBook:
    """``guard.incidents``: findings, grouped, and agents and items to look at."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core
        self._contacts = ContactQueue(core.ledger, core.graph)

    async def all(self, state: State | None = None, *, limit: int | None = None) -> tuple[Incident, ...]:
        """Incidents: findings that belong together are one. The newest first; ``state`` keeps some."""
        return await self._core.in_store_thread(functools.partial(self._core.incidents.all, state, limit=limit))

    async def open(self, *, limit: int | None = None) -> tuple[Incident, ...]:
        """Incidents that nobody has settled yet, the newest first."""
        return await self.all("open", limit=limit)

    async def one(self, name: str) -> Incident:
        """One incident by its id, or by the id of an item that was found in it."""
        return await self._core.in_store_thread(self._core.incidents.one, check_name(name, "incident", printable=True))

    async def suspects(self, *, limit: int = 10) -> tuple[Suspect, ...]:
        """Items behind decisions that failed more often than chance lets them, the strongest suspicion first."""
        if (
            isinstance(limit, bool)
            or not isinstance(limit, int)
            or not 1 <= limit <= self._core.policy.limits.max_results
        ):
            raise InputError("limit", f"is {limit!r}", f"Give 1 to {self._core.policy.limits.max_results}")
        return await self._core.in_store_thread(suspects, self._core.ledger, self._core.graph, limit)

    async def contacts(self) -> tuple[str, ...]:
        """Agents that held or read a finding since they were last screened: holders first, the newest first."""
        return await self._core.in_store_thread(self._contacts.due)

    async def note_screened(self, agents: Sequence[str]) -> None:
        """Record that agents were looked at: they leave the queue until they meet something that is found."""
        names = [check_name(agent, "agents", printable=True) for agent in agents]
        if names:
            body = {"what": SCREENED, "agents": names}
            await self._core.append(Draft(EventKind.NOTED, SCREENED, body=body))

    def __call__(
        self, state: State | None = None, *, limit: int | None = None
    ) -> Coroutine[Any, Any, tuple[Incident, ...]]:
        """The old name of ``all``."""
        warn_old_name("guard.incidents()", "guard.incidents.all()")
        return self.all(state, limit=limit)
