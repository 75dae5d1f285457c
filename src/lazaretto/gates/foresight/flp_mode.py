"""Foresight as published (mode ``flp``) over a community: collapsed agents are rolled back or bisected, one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.forgetting import roll_back
from lazaretto.agents.persona import Persona
from lazaretto.agents.turn import AgentState
from lazaretto.gates.foresight.backend import RehearsalBackend
from lazaretto.gates.foresight.community import AgentPair, Cleaning, Streams, Talk
from lazaretto.gates.foresight.flp import FlpReading, FlpSettings, FlpThresholds, infected, take_readings

Search = Callable[[Sequence[str], Callable[[tuple[str, ...]], Awaitable[bool]]], Awaitable[Sequence[str]]]
"""Finds which memories to remove, given a test that says whether just these would infect: a bisection."""
Purified = tuple[AgentState, str]
"""The agent after purification, and by which way."""
Purification = Callable[[RehearsalBackend], Awaitable[Purified]]
Together = Callable[[RehearsalBackend, Sequence[Purification]], Awaitable[list[Purified]]]
"""Runs searches with a backend, side by side where it can."""


async def one_by_one(backend: RehearsalBackend, searches: Sequence[Purification]) -> list[Purified]:
    """The plain way to run searches."""
    return [await search(backend) for search in searches]


class FlpMode:
    """The defence as published: every agent about to speak rehearses; a found memory is removed from it alone."""

    def __init__(
        self,
        thresholds: FlpThresholds,
        personas: Sequence[Persona],
        settings: FlpSettings | None = None,
        *,
        search: Search,
        together: Together = one_by_one,
    ) -> None:
        self.thresholds, self.personas, self.settings = thresholds, tuple(personas), settings or FlpSettings()
        self.before: dict[str, FlpReading] = {}
        """The last reading of each agent, for drift."""
        self._search, self._together = search, together

    async def before_turns(
        self, agents: Sequence[AgentState], speaking: Sequence[str], backend: RehearsalBackend, streams: Streams
    ) -> Cleaning:
        """Rehearse everybody who is about to speak, purify the infected."""
        known = {agent.id: agent for agent in agents}
        about = [known[name] for name in speaking]
        readings = await take_readings(about, self.personas, self.settings, backend, streams("flp"))
        sick = [
            partial(self.purified, agent, reading.drift(self.before.get(agent.id)), streams=streams)
            for agent, reading in zip(about, readings, strict=True)
            if infected(reading, self.thresholds, self.settings)
        ]
        pure = await self._together(backend, sick)
        self.before |= {agent.id: reading for agent, reading in zip(about, readings, strict=True)}
        missing = {
            agent.id: tuple(k.key for k in agent.album)
            for agent, reading in zip(about, readings, strict=True)
            if len(agent.album) and (reading.entropy is None or reading.diversity is None)
        }
        return Cleaning({s.id: s for s, _ in pure}, {s.id: how for s, how in pure}, unread=missing)

    async def purified(
        self, agent: AgentState, drift: float | None, backend: RehearsalBackend, *, streams: Streams
    ) -> Purified:
        """The infected agent, purified, and the method. No drift is known the first time: long-term."""
        if drift is not None and drift > self.thresholds.drift:
            return roll_back(agent), "rollback"
        rng = streams(f"flp bisect {agent.id}")

        async def test(keys: tuple[str, ...]) -> bool:
            part = replace(agent, album=agent.album.only(keys))
            (reading,) = await take_readings([part], self.personas, self.settings, backend, rng)
            return infected(reading, self.thresholds, self.settings)

        found = await self._search([k.key for k in agent.album], test)
        return replace(agent, album=agent.album.without(found)), "bisect"

    def listen(self, talk: Iterable[Talk], meetings: Iterable[AgentPair]) -> None:
        """The published defence does not."""

    def snapshot(self) -> Mapping[str, Any]:
        """The mean embeddings of the last rehearsals."""
        return {"centres": {a: r.centre.tolist() for a, r in self.before.items() if r.centre is not None}}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with them."""
        self.before = {a: FlpReading(None, None, np.array(c)) for a, c in snapshot["centres"].items()}

    def anew(self) -> FlpMode:
        """The same mode as it began."""
        return FlpMode(self.thresholds, self.personas, self.settings, search=self._search, together=self._together)
