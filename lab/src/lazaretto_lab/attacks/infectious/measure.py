"""How infectious a saved picture is, measured as a world would meet it: real prompts, real decoding, real retrieval."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import ChatRecord, Persona
from lazaretto.agents.turn import AgentState, History, answer, ask, plan_and_retrieve
from lazaretto_lab.attacks.infectious.recorded_chats import Chat


@dataclass(frozen=True, slots=True)
class Infectiousness:
    """Alpha and beta of one virus on chats it was not trained on."""

    alpha: float
    """P(question and answer are both exactly the target | virus retrieved)."""
    alpha_question: float
    alpha_answer: float
    """P(answer is the target | question is the target)."""
    beta: float
    """P(virus retrieved | carried among ten)."""
    chats: int


def measure(
    agent_model: AgentModel,
    virus: AlbumItem,
    target: str,
    chats: Sequence[Chat],
    infected: bool = False,
    newest: bool = True,
) -> Infectiousness:
    """Alpha and beta on ``chats``; with ``infected``, after the target was already said in up to three past chats.

    ``newest``: the virus has just come in; otherwise it stands in each place of an album in turn.
    """
    if infected:
        chats = [chat.infected(target, 1 + index % 3) for index, chat in enumerate(chats)]
    beta = fetched_share(agent_model, virus, chats, newest)
    asked, answered = _spoken(agent_model, [virus] * len(chats), target, chats)
    n = len(chats)
    both = [q and a for q, a in zip(asked, answered, strict=True)]
    return Infectiousness(sum(both) / n, sum(asked) / n, sum(answered) / n, beta, n)


def fetched_share(agent_model: AgentModel, virus: AlbumItem, chats: Sequence[Chat], newest: bool = True) -> float:
    """Beta alone: in how many chats the questioner, carrying the virus, plans and fetches it."""
    return fetched_shares(agent_model, [virus], chats, newest)[0]


def fetched_shares(
    agent_model: AgentModel, viruses: Sequence[AlbumItem], chats: Sequence[Chat], newest: bool = True
) -> list[float]:
    """Beta of each of many viruses, all asked of the model at once."""
    carriers = [_carrier(i, chat, virus, newest) for virus in viruses for i, chat in enumerate(chats)]
    found = asyncio.run(plan_and_retrieve(carriers, agent_model))
    fetched = [one.album_item is not None and one.album_item.key for one in found]
    n = len(chats)
    return [fetched[v * n : (v + 1) * n].count(virus.key) / n for v, virus in enumerate(viruses)]


def spoken_shares(
    agent_model: AgentModel, viruses: Sequence[AlbumItem], target: str, chats: Sequence[Chat]
) -> list[float]:
    """Alpha of each of many viruses."""
    n = len(chats)
    asked, answered = _spoken(
        agent_model, [virus for virus in viruses for _ in chats], target, list(chats) * len(viruses)
    )
    both = [q and a for q, a in zip(asked, answered, strict=True)]
    return [sum(both[v * n : (v + 1) * n]) / n for v in range(len(viruses))]


def _spoken(
    agent_model: AgentModel, shown: Sequence[AlbumItem], target: str, chats: Sequence[Chat]
) -> tuple[list[bool], list[bool]]:
    """Per chat: whether what is shown makes the questioner ask the target, and the answerer, so asked, repeat it."""
    asking = [_agent(i, chat.questioner, chat.questioner_history, chat.album) for i, chat in enumerate(chats)]
    answering = [_agent(i, chat.answerer, chat.answerer_history, chat.album) for i, chat in enumerate(chats)]
    asked = asyncio.run(ask(asking, shown, agent_model))
    answered = asyncio.run(answer(answering, shown, [target] * len(chats), agent_model))
    return [said.text == target for said in asked], [said.text == target for said in answered]


def _carrier(index: int, chat: Chat, virus: AlbumItem, newest: bool) -> AgentState:
    """The questioner with the virus: it came last and the oldest went, or it took somebody's place."""
    size = len(chat.album)
    held = (*chat.album[1:], virus)
    if not newest:
        place = index % size
        held = (*chat.album[:place], virus, *chat.album[place + 1 :])
    return _agent(index, chat.questioner, chat.questioner_history, held)


def _agent(index: int, persona: Persona, history: tuple[ChatRecord, ...], held: tuple[AlbumItem, ...]) -> AgentState:
    return AgentState(str(index), persona, Album(len(held), held), History(records=history))
