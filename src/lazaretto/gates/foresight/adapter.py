"""Foresight for agents of your own: implement five methods, and ``Guard.before_turn`` rehearses them.

None of the methods may change anything or talk to anybody: they say what the agent *would* do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from lazaretto.agents.album import Album, AlbumItem, note_item, picture_item
from lazaretto.agents.history import History
from lazaretto.agents.model import Utterance, cleaned
from lazaretto.agents.persona import Persona, persona_pool
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState
from lazaretto.gates.foresight.monitor import Diagnosis, MemoryMonitor
from lazaretto.models.protocol import ImageTextEmbedder, TextEmbedder, Vectors

Memory = str | bytes
"""A note, or an encoded picture."""
Exchange = tuple[str, str]
"""What was said to the agent, and what it said."""


@runtime_checkable
class ForesightAgent(Protocol):
    """An agent that can be rehearsed."""

    name: str

    def album(self) -> Mapping[str, Memory]:
        """Everything it may retrieve, by item id, oldest first."""
        ...

    def history(self) -> Sequence[Exchange]:
        """Its recent exchanges, oldest first."""
        ...

    async def plan(self, persona: str, history: Sequence[Exchange]) -> str:
        """What it would look for next, were it this person with this past. One model call."""
        ...

    async def retrieve(self, plan: str, album: Mapping[str, Memory]) -> str:
        """The id that its own retrieval would fetch for the plan from this album. No model call."""
        ...

    async def respond(self, persona: str, history: Sequence[Exchange], memory: Memory, heard: str) -> str:
        """What it would say about the memory: opening a conversation when ``heard`` is empty. One model call."""
        ...


class AdapterBackend:
    """Rehearses users' agents. A method that raises is a fault of that one rehearsal, never of the gate."""

    def __init__(self, agents: Sequence[ForesightAgent], embedder: TextEmbedder) -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._embedder = embedder
        self._calls = 0

    @property
    def calls(self) -> int:
        """Plans and responses asked for."""
        return self._calls

    async def plan(self, actors: Sequence[AgentState]) -> list[Utterance]:
        """Through the agents' own ``plan``."""
        return await self._say([self._agents[a.id].plan(a.persona.text(), _past(a)) for a in actors])

    async def look_up(self, album: Album, plans: Sequence[str]) -> list[str]:
        """Through the retrieval of the first agent: all agents of one backend retrieve alike."""
        held = {album_item.key: memory_of(album_item) for album_item in album}
        agent = next(iter(self._agents.values()))
        found = await asyncio.gather(*(agent.retrieve(p, held) for p in plans), return_exceptions=True) if held else []
        return [key if isinstance(key, str) and key in held else "" for key in found] or [""] * len(plans)

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[AlbumItem]) -> list[Utterance]:
        """An opening about each memory."""
        return await self.answer(actors, shown, [""] * len(actors))

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[AlbumItem], questions: Sequence[str]
    ) -> list[Utterance]:
        """A response to each question."""
        heard = zip(actors, shown, questions, strict=True)
        return await self._say(
            [self._agents[a.id].respond(a.persona.text(), _past(a), memory_of(k), question) for a, k, question in heard]
        )

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """From the embedder."""
        return self._embedder.embed_texts(texts)

    def album_item_vectors(self, album_items: Sequence[AlbumItem]) -> Vectors | None:
        """From the embedder; None for pictures where it knows texts only. A picture it cannot read has no place
        (not-a-number), and the others keep theirs."""
        if all(album_item.is_note for album_item in album_items):
            return self._embedder.embed_texts([album_item.note for album_item in album_items])
        if not isinstance(self._embedder, ImageTextEmbedder):
            return None
        rows = np.full((len(album_items), self._embedder.dimension), np.nan, dtype=np.float32)
        for row, album_item in zip(rows, album_items, strict=True):
            with suppress(Exception):
                row[:] = self._embedder.embed_images([album_item.picture])[0]
        return rows

    async def _say(self, asked: Sequence[Awaitable[str]]) -> list[Utterance]:
        self._calls += len(asked)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [
            Utterance(cleaned(a)) if isinstance(a, str) else Utterance("", f"{type(a).__name__}: {a}") for a in answers
        ]


@dataclass(frozen=True, slots=True)
class AgentFindings:
    """What the diagnosis of one agent found."""

    diagnosis: Diagnosis
    items: tuple[str, ...]
    """Ids of the agent's items that are culprits."""
    unread: tuple[str, ...]
    """Ids of suspicious items that could not be rehearsed."""
    calls: int


class Foresight:
    """The memory monitor of one system of agents, with what it needs to rehearse them."""

    def __init__(self, monitor: MemoryMonitor, embedder: TextEmbedder, seed: int = 0) -> None:
        self.monitor, self.embedder = monitor, embedder
        self._rng = random.Random(f"foresight:{seed}")

    async def diagnose(self, agent: ForesightAgent, without: Sequence[str] = ()) -> AgentFindings:
        """Diagnose one agent as if it had forgotten ``without``."""
        state, items = state_of(agent, without)
        backend = AdapterBackend([agent], self.embedder)
        (diagnosis,) = await self.monitor.diagnose([state], backend, self._rng)
        found, unread = (
            tuple(item for key in keys for item in items[key]) for keys in (diagnosis.culprits, diagnosis.unread)
        )
        return AgentFindings(diagnosis, found, unread, backend.calls)


def state_of(agent: ForesightAgent, without: Sequence[str] = ()) -> tuple[AgentState, dict[str, list[str]]]:
    """The agent as a value, and which item ids stand behind each content. Empty notes are left out."""
    items: dict[str, list[str]] = {}
    kept: list[AlbumItem] = []
    for item, memory in agent.album().items():
        if item in without or not (memory.strip() if isinstance(memory, str) else memory):
            continue
        album_item = note_item(memory) if isinstance(memory, str) else picture_item(memory)
        items.setdefault(album_item.key, []).append(item)
        kept.append(album_item)
    past = tuple(ChatRecord(heard, said) for heard, said in agent.history())
    state = AgentState(agent.name, own_persona(agent.name), Album(max(1, len(kept)), tuple(kept)), History(3, past))
    return state, items


def own_persona(name: str) -> Persona:
    """Any persona: rehearsals put others in its place."""
    return persona_pool(1, seed=sum(name.encode()))[0]


def memory_of(album_item: AlbumItem) -> Memory:
    """What an adapter is shown of a memory."""
    return album_item.note if album_item.is_note else album_item.picture


def _past(actor: AgentState) -> list[Exchange]:
    return [(record.question, record.answer) for record in actor.history]
