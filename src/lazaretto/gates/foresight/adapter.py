"""Foresight for agents of your own: implement five methods, or take ``ChatAgent``, and the guard rehearses them.

None of the methods may change anything or talk to anybody: they say what the agent *would* do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

import numpy as np

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.chat_agent import ChatAgent, Exchange, Memory, as_album_item, own_persona
from lazaretto.agents.model import AgentModel, Utterance, cleaned
from lazaretto.agents.prompts import HISTORY, ChatRecord
from lazaretto.agents.turn import AgentState, History, answer, ask, plan
from lazaretto.errors import InputError
from lazaretto.models.protocol import ImageTextEmbedder, TextEmbedder, Vectors

__all__ = [
    "AdapterBackend",
    "BatchRetriever",
    "Exchange",
    "ForesightAgent",
    "Memory",
    "backend_for",
    "memory_of",
    "state_of",
]

# The backend of a rehearsal: the few things it asks of agents. It changes nothing.
#
# Agents of the album-chat world rehearse on an ``AgentModelBackend`` (the functions of its turn, in batches), agents of
# a real system through ``adapter.AdapterBackend``.


@runtime_checkable
class RehearsalBackend(Protocol):
    """The model calls of a rehearsal. A failed completion is an ``Utterance`` with a fault; nothing here raises."""

    @property
    def calls(self) -> int:
        """Model calls made so far."""
        ...

    async def plan(self, actors: Sequence[AgentState]) -> list[Utterance]:
        """The plan of each agent: what it wants to talk about."""
        ...

    async def look_up(self, album: Album, plans: Sequence[str]) -> Sequence[str | None]:
        """The key of what each plan fetches from the album, without a model call; "" where it fetches nothing, None
        where retrieval failed."""
        ...

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[AlbumItem]) -> list[Utterance]:
        """The question of each agent about the memory it was shown."""
        ...

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[AlbumItem], questions: Sequence[str]
    ) -> list[Utterance]:
        """The answer of each agent."""
        ...

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        ...

    def album_item_vectors(self, album_items: Sequence[AlbumItem]) -> Vectors | None:
        """One unit row per memory, all notes or all pictures, in the space of the texts; None where they have no place
        there."""
        ...


class AgentModelBackend:
    """Rehearses agents that think with an ``AgentModel``."""

    def __init__(self, agent_model: AgentModel) -> None:
        self.agent_model = agent_model

    @property
    def calls(self) -> int:
        """Completions the agent model was asked for, by anybody."""
        return self.agent_model.spent.calls

    async def plan(self, actors: Sequence[AgentState]) -> list[Utterance]:
        """One completion each, from persona, history and titles.

        Plans are looked up next, album by album: embedded here in one batch, they are found kept there.
        """
        plans = await plan(actors, self.agent_model)
        self.agent_model.text_vectors([utterance.text for utterance in plans if utterance.text])
        return plans

    async def look_up(self, album: Album, plans: Sequence[str]) -> list[str]:
        """Nearest by cosine; the oldest wins a tie, as in the turn itself."""
        if not len(album) or not plans:
            return [""] * len(plans)
        kept = album.items
        scores = self.agent_model.album_item_vectors(kept) @ self.agent_model.text_vectors(plans).T
        return [kept[int(slot)].key for slot in np.argmax(scores, axis=0)]

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[AlbumItem]) -> list[Utterance]:
        """One completion each."""
        return await ask(actors, shown, self.agent_model)

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[AlbumItem], questions: Sequence[str]
    ) -> list[Utterance]:
        """One completion each."""
        return await answer(actors, shown, questions, self.agent_model)

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts, from the agent model's embedder."""
        return self.agent_model.text_vectors(texts)

    def album_item_vectors(self, album_items: Sequence[AlbumItem]) -> Vectors | None:
        """Vectors of memories, from the agent model's embedder."""
        return self.agent_model.album_item_vectors(album_items)


# An agent of the caller's own, and the backend that asks it.

RETRIEVALS = 16
"""Single retrievals that are under way at once; an agent with ``retrieve_all`` is asked once per album instead."""


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
        """The plan it would make next as this persona with this history. One model call."""
        ...

    async def retrieve(self, plan: str, album: Mapping[str, Memory]) -> str:
        """The id that its own retrieval would fetch for the plan from this album; "" for none. No model call."""
        ...

    async def respond(self, persona: str, history: Sequence[Exchange], memory: Memory, heard: str) -> str:
        """Its possible words about the memory: the first of a conversation when ``heard`` is empty. One model call."""
        ...


@runtime_checkable
class BatchRetriever(Protocol):
    """An agent that looks many plans up at once: a new memory then costs two calls of it instead of 128."""

    async def retrieve_all(self, plans: Sequence[str], album: Mapping[str, Memory]) -> Sequence[str]:
        """The result of ``retrieve`` for each of the plans."""
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

    async def look_up(self, album: Album, plans: Sequence[str]) -> Sequence[str | None]:
        """Through the retrieval of the first agent: all agents of one backend retrieve alike."""
        held: dict[str, Memory] = {album_item.key: memory_of(album_item) for album_item in album}
        if not held or not plans:
            return [""] * len(plans)
        agent = next(iter(self._agents.values()))
        wanted = list(dict.fromkeys(plans))
        if isinstance(agent, BatchRetriever):
            try:
                keys: Sequence[object] = list(await agent.retrieve_all(wanted, held))
            except Exception:
                keys = []
        else:
            turn = asyncio.Semaphore(RETRIEVALS)

            async def retrieved(plan: str) -> str:
                async with turn:
                    return await agent.retrieve(plan, held)

            keys = await asyncio.gather(*(retrieved(plan) for plan in wanted), return_exceptions=True)
        if len(keys) != len(wanted):
            return [None] * len(plans)
        found = dict(zip(wanted, keys, strict=True))
        return [_fetched(found[plan], held) for plan in plans]

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
        """Vectors of texts, from the embedder."""
        return self._embedder.embed_texts(texts)

    def album_item_vectors(self, album_items: Sequence[AlbumItem]) -> Vectors | None:
        """Vectors of memories, from the embedder; None for pictures where it knows texts only. A picture it cannot read
        has no place (not-a-number), and the others keep theirs."""
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


def backend_for(agents: Sequence[ForesightAgent], embedder: TextEmbedder) -> RehearsalBackend:
    """The backend that rehearses these agents: in batches where they all think with one ``AgentModel``."""
    models = {id(agent.model): agent.model for agent in agents if isinstance(agent, ChatAgent)}
    if len(models) == 1 and all(isinstance(agent, ChatAgent) for agent in agents):
        return AgentModelBackend(next(iter(models.values())))
    return AdapterBackend(agents, embedder)


def state_of(
    agent: ForesightAgent, titles: Mapping[str, str] | None = None, album: Mapping[str, Memory] | None = None
) -> tuple[AgentState, dict[str, list[str]]]:
    """The agent as a value, and which item ids stand behind each content, oldest first. Empty memories are left out.

    ``titles`` are for items that bring none; ``album`` is its album, where the caller has it already.
    """
    items: dict[str, list[str]] = {}
    kept: list[AlbumItem] = []
    for item, memory in (agent.album() if album is None else album).items():
        if not isinstance(memory, (str, bytes, AlbumItem)):
            problem = f"{item} of {agent.name} is {type(memory).__name__}"
            raise InputError("album", problem, "Give text, the bytes of a picture, or an AlbumItem")
        if isinstance(memory, AlbumItem) or (memory.strip() if isinstance(memory, str) else memory):
            album_item = as_album_item(memory, (titles or {}).get(item, ""))
            items.setdefault(album_item.key, []).append(item)
            kept.append(album_item)
    past = tuple(ChatRecord(heard, reply) for heard, reply in agent.history())
    persona = agent.persona if isinstance(agent, ChatAgent) else own_persona(agent.name)
    history = History(agent.remembers if isinstance(agent, ChatAgent) else HISTORY, past)
    return AgentState(agent.name, persona, Album(max(1, len(kept)), tuple(kept)), history), items


def memory_of(album_item: AlbumItem) -> str | bytes:
    """The form of a memory for an adapter: the note or the picture."""
    return album_item.note if album_item.is_note else album_item.picture


def _past(actor: AgentState) -> list[Exchange]:
    return [(record.question, record.answer) for record in actor.history]


def _fetched(key: object, held: Mapping[str, Memory]) -> str | None:
    """The result of retrieval: a key, "" for nothing, None for an invalid answer."""
    if isinstance(key, str) and (key in held or not key):
        return key
    return None
