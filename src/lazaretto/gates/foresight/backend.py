"""Where a rehearsal is played: the few things it asks of agents, whoever they are.

The album-chat world plays on a ``MindStage`` (the very functions of its turn, in batches); agents of a real system play
through an adapter (``adapter.AdapterStage``). Neither changes anything: states are values, and what is said stays here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from lazaretto.agents.album import Album, Keepsake
from lazaretto.agents.model import Mind, Said
from lazaretto.agents.turn import AgentState, answer, ask, plan
from lazaretto.models.protocol import Vectors


@runtime_checkable
class Stage(Protocol):
    """What a rehearsal needs. A failed completion is a ``Said`` with a fault; nothing here raises for one."""

    @property
    def calls(self) -> int:
        """Model calls made on this stage so far."""
        ...

    async def plan(self, actors: Sequence[AgentState]) -> list[Said]:
        """What each wants to talk about."""
        ...

    async def look_up(self, album: Album, plans: Sequence[str]) -> list[str]:
        """The key of what each plan fetches from the album, without a model call; "" from an empty one."""
        ...

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[Keepsake]) -> list[Said]:
        """What each asks about what it was shown."""
        ...

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[Keepsake], questions: Sequence[str]
    ) -> list[Said]:
        """What each answers."""
        ...

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        ...

    def keepsake_vectors(self, keepsakes: Sequence[Keepsake]) -> Vectors | None:
        """One unit row per memory, all notes or all pictures, in the space of the texts; None where they have no place
        there."""
        ...


class MindStage:
    """The stage of agents that think with a ``Mind``."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind

    @property
    def calls(self) -> int:
        """Completions the mind was asked for, by anybody."""
        return self.mind.spent.calls

    async def plan(self, actors: Sequence[AgentState]) -> list[Said]:
        """One completion each, from persona, history and titles.

        Plans are looked up next, album by album: embedded here in one batch, they are found kept there.
        """
        plans = await plan(actors, self.mind)
        self.mind.text_vectors([said.text for said in plans if said.text])
        return plans

    async def look_up(self, album: Album, plans: Sequence[str]) -> list[str]:
        """Nearest by cosine; the oldest wins a tie, as in the turn itself."""
        if not len(album) or not plans:
            return [""] * len(plans)
        kept = album.keepsakes
        scores = self.mind.keepsake_vectors(kept) @ self.mind.text_vectors(plans).T
        return [kept[int(slot)].key for slot in np.argmax(scores, axis=0)]

    async def ask(self, actors: Sequence[AgentState], shown: Sequence[Keepsake]) -> list[Said]:
        """One completion each."""
        return await ask(actors, shown, self.mind)

    async def answer(
        self, actors: Sequence[AgentState], shown: Sequence[Keepsake], questions: Sequence[str]
    ) -> list[Said]:
        """One completion each."""
        return await answer(actors, shown, questions, self.mind)

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """From the mind's embedder."""
        return self.mind.text_vectors(texts)

    def keepsake_vectors(self, keepsakes: Sequence[Keepsake]) -> Vectors | None:
        """From the mind's embedder."""
        return self.mind.keepsake_vectors(keepsakes)
