"""Foresight over a community (mode ``lazaretto``): which agents must forget which memories before an agent speaks.

Agents that are about to speak are diagnosed. A memory that is found leaves every album at once, with the chats in which
it spoke; look-alikes, and memories of its holders' last partners, are read first from then on. Used by
``guard.foresight.before_turn`` and by the laboratory's defence.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.turn import AgentState, purge, sweep
from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.gates.foresight.adapter import RehearsalBackend
from lazaretto.gates.foresight.monitor import Diagnosis, MemoryMonitor
from lazaretto.kept_texts import KeptTexts
from lazaretto.pictures import opened
from lazaretto.pictures.hashing import PerceptualHash

LAPS = 4
"""How often a purified community is diagnosed again before it speaks."""
REMOVED_KEPT = 256
"""Removed memories that new ones are still compared with."""

Streams = Callable[[str], random.Random]
"""Chance by the name of what it is for, so that the same round draws the same."""
Talk = tuple[str, Mapping[str, str]]
"""A memory's key, and the real words about it by speaker."""
AgentPair = tuple[str, str]
"""Two agents that spoke to each other."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The changes that must happen before an agent speaks."""

    changed: Mapping[str, AgentState] = field(default_factory=dict)
    """By agent: its state from now on."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason by changed agent: ``foresight`` or ``sweep``, ``rollback`` or ``bisect``, ``history``."""
    everywhere: tuple[AlbumItem, ...] = ()
    """Memories that must leave every album, also of agents that were not looked at."""
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of suspicious memories that could not be rehearsed, by speaking agent."""
    waiting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of memories that were not looked into yet, by speaking agent."""


class Mode(Protocol):
    """One way to foresee: ``MonitorMode`` or ``FlpMode``."""

    async def before_turns(
        self, agents: Sequence[AgentState], speaking: Sequence[str], backend: RehearsalBackend, streams: Streams
    ) -> Cleaning:
        """Look at those about to speak; ``agents`` is everybody within reach."""
        ...

    def listen(self, talk: Iterable[Talk], meetings: Iterable[AgentPair]) -> None:
        """Take in the talk and the meetings since the last call."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Its state, as JSON data."""
        ...

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Know again what a snapshot says; ``album_items`` holds contents by key."""
        ...

    def anew(self) -> Mode:
        """The same mode as it began: it knows no contents."""
        ...


class MonitorMode:
    """Foresight as we run it."""

    def __init__(self, monitor: MemoryMonitor) -> None:
        self.monitor = monitor
        self.partners: dict[str, str] = {}
        """The last partner of each agent."""
        self.removed: dict[str, AlbumItem] = {}
        """Removed memories: new memories that look like them are read first."""
        self.awaited: set[str] = set()
        """Contacts of a diagnosed agent that were out of reach: their memories are read first when they come."""
        self._sentences: list[frozenset[str]] = []
        self._reminded: dict[str, int] = {}

    async def before_turns(
        self, agents: Sequence[AgentState], speaking: Sequence[str], backend: RehearsalBackend, streams: Streams
    ) -> Cleaning:
        """Diagnose the speaking, purify, sweep, and diagnose again until nothing is found."""
        now, rng = {agent.id: agent for agent in agents}, streams("lazaretto")
        reasons: dict[str, str] = {}
        self._remind(now, reasons)
        self._read_first([now[name] for name in speaking])
        gone: dict[str, AlbumItem] = {}
        diagnoses: list[Diagnosis] = []
        for lap in range(LAPS):
            diagnoses = await self.monitor.diagnose(
                [now[name] for name in speaking], backend, rng, 0 if lap else len(agents)
            )  # fmt: skip
            sick = [diagnosis for diagnosis in diagnoses if diagnosis.infected]
            if not sick:
                break
            found, cleaned = self._purify(sick, now)
            gone |= found
            for changed in cleaned:
                now[changed.id] = changed
                reasons[changed.id] = "foresight" if changed.id in {d.agent for d in sick} else "sweep"
        return Cleaning(
            {name: now[name] for name in reasons},
            reasons,
            tuple(gone.values()),
            {d.agent: d.unread for d in diagnoses if d.unread},
            {d.agent: d.waiting for d in diagnoses if d.waiting},
        )

    def listen(self, talk: Iterable[Talk], meetings: Iterable[AgentPair]) -> None:
        """Real talk accuses; the last partner of a diagnosed agent is its contact."""
        self.monitor.record_talk(talk)
        for first, second in meetings:
            self.partners |= {first: second, second: first}

    def remember_removed(self, album_item: AlbumItem, sentences: Iterable[str]) -> None:
        """Keep a removed memory and its sentences, for agents and memories that come later."""
        self.removed.pop(album_item.key, None)
        self.removed[album_item.key] = album_item
        while len(self.removed) > REMOVED_KEPT:
            del self.removed[next(iter(self.removed))]
        self._sentences.append(frozenset(sentences))

    def snapshot(self) -> Mapping[str, Any]:
        """Readings and contacts."""
        return {
            "watch": self.monitor.snapshot(), "partners": self.partners, "removed": list(self.removed),
            "awaited": sorted(self.awaited), "sentences": [sorted(spoken) for spoken in self._sentences],
            "told": self._reminded,
        }  # fmt: skip

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with them."""
        self.monitor.restore(snapshot["watch"])
        self.partners = dict(snapshot["partners"])
        self.removed = {key: album_items[key] for key in snapshot.get("removed", ()) if key in album_items}
        self.awaited = set(snapshot.get("awaited", ()))
        self._sentences = [frozenset(spoken) for spoken in snapshot.get("sentences", ())]
        self._reminded = dict(snapshot.get("told", {}))

    def anew(self) -> MonitorMode:
        """The same mode as it began."""
        monitor = self.monitor
        return MonitorMode(MemoryMonitor(monitor.gauge, monitor.scales, monitor.personas, monitor.settings))

    def _remind(self, now: dict[str, AgentState], reasons: dict[str, str]) -> None:
        """Agents that were out of reach when something was removed forget, once, the chats in which it spoke."""
        for name, agent in list(now.items()):
            missed = self._sentences[self._reminded.get(name, 0) :]
            self._reminded[name] = len(self._sentences)
            after = purge(agent, (), frozenset().union(*missed)) if missed else agent
            if after != agent:
                now[name], reasons[name] = after, "history"

    def _read_first(self, speaking: Sequence[AgentState]) -> None:
        """Read first: new memories that look like a removed one, and unread ones of awaited contacts."""
        readings = self.monitor.readings
        for agent in speaking:
            unread = [k for k in agent.album if k.key not in readings or readings[k.key].collapse is None]
            alike = [
                k.key
                for k in unread
                if k.key not in readings and any(near_duplicate(k, gone) for gone in self.removed.values())
            ]
            self.monitor.rehearse_first([k.key for k in unread] if agent.id in self.awaited else alike)
            self.awaited.discard(agent.id)

    def _purify(
        self, sick: Sequence[Diagnosis], agents: Mapping[str, AgentState]
    ) -> tuple[dict[str, AlbumItem], tuple[AgentState, ...]]:
        keys = {key for diagnosis in sick for key in diagnosis.culprits}
        gone = {k.key: k for d in sick for k in agents[d.agent].album if k.key in keys}
        sentences: list[str] = []
        for key, album_item in gone.items():
            spoken = (*self.monitor.readings[key].utterances, *self.monitor.heard.get(key, {}).values())
            self.remember_removed(album_item, spoken)
            sentences += spoken
        self._reminded |= dict.fromkeys(agents, len(self._sentences))
        swept = sweep(tuple(agents.values()), gone.values(), near_duplicate, sentences)
        self.monitor.rehearse_first(swept.lookalikes)
        contacts = {self.partners.get(name, "") for name in (*swept.contacts, *(d.agent for d in sick))} - {""}
        met = [k.key for name in contacts if name in agents for k in agents[name].album]
        self.monitor.rehearse_first(key for key in met if key not in keys and self._unread(key))
        self.awaited |= contacts - agents.keys()
        return gone, swept.cleaned

    def _unread(self, key: str) -> bool:
        reading = self.monitor.readings.get(key)
        return reading is not None and reading.collapse is None


# Memories that look like a removed one: they are read first, and not removed for their looks.

NEAR_BITS, NEAR_COLOURS = 6, 32
"""Most difference between near-duplicate pictures."""


def near_duplicate(first: AlbumItem, second: AlbumItem) -> bool:
    """Pictures that look the same from afar; notes with nearly the same words."""
    if first.is_note != second.is_note:
        return False
    if first.is_note:
        mine, theirs = set(first.note.lower().split()), set(second.note.lower().split())
        return 2 * len(mine & theirs) >= len(mine | theirs)
    try:
        first_look, second_look = _look(first.picture), _look(second.picture)
    except PictureWorkerFailed:
        return False
    if first_look is None or second_look is None:
        return False
    return first_look.distance(second_look) <= NEAR_BITS and first_look.colour_gap(second_look) <= NEAR_COLOURS


_LOOKS: KeptTexts[tuple[PerceptualHash | None]] = KeptTexts(1 << 20, lambda _: 300)


def _look(picture: bytes) -> PerceptualHash | None:
    key = hashlib.sha256(picture).digest()
    known = _LOOKS.get(key)
    if known is None:
        try:
            known = (PerceptualHash.of(opened(picture)),)
        except UnreadablePicture:
            known = (None,)
        _LOOKS.put(key, known)
    return known[0]
