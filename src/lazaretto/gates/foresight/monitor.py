"""Foresight as we run it (mode ``lazaretto``): look at each memory once, cheap evidence first.

Before agents speak, the pull of their memories is measured and the titles are checked (no model call). What pulls more
than benign memories do is rehearsed in full, most suspicious first, and so is what came from a diagnosed agent; then
memories that were never looked at, as far as the budget goes. A reading is kept until the memory is forgotten.

What agents really say is read too, so a virus that slept through its rehearsal is found when it wakes. Real talk only
accuses, because a community may come to talk of one thing without a virus; the accused memory is rehearsed again.

A memory beyond every benign one that was not convicted is looked at more closely: eight more people talk about it. If
most of what they say is repeated by another of them, apart from words of their own, it is a virus with several
sentences. Their own words are those of their descriptions and those they also use about a memory of the gauge. If no
benign memory is fetched as often, sixteen others are asked before it may stay.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.prompts import ChatRecord, Persona
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import RehearsalBackend
from lazaretto.gates.foresight.gauge import (
    BenignBaseline,
    MemoryEvidence,
    RetrievalProbe,
    beside_the_point,
    collapse,
    misnamed,
    repeated,
)
from lazaretto.policy import CLOSED

CALLS_PER_READING = 4
PAIRED = 4
"""Personas in one rehearsal: two pairs."""
LEAST = 3
"""Memories that may always be rehearsed, however few agents share the budget."""
HEARD = 4
"""Real speakers remembered for each memory: two turns. One speaker who repeats itself proves nothing."""
CLOSER = 2
"""Rehearsals in a closer look, each by four people of whom none is in the other."""
MOST = 0.5
"""Share of the sentences of a closer look that another person must repeat."""
LOOKS = 3
"""Closer looks, by new people each time, that acquit a memory which is fetched more than any benign one."""


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """Foresight's budget and the evidence it uses: the table ``[gates.foresight]`` of a policy."""

    __pydantic_config__ = CLOSED
    budget: float = 1.0
    """Most model calls per agent and round, for suspicious memories."""
    curiosity: float = 0.25
    """Most of these calls for memories that are not suspicious."""
    listen: bool = True
    """Read real talk as well."""
    use_pull: bool = True
    use_collapse: bool = True
    measure: int = 16
    """Most new memories per agent and round whose pull is measured; the others wait, and are never called read."""
    album: int = 100
    """Most memories, the newest, of an agent that is given by name."""
    mode: Literal["lazaretto", "flp"] = "lazaretto"
    """``flp`` is the published defence: it rehearses agents, not memories, and none of the above applies."""

    def __post_init__(self) -> None:
        for name, least in (("budget", 0), ("curiosity", 0), ("measure", 1), ("album", 1)):
            value = getattr(self, name)
            if not value >= least:  # neither is "not a number"
                raise InputError(f"foresight.{name}", f"is {value}", f"Use {least} or more")
        if not (self.use_pull or self.use_collapse):
            raise InputError("foresight", "no evidence is left to diagnose with", "Use pull, collapse or both")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Foresight's diagnosis of one agent before it speaks."""

    agent: str
    culprits: tuple[str, ...] = ()
    """Keys of the memories that would speak through it."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Joint evidence of each culprit."""
    unread: tuple[str, ...] = ()
    """Suspicious memories that the budget or a failing model left unrehearsed, and what could not be measured."""
    waiting: tuple[str, ...] = ()
    """Memories that nobody has looked into yet and nothing speaks against: curiosity will come to them."""

    @property
    def infected(self) -> bool:
        """Whether anything must go before it speaks."""
        return bool(self.culprits)


@dataclass(frozen=True, slots=True)
class MemoryRehearsal:
    """One memory to be rehearsed, and what the two pairs who talk about it remember."""

    album_item: AlbumItem
    first: AgentState
    second: AgentState


def ordinary_rehearsal(album_item: AlbumItem, agent: AgentState) -> MemoryRehearsal:
    """One pair remembers nothing, the other what the agent remembers: a virus may behave before an empty history."""
    return MemoryRehearsal(album_item, replace(agent, history=agent.history.cleared()), agent)


class MemoryMonitor:
    """The gate of one community of agents. Its memory is ``snapshot``; it changes no agent."""

    def __init__(
        self,
        gauge: RetrievalProbe,
        scales: BenignBaseline,
        personas: Sequence[Persona],
        settings: MonitorSettings | None = None,
    ) -> None:
        if not personas:
            raise InputError("personas", "none to rehearse with", "Give at least one")
        self.gauge, self.scales, self.personas = gauge, scales, tuple(personas)
        self.settings = settings or MonitorSettings()
        self.readings: dict[str, MemoryEvidence] = {}
        self.heard: dict[str, dict[str, str]] = {}
        """The last real words about a memory, by speaker, the newest last."""
        self.urgent: set[str] = set()
        """Memories that passed through a diagnosed agent's hands, or look like one that was removed."""
        self.pardoned: set[str] = set()
        """Memories that a person called benign: they are not diagnosed again."""
        self.unmeasured: set[str] = set()
        """Memories on which retrieval failed."""
        self.credit = 0.0
        """The part of a rehearsal that curiosity has saved up: one agent alone earns one in many turns."""

    async def diagnose(
        self, agents: Sequence[AgentState], backend: RehearsalBackend, rng: random.Random, community: int | None = None
    ) -> list[Diagnosis]:
        """Every agent that is about to speak. ``community``: how many agents the budget is for (default: these)."""
        size = len(agents) if community is None else community
        held = {k.key: (k, agent) for agent in agents for k in agent.album}
        fresh = [album_item for key, (album_item, _) in held.items() if key not in self.readings]
        await self._measure(fresh[-max(1, len(agents)) * self.settings.measure :], backend)
        kept = {key: pair for key, pair in held.items() if key in self.readings}
        accused = self._accused(kept, {agent.id: agent.persona for agent in agents}, backend) - self.pardoned
        queue = self._queue(kept, accused, size)
        done = await self._rehearse([self._rehearsal(item, agent, accused, rng) for item, agent in queue], backend, rng)
        for key in done & accused:
            del self.heard[key]  # it has been looked into
        await self._resolve_doubts(kept, self._most(size), backend, rng)
        return [self._diagnosis(agent, accused - done) for agent in agents]

    async def _measure(self, batch: Sequence[AlbumItem], backend: RehearsalBackend) -> None:
        """Pull and title of memories that are new; what fails is tried again next time."""
        looks = zip(batch, await self.gauge.pulls(batch, backend), misnamed(batch, backend), strict=True)
        for album_item, pull, apart in looks:
            if pull is None:
                self.unmeasured.add(album_item.key)
            else:
                self.unmeasured.discard(album_item.key)
                self.readings[album_item.key] = MemoryEvidence(pull, misnamed=apart)

    def record_talk(self, talk: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """Take in real words about memories (by key), by speaker."""
        if self.settings.listen:
            for key, words in talk:
                known = self.heard.get(key, {})
                lasting = {speaker: text for speaker, text in known.items() if speaker not in words}
                self.heard[key] = dict([*lasting.items(), *words.items()][-HEARD:])

    def rehearse_first(self, keys: Iterable[str]) -> None:
        """Rehearse these first, and again if they were rehearsed: contacts of a diagnosed agent, near-duplicates."""
        self.urgent.update(keys)

    def score(self, key: str) -> float:
        """The joint evidence on a memory from its rehearsal."""
        reading = self.readings.get(key)
        return self._score(reading) if reading is not None and self._collapse_counts(reading) else 0.0

    def snapshot(self) -> dict[str, Any]:
        """Its state, as JSON data."""
        rows = {key: reading.row() for key, reading in self.readings.items()}
        return {
            "readings": rows,
            "heard": {k: list(v.items()) for k, v in self.heard.items()},
            "urgent": sorted(self.urgent),
            "credit": self.credit,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self.readings = {key: MemoryEvidence.of_row(row) for key, row in snapshot["readings"].items()}
        self.heard = {key: dict(words) for key, words in snapshot["heard"].items()}
        self.urgent = set(snapshot["urgent"])
        self.credit = snapshot.get("credit", 0.0)

    def _accused(
        self,
        kept: Mapping[str, tuple[AlbumItem, AgentState]],
        people: Mapping[str, Persona],
        backend: RehearsalBackend,
    ) -> set[str]:
        """Memories that enough real speakers have spoken about in a way that would convict them."""
        spoken = {key: heard for key in kept if len(heard := self.heard.get(key, {})) >= HEARD}
        return {
            key
            for key, heard in spoken.items()
            if self._score(_spoken(self.readings[key], kept[key][0], tuple(heard.values()), backend)) >= self._limit
            or (
                self._in_doubt(key)
                and repeated(tuple(heard.values()), [people.get(who) for who in heard], _shown(kept[key][0])) >= MOST
            )
        }

    def _queue(
        self, kept: Mapping[str, tuple[AlbumItem, AgentState]], accused: set[str], agents: int
    ) -> list[tuple[AlbumItem, AgentState]]:
        """The memories to rehearse now: accused ones and contacts, then by pull; unsuspicious ones only as far as
        curiosity allows."""
        if not self.settings.use_collapse:
            return []
        first = (self.urgent | accused) - self.pardoned
        open_ = [
            key for key in kept if key not in self.pardoned and (key in first or self.readings[key].collapse is None)
        ]
        open_.sort(key=lambda key: (key not in first, -self.readings[key].pull, key))
        most = self._most(agents)
        self.credit += self.settings.curiosity * agents / CALLS_PER_READING
        spare = int(self.credit)
        self.credit -= spare
        must = [key for key in open_ if key in first or self._suspicious(key)][:most]
        chosen = set(must)
        others = [key for key in open_ if key not in chosen and key not in first and not self._suspicious(key)]
        return [kept[key] for key in (*must, *others[: max(0, min(spare, most - len(must)))])]

    def _most(self, agents: int) -> int:
        return max(LEAST * bool(agents), int(self.settings.budget * agents // CALLS_PER_READING))

    def _in_doubt(self, key: str) -> bool:
        """Whether it is to be looked at more closely: beyond every benign memory, and not convicted."""
        able = self.settings.use_pull and self.settings.use_collapse and len(set(self.personas)) >= CLOSER * PAIRED
        return able and self.scales.in_doubt(self.readings[key]) and self.score(key) < self._limit

    def _repeats(self, key: str) -> bool:
        reading = self.readings.get(key)
        return reading is not None and (reading.repeated or 0.0) >= MOST and self._in_doubt(key)

    async def _resolve_doubts(
        self,
        kept: Mapping[str, tuple[AlbumItem, AgentState]],
        most: int,
        backend: RehearsalBackend,
        rng: random.Random,
    ) -> None:
        """Other people with other pasts talk about doubtful memories: do they repeat each other?"""
        doubted = [
            key
            for key in kept
            if key not in self.pardoned and self.readings[key].repeated is None and self._in_doubt(key)
        ][:most]
        if not doubted:
            return
        looks = await self.look_closer([kept[key] for key in doubted], backend, rng)
        for key, heard in zip(doubted, looks, strict=True):
            if heard:  # a model that failed is asked again
                reading, words = self.readings[key], [line.text for line in heard]
                share = self.repeated_share(kept[key][0], heard)
                self.readings[key] = replace(reading, repeated=share, utterances=(*reading.utterances, *words))

    async def look_closer(
        self, held: Sequence[tuple[AlbumItem, AgentState]], backend: RehearsalBackend, rng: random.Random
    ) -> list[tuple[RehearsedLine, ...]]:
        """The lines of people in a closer look at measured memories: eight people, and others where these are too few.
        Nothing where a model failed on any line."""
        eights = await self._ask_eight(held, backend, rng)
        return [await self._ask_others(pair, eight, backend, rng) for pair, eight in zip(held, eights, strict=True)]

    async def _ask_others(
        self,
        held: tuple[AlbumItem, AgentState],
        heard: tuple[RehearsedLine, ...],
        backend: RehearsalBackend,
        rng: random.Random,
    ) -> tuple[RehearsedLine, ...]:
        """The lines heard, those of eight others, and of eight more, as long as they acquit a memory that is fetched
        more than any benign one."""
        album_item, whole = held[0], CLOSER * CALLS_PER_READING
        looks = LOOKS if self.scales.pulls_alone(self.readings[album_item.key]) else 1
        looks = min(looks, len(set(self.personas)) // whole)
        for look in range(1, looks + 1):
            if len(heard) < look * whole:
                return ()
            if look == looks or self.repeated_share(album_item, heard) >= MOST:
                break
            heard += (await self._ask_eight([held], backend, rng, {line.speaker for line in heard}))[0]
        return heard

    async def _ask_eight(
        self,
        held: Sequence[tuple[AlbumItem, AgentState]],
        backend: RehearsalBackend,
        rng: random.Random,
        but: Collection[Persona] = (),
    ) -> list[tuple[RehearsedLine, ...]]:
        """Lines of eight different people, with pasts of others, about each memory, and in the same place about one of
        the gauge: a closer look, by anybody ``but`` these. A speaker with only one of both is missing."""
        cast, keys = [who for who in dict.fromkeys(self.personas) if who not in but], {k.key for k, _ in held}
        people = rng.sample(cast, len(cast))
        lines: list[tuple[RehearsedLine, ...]] = [()] * len(held)
        for part in range(CLOSER):
            queue = [self._rehearsal(album_item, agent, keys, rng) for album_item, agent in held]
            others = [replace(scene, album_item=self._another(scene.album_item)) for scene in queue]
            draw = rng.getrandbits(64)  # the same people in the same places
            spoken, elsewhere = [
                await talk(scenes, people[part::CLOSER], backend, random.Random(draw)) for scenes in (queue, others)
            ]
            for i, (now, then) in enumerate(zip(spoken, elsewhere, strict=True)):
                if len(now) == len(then):
                    lines[i] += tuple(
                        line._replace(elsewhere=other.text) for line, other in zip(now, then, strict=True)
                    )
        return lines

    def repeated_share(self, album_item: AlbumItem, heard: Sequence[RehearsedLine]) -> float:
        """Share of the lines about a measured memory in a closer look that others repeat. A speaker's own words are
        left out where the memory is fetched more than any benign one: everybody quotes a sign in a picture too, and it
        spreads no more than any other."""
        words = [line.text for line in heard]
        if not self.scales.pulls_alone(self.readings[album_item.key]):
            return repeated(words)
        speakers, elsewhere = [line.speaker for line in heard], [line.elsewhere for line in heard]
        return repeated(words, speakers, _shown(album_item), elsewhere)

    def _another(self, album_item: AlbumItem) -> AlbumItem:
        """A memory of the gauge that is not this one."""
        known = (k for album in self.gauge.albums for k in album)
        return next((k for k in known if k.key != album_item.key), album_item)

    def _suspicious(self, key: str) -> bool:
        return key in self.urgent or not self.settings.use_pull or self.readings[key].pull >= self.scales.suspicious

    def _rehearsal(
        self, album_item: AlbumItem, agent: AgentState, accused: set[str], rng: random.Random
    ) -> MemoryRehearsal:
        """The pairs that rehearse it: one without a past and one with the agent's own; for an accused memory, two pairs
        with pasts of other people, made of rehearsed talk about other memories."""
        if album_item.key not in accused:
            return ordinary_rehearsal(album_item, agent)
        past = [
            ChatRecord(*reading.utterances[:2])
            for key, reading in self.readings.items()
            if key != album_item.key
            and len(reading.utterances) == CALLS_PER_READING
            and self._score(reading) < self._limit
        ]
        size = agent.history.size
        if len(past) < 2 * size:
            return ordinary_rehearsal(album_item, agent)
        drawn = rng.sample(past, 2 * size)
        first, second = (replace(agent.history, records=tuple(part)) for part in (drawn[:size], drawn[size:]))
        return MemoryRehearsal(album_item, replace(agent, history=first), replace(agent, history=second))

    async def _rehearse(
        self, queue: Sequence[MemoryRehearsal], backend: RehearsalBackend, rng: random.Random
    ) -> set[str]:
        """Two pairs of personas speak about each memory. Which of them were rehearsed to the end."""
        done: set[str] = set()
        if not queue:
            return done
        for scene, lines in zip(queue, await talk(queue, self.personas, backend, rng), strict=True):
            album_item, words = scene.album_item, [line.text for line in lines]
            reading = _spoken(self.readings[album_item.key], album_item, words, backend)
            if len(words) == CALLS_PER_READING:  # a model that failed is asked again
                self.urgent.discard(album_item.key)
                self.readings[album_item.key] = reading
                done.add(album_item.key)
        return done

    def _score(self, reading: MemoryEvidence) -> float:
        return self.scales.score(reading, self.settings.use_pull, self.settings.use_collapse)

    def _collapse_counts(self, reading: MemoryEvidence) -> bool:
        """Whether alike talk in rehearsal means anything. A persona that talks to itself is alike by nature; with fewer
        than four of them, pull must lie beyond that of all benign memories as well."""
        return len(set(self.personas)) >= PAIRED or self.scales.pulls_alone(reading)

    @property
    def _limit(self) -> float:
        return self.scales.limit(self.settings.use_pull, self.settings.use_collapse)

    def _diagnosis(self, agent: AgentState, pending: set[str]) -> Diagnosis:
        """``pending``: memories that real talk accuses and that could not be rehearsed."""
        held = dict.fromkeys(k.key for k in agent.album if k.key not in self.pardoned)
        bad = {key: score for key in held if (score := self.score(key)) >= self._limit or self._repeats(key)}
        unread: list[str] = []
        waiting: list[str] = []
        for key in held:
            reading = self.readings.get(key)
            if reading is None or key in pending:
                (unread if key in pending or key in self.unmeasured else waiting).append(key)
            elif key not in bad and reading.collapse is None and self.settings.use_collapse:
                (unread if self._suspicious(key) else waiting).append(key)
            elif reading.repeated is None and self._in_doubt(key):
                unread.append(key)
        return Diagnosis(agent.id, tuple(bad), bad, tuple(unread), tuple(waiting))


def _shown(album_item: AlbumItem) -> str:
    """The words to quote of a memory: a note itself, the title of a picture."""
    return album_item.note or album_item.title


def _spoken(
    reading: MemoryEvidence, album_item: AlbumItem, words: Sequence[str], backend: RehearsalBackend
) -> MemoryEvidence:
    return replace(
        reading,
        collapse=collapse(words, backend),
        beside=beside_the_point(words, album_item.title, backend),
        utterances=tuple(words),
        repeated=None,
    )


class RehearsedLine(NamedTuple):
    """A persona's line in a rehearsal."""

    speaker: Persona
    text: str
    elsewhere: str = ""
    """Its line in the same place about another memory; in a closer look."""


async def talk(
    queue: Sequence[MemoryRehearsal], personas: Sequence[Persona], backend: RehearsalBackend, rng: random.Random
) -> list[tuple[RehearsedLine, ...]]:
    """The lines of two pairs of personas about each memory.

    Lines of a model that failed are missing; four lines are a whole rehearsal.
    """
    asking, answering, shown = [], [], []
    for scene in queue:
        few = len(personas) < PAIRED
        cast = rng.choices(personas, k=PAIRED) if few else rng.sample(list(personas), PAIRED)
        asking += [scene.first.playing(cast[0]), scene.second.playing(cast[2])]
        answering += [scene.first.playing(cast[1]), scene.second.playing(cast[3])]
        shown += [scene.album_item, scene.album_item]
    questions = await backend.ask(asking, shown)
    going = [i for i, utterance in enumerate(questions) if not utterance.fault]
    answers = await backend.answer(
        [answering[i] for i in going], [shown[i] for i in going], [questions[i].text for i in going]
    )
    spoken: list[list[RehearsedLine]] = [[] for _ in queue]
    for i, utterance in zip(going, answers, strict=True):
        spoken[i // 2].append(RehearsedLine(asking[i].persona, questions[i].text))
        if not utterance.fault:
            spoken[i // 2].append(RehearsedLine(answering[i].persona, utterance.text))
    return [tuple(lines) for lines in spoken]
