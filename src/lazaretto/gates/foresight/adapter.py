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

from lazaretto.agents.album import Album, Keepsake, note_keepsake, picture_keepsake
from lazaretto.agents.history import History
from lazaretto.agents.model import Said, cleaned
from lazaretto.agents.persona import Persona, persona_pool
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState
from lazaretto.gates.foresight.monitor import Diagnosis, Watch
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


class AdapterStage:
    """The stage of users' agents. A method that raises is a fault of that one rehearsal, never of the gate."""

    def __init__(self, agents: Sequence[ForesightAgent], embedder: TextEmbedder) -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._embedder = embedder
        self._calls = 0

    @property
    def calls(self) -> int:
        """Plans and responses asked for."""
        return self._calls

    async def plan(self, actors: Sequence[AgentState]) -> list[Said]:
        """Through the agents' own ``plan``."""
        return await self._say([self._agents[a.id].plan(a.persona.text(), _past(a)) for a in actors])

    async def look_up(self, album: Album, plans: Sequence[str]) -> list[str]:
        """Through the retrieval of the first agent: all agents of a stage retrieve alike."""
        held = {keepsake.key: content(keepsake) for keepsake in album}
        agent = next(iter(self._agents.values()))
        found = await asyncio.gather(*(agent.retrieve(p, held) for p in plans), return_exceptions=True) if held else []
        return [key if isinstance(key, str) and key in held else "" for key in found] or [""] * len(plans)

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[Keepsake]) -> list[Said]:
        """An opening about each memory."""
        return await self.answer(actors, shown, [""] * len(actors))

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[Keepsake], questions: Sequence[str]
    ) -> list[Said]:
        """A response to each question."""
        heard = zip(actors, shown, questions, strict=True)
        return await self._say(
            [self._agents[a.id].respond(a.persona.text(), _past(a), content(k), question) for a, k, question in heard]
        )

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """From the embedder."""
        return self._embedder.embed_texts(texts)

    def keepsake_vectors(self, keepsakes: Sequence[Keepsake]) -> Vectors | None:
        """From the embedder; None for pictures where it knows texts only. A picture it cannot read has no place
        (not-a-number), and the others keep theirs."""
        if all(keepsake.is_note for keepsake in keepsakes):
            return self._embedder.embed_texts([keepsake.note for keepsake in keepsakes])
        if not isinstance(self._embedder, ImageTextEmbedder):
            return None
        rows = np.full((len(keepsakes), self._embedder.dimension), np.nan, dtype=np.float32)
        for row, keepsake in zip(rows, keepsakes, strict=True):
            with suppress(Exception):
                row[:] = self._embedder.embed_images([keepsake.picture])[0]
        return rows

    async def _say(self, asked: Sequence[Awaitable[str]]) -> list[Said]:
        self._calls += len(asked)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [Said(cleaned(a)) if isinstance(a, str) else Said("", f"{type(a).__name__}: {a}") for a in answers]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a look at one agent found."""

    diagnosis: Diagnosis
    items: tuple[str, ...]
    """Ids of the agent's items that are culprits."""
    unread: tuple[str, ...]
    """Ids of suspicious items that could not be rehearsed."""
    calls: int


class Foresight:
    """A watch over the agents of one system, with what it needs to rehearse them."""

    def __init__(self, watch: Watch, embedder: TextEmbedder, seed: int = 0) -> None:
        self.watch, self.embedder = watch, embedder
        self._rng = random.Random(f"foresight:{seed}")

    async def look(self, agent: ForesightAgent, without: Sequence[str] = ()) -> Foreseen:
        """Diagnose one agent as if it had forgotten ``without``."""
        state, items = state_of(agent, without)
        stage = AdapterStage([agent], self.embedder)
        (diagnosis,) = await self.watch.diagnose([state], stage, self._rng)
        found, unread = (
            tuple(item for key in keys for item in items[key]) for keys in (diagnosis.culprits, diagnosis.unread)
        )
        return Foreseen(diagnosis, found, unread, stage.calls)


def state_of(agent: ForesightAgent, without: Sequence[str] = ()) -> tuple[AgentState, dict[str, list[str]]]:
    """The agent as a value, and which item ids stand behind each content. Empty notes are left out."""
    items: dict[str, list[str]] = {}
    kept: list[Keepsake] = []
    for item, memory in agent.album().items():
        if item in without or not (memory.strip() if isinstance(memory, str) else memory):
            continue
        keepsake = note_keepsake(memory) if isinstance(memory, str) else picture_keepsake(memory)
        items.setdefault(keepsake.key, []).append(item)
        kept.append(keepsake)
    past = tuple(ChatRecord(heard, said) for heard, said in agent.history())
    state = AgentState(agent.name, own_persona(agent.name), Album(max(1, len(kept)), tuple(kept)), History(3, past))
    return state, items


def own_persona(name: str) -> Persona:
    """Any persona: rehearsals put others in its place."""
    return persona_pool(1, seed=sum(name.encode()))[0]


def content(keepsake: Keepsake) -> Memory:
    """What an adapter is shown of a memory."""
    return keepsake.note if keepsake.is_note else keepsake.picture


def _past(actor: AgentState) -> list[Exchange]:
    return [(record.question, record.answer) for record in actor.history]
