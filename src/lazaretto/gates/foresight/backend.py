"""The backend of a rehearsal: the few things it asks of agents. It changes nothing.

Agents of the album-chat world rehearse on an ``AgentModelBackend`` (the functions of its turn, in batches), agents of a
real system through ``adapter.AdapterBackend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.model import AgentModel, Utterance
from lazaretto.agents.turn import AgentState, answer, ask, plan
from lazaretto.models.protocol import Vectors


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
