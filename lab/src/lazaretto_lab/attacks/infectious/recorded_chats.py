"""Recorded chats: the situations an attack is trained on, and others it is judged on.

As published, an attacker plays the world for itself and writes down what agents plan and remember. Training and
validation chats come from different personas, pictures and seeds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import ChatRecord, Persona, persona_pool
from lazaretto.agents.turn import AgentState, History, play, remember
from lazaretto.errors import InputError

TRAIN_PERSONAS, VALIDATION_PERSONAS = 101, 202
"""Seeds of the persona pools; worlds draw from others."""


@dataclass(frozen=True, slots=True)
class Chat:
    """One turn of a benign world, with what both sides brought to it."""

    questioner: Persona
    questioner_history: tuple[ChatRecord, ...]
    plan: str
    album: tuple[AlbumItem, ...]
    """The questioner's album at that moment."""
    answerer: Persona
    answerer_history: tuple[ChatRecord, ...]

    def infected(self, target: str, records: int) -> Chat:
        """The same situation after the target was said in the last ``records`` chats of both."""
        said = (ChatRecord(target, target),) * records

        def after(history: tuple[ChatRecord, ...]) -> tuple[ChatRecord, ...]:
            return (*history, *said)[-3:]

        return replace(
            self,
            questioner_history=after(self.questioner_history),
            answerer_history=after(self.answerer_history),
        )


def record_chats(
    agent_model: AgentModel,
    pool: Sequence[AlbumItem],
    count: int,
    seed: int,
    personas: int = TRAIN_PERSONAS,
    album: int = 10,
) -> tuple[Chat, ...]:
    """Play a benign world until ``count`` turns are written down; histories of every length come up."""
    if len(pool) < album:
        raise InputError("pool", f"{len(pool)} pictures", f"An album takes {album}")
    rng = random.Random(f"recorded chats:{seed}")
    people = persona_pool(max(16, min(count, 128)), personas)
    agents = [
        AgentState(str(i), person, Album(album, tuple(rng.sample(list(pool), album))), History())
        for i, person in enumerate(people)
    ]
    chats: list[Chat] = []
    while len(chats) < count:
        order = rng.sample(range(len(agents)), len(agents) // 2 * 2)
        pairs = list(zip(order[::2], order[1::2], strict=True))[: count - len(chats)]
        turns = asyncio.run(play([(agents[q], agents[a]) for q, a in pairs], agent_model))
        for (q, a), turn in zip(pairs, turns, strict=True):
            asking, answering = agents[q], agents[a]
            if not turn.void:
                chats.append(_written(asking, answering, turn.retrieval.plan))
            agents[q], agents[a] = remember(asking, answering, turn)
        if all(turn.void for turn in turns):
            raise InputError("chats", f"the model cannot play: {turns[0].fault}", "Check the model")
    return tuple(chats)


def _written(asking: AgentState, answering: AgentState, plan: str) -> Chat:
    return Chat(
        questioner=asking.persona,
        questioner_history=asking.history.records,
        plan=plan,
        album=asking.album.items,
        answerer=answering.persona,
        answerer_history=answering.history.records,
    )
