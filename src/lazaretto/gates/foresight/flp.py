"""Foresight as published (mode ``flp``): six rehearsed chats, two measures, two thresholds, local to the agent.

Over a community, collapsed agents are rolled back or bisected, one by one.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.prompts import ChatRecord, Persona
from lazaretto.agents.turn import AgentState, roll_back
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import RehearsalBackend
from lazaretto.gates.foresight.community import AgentPair, Cleaning, Streams, Talk
from lazaretto.gates.foresight.gauge import retrieval_entropy, semantic_diversity

QUANTILE = 0.075
"""delta: share of benign rehearsals at or below each threshold, as published."""


@dataclass(frozen=True, slots=True)
class FlpThresholds:
    """The limits of benign rehearsals."""

    entropy: float
    diversity: float
    drift: float


@dataclass(frozen=True, slots=True)
class FlpSettings:
    """The settings of a rehearsal."""

    personas: int = 4
    """Behind how many personas: its own and others drawn from the pool."""
    passes: int = 3
    """Rounds of the rehearsal; with 4 personas, 6 chats and 18 model calls."""
    heterogeneous: bool = True
    """False: its own persona on all sides (the paper's ablation)."""
    use_entropy: bool = True
    use_diversity: bool = True

    def __post_init__(self) -> None:
        if self.personas < 1 or self.passes < 1:
            raise InputError("foresight", "rehearses with 1 persona and 1 pass at least", "Use 1 or more")
        if not (self.use_entropy or self.use_diversity):
            raise InputError("foresight", "no measure is left to diagnose with", "Use entropy, diversity or both")


@dataclass(frozen=True, slots=True)
class FlpReading:
    """The measures of one agent. None where the rehearsal gave too little to measure."""

    entropy: float | None
    diversity: float | None
    centre: NDArray[np.float64] | None = field(default=None, repr=False)
    """Mean embedding of the records, for drift."""
    faults: tuple[str, ...] = ()
    retrieved: tuple[str, ...] = ()
    """Keys of what the rehearsed chats fetched, in order."""

    def drift(self, before: FlpReading | None) -> float | None:
        """1 - cos to the reading of the round before; None without one."""
        if before is None or before.centre is None or self.centre is None:
            return None
        size = float(np.linalg.norm(self.centre) * np.linalg.norm(before.centre))
        return 1.0 - float(self.centre @ before.centre) / size if size else None


def read(rehearsed: RehearsalResult, backend: RehearsalBackend) -> FlpReading:
    """The measures of a rehearsal."""
    entropy = retrieval_entropy(rehearsed.retrieved) if rehearsed.retrieved else None
    if not rehearsed.records:
        return FlpReading(entropy, None, None, rehearsed.faults, rehearsed.retrieved)
    rows = backend.text_vectors(rehearsed.records).astype(np.float64)
    diversity = semantic_diversity(rows) if len(rows) > 1 else None
    return FlpReading(entropy, diversity, rows.mean(axis=0), rehearsed.faults, rehearsed.retrieved)


def cast_of(
    agent: AgentState, pool: Sequence[Persona], settings: FlpSettings, rng: random.Random
) -> tuple[Persona, ...]:
    """The agent's own persona and others from the pool; its own alone when it has no other."""
    others = [persona for persona in pool if persona != agent.persona]
    if not settings.heterogeneous or not others:
        return (agent.persona,) * settings.personas
    return (agent.persona, *rng.sample(others, min(settings.personas - 1, len(others))))


async def take_readings(
    agents: Sequence[AgentState],
    pool: Sequence[Persona],
    settings: FlpSettings,
    backend: RehearsalBackend,
    rng: random.Random,
) -> list[FlpReading]:
    """Rehearse every agent and measure it."""
    casts = [cast_of(agent, pool, settings, rng) for agent in agents]
    return [read(rehearsed, backend) for rehearsed in await rehearse(agents, casts, settings.passes, backend, rng)]


def infected(reading: FlpReading, thresholds: FlpThresholds, settings: FlpSettings) -> bool:
    """Both measures at or below their thresholds. What could not be measured is no evidence: not infected."""
    low = []
    if settings.use_entropy:
        low.append(reading.entropy is not None and reading.entropy <= thresholds.entropy + 1e-12)
    if settings.use_diversity:
        low.append(reading.diversity is not None and reading.diversity <= thresholds.diversity)
    return all(low)


# Foresight as published (mode ``flp``) over a community: collapsed agents are rolled back or bisected, one by one.

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


# The rehearsal: an agent plays both sides of a few turns behind other personas, on copies of itself.
#
# Albums are read and never written; records of the rehearsal go into the copies' histories alone, which end with it.


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """The result of a rehearsal of one agent."""

    retrieved: tuple[str, ...] = ()
    """The key that each rehearsed turn fetched."""
    records: tuple[str, ...] = ()
    """The rehearsed chats as text, of those turns that came to their end."""
    faults: tuple[str, ...] = ()
    """Why turns are missing: a model that failed, an empty album."""


@dataclass
class _RehearsedTurn:
    """One rehearsed turn in the making."""

    agent: int
    asking: int
    answering: int
    key: str = ""
    question: str = ""


@dataclass
class _Notes:
    retrieved: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


async def rehearse(
    agents: Sequence[AgentState],
    casts: Sequence[Sequence[Persona]],
    passes: int,
    backend: RehearsalBackend,
    rng: random.Random,
) -> list[RehearsalResult]:
    """Every agent behind its cast of personas, ``passes`` times in pairs that change; all agents in common batches.

    Histories begin empty, as in the authors' program. An odd persona sits out; one persona plays both sides.
    """
    if passes < 1:
        raise InputError("passes", f"{passes}", "Rehearse at least once")
    copies = [
        [replace(agent.playing(persona), history=agent.history.cleared()) for persona in cast]
        for agent, cast in zip(agents, casts, strict=True)
    ]
    notes = [_Notes() for _ in agents]
    for _ in range(passes):
        scenes = [scene for index, cast in enumerate(copies) for scene in _pairs(index, len(cast), rng)]
        await _play(scenes, copies, notes, backend)
    return [RehearsalResult(tuple(n.retrieved), tuple(n.records), tuple(n.faults)) for n in notes]


def _pairs(agent: int, cast: int, rng: random.Random) -> list[_RehearsedTurn]:
    if cast == 1:
        return [_RehearsedTurn(agent, 0, 0)]
    order = rng.sample(range(cast), cast)
    return [_RehearsedTurn(agent, q, a) for q, a in zip(order[0::2], order[1::2], strict=False)]


async def _play(
    scenes: list[_RehearsedTurn], copies: list[list[AgentState]], notes: list[_Notes], backend: RehearsalBackend
) -> None:
    """One pass: plan, look up, ask, answer; a scene that fails drops out and says why."""
    going: list[_RehearsedTurn] = []
    plans = await backend.plan([copies[s.agent][s.asking] for s in scenes])
    for scene, utterance in zip(scenes, plans, strict=True):
        actor = copies[scene.agent][scene.asking]
        if utterance.fault or not len(actor.album):
            notes[scene.agent].faults.append(utterance.fault or "the album is empty")
            continue
        (key,) = await backend.look_up(actor.album, [utterance.text or actor.persona.text()])
        if not key:
            notes[scene.agent].faults.append("retrieval failed" if key is None else "nothing was retrieved")
            continue
        scene.key = key
        notes[scene.agent].retrieved.append(key)
        going.append(scene)
    for side in ("ask", "answer"):
        shown = [next(k for k in copies[s.agent][0].album if k.key == s.key) for s in going]
        if side == "ask":
            spoken = await backend.ask([copies[s.agent][s.asking] for s in going], shown)
        else:
            actors = [copies[s.agent][s.answering] for s in going]
            spoken = await backend.answer(actors, shown, [s.question for s in going])
        left = []
        for scene, utterance in zip(going, spoken, strict=True):
            if utterance.fault:
                notes[scene.agent].faults.append(utterance.fault)
            elif side == "ask":
                scene.question = utterance.text
                left.append(scene)
            else:
                _keep(scene, utterance.text, copies[scene.agent], notes[scene.agent])
        going = left


def _keep(scene: _RehearsedTurn, answer: str, cast: list[AgentState], notes: _Notes) -> None:
    record = ChatRecord(scene.question, answer)
    notes.records.append(record.text())
    for place in {scene.asking, scene.answering}:
        cast[place] = replace(cast[place], history=cast[place].history.add(record))


# A search for infected memories: test halves, remove the infected ones, and test the rest again.
#
# The test is a function: would an agent that held only these memories be infected? Several viruses are several
# branches; a hidden one is found when the rest is tested.

Infected = Callable[[tuple[str, ...]], Awaitable[bool]]
"""Would an agent with just these memories be infected?"""


@dataclass(frozen=True, slots=True)
class BisectionResult:
    """The result of a search."""

    removed: tuple[str, ...]
    tests: int
    clean: bool
    """Whether the test found the rest healthy, after the last removal."""


class _Halving:
    def __init__(self, infected: Infected, smallest: int, most_tests: int) -> None:
        self.infected, self.smallest, self.most_tests = infected, smallest, most_tests
        self.tests = 0

    async def test(self, keys: tuple[str, ...]) -> bool:
        if not keys:
            return False
        self.tests += 1
        return await self.infected(keys)

    async def find(self, keys: tuple[str, ...], known: bool = False) -> list[str]:
        """The published recursion: clean, stop; small, remove; else halve."""
        if not keys or self.tests >= self.most_tests or not (known or await self.test(keys)):
            return []
        if len(keys) <= self.smallest:
            return list(keys)
        half = len(keys) // 2
        return [*await self.find(keys[:half]), *await self.find(keys[half:])]

    async def leave_one_out(self, keys: tuple[str, ...]) -> list[str]:
        """If halves look healthy and the whole does not: the one without which the rest is healthy."""
        for key in keys:
            if self.tests >= self.most_tests:
                break
            if not await self.test(tuple(other for other in keys if other != key)):
                return [key]
        return []


async def bisect(
    keys: Sequence[str], infected: Infected, *, smallest: int = 2, verify: bool = True, most_tests: int = 200
) -> BisectionResult:
    """The ``keys`` to remove. ``smallest``: size at which a set is removed whole (2 as published; 1 spares more).

    With ``verify``, the rest is tested after every removal and searched again while it is infected.
    """
    if smallest < 1:
        raise InputError("smallest", f"is {smallest}", "Give 1 or more")
    left = tuple(dict.fromkeys(keys))
    search, removed, clean = _Halving(infected, smallest, most_tests), [], False
    while not (clean := not await search.test(left)):
        found = await search.find(left, known=True)
        if not found and verify:
            # another split: memories that hid each other in one half may now stand apart
            found = await search.find((*left[0::2], *left[1::2]), known=True) or await search.leave_one_out(left)
        if not found:
            break
        removed += found
        left = tuple(key for key in left if key not in set(found))
        if not verify:
            break
    return BisectionResult(tuple(removed), search.tests, clean)


async def published_search(keys: Sequence[str], infected: Infected, smallest: int = 2) -> tuple[str, ...]:
    """The search as published: down to sets of ``smallest``, without a second look at the rest."""
    return (await bisect(keys, infected, smallest=smallest, verify=False)).removed
