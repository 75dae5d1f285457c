"""One turn of any number of pairs: plan, retrieve, ask, answer; and the agents before and after it.

A turn changes no agent: it returns the texts, and ``remember`` makes the agents as they are afterwards. So a world
can play a turn and foresight rehearse the same turn on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.model import AgentModel, Utterance
from lazaretto.agents.prompts import HISTORY, ChatRecord, Persona, answer_request, plan_request, question_request
from lazaretto.errors import InputError
from lazaretto.models.protocol import Request
from lazaretto.names import old_argument

EMPTY_ALBUM = "nothing to show: the album is empty"


@dataclass(frozen=True, slots=True)
class AgentState:
    """One agent at one moment."""

    id: str
    persona: Persona
    album: Album
    history: History

    def playing(self, persona: Persona) -> AgentState:
        """The same album and history behind another persona, as a rehearsal needs it."""
        return replace(self, persona=persona)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The memory that a plan fetched from an album."""

    plan: str
    album_item: AlbumItem | None = None
    slot: int = -1
    """Its place in the album; 0 is the oldest."""
    score: float = 0.0
    """Cosine of plan and album item."""
    fault: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of one pair. A turn with a fault is void: nothing was passed on and nobody remembers it."""

    questioner: str
    answerer: str
    retrieval: Retrieval
    question: str = ""
    answer: str = ""
    fault: str = ""

    @property
    def void(self) -> bool:
        """Whether it came to nothing."""
        return bool(self.fault)

    @property
    def record(self) -> ChatRecord:
        """The exchange as both sides remember it."""
        return ChatRecord(self.question, self.answer)


async def plan(agents: Sequence[AgentState], agent_model: AgentModel) -> list[Utterance]:
    """Each agent's topic, from persona, history and the titles in its album; no pixels."""
    requests = [plan_request(a.persona, a.history.records, a.album.listing, agent_model.max_tokens) for a in agents]
    return await agent_model.say(requests)


def retrieve(agents: Sequence[AgentState], plans: Sequence[Utterance], agent_model: AgentModel) -> list[Retrieval]:
    """The album item nearest to each plan; the oldest wins a tie. Without words the persona looks."""
    looking = [i for i, (a, p) in enumerate(zip(agents, plans, strict=True)) if not p.fault and len(a.album)]
    queries = agent_model.text_vectors([plans[i].text or agents[i].persona.text() for i in looking])
    held = [k for i in looking for k in agents[i].album]
    vectors = agent_model.album_item_vectors(held)
    found = [Retrieval(p.text, fault=p.fault or EMPTY_ALBUM) for p in plans]
    start = 0
    for query, i in zip(queries, looking, strict=True):
        album = agents[i].album.items
        scores = vectors[start : start + len(album)] @ query
        start += len(album)
        slot = int(np.argmax(scores))
        found[i] = Retrieval(plans[i].text, album[slot], slot, float(scores[slot]))
    return found


async def plan_and_retrieve(agents: Sequence[AgentState], agent_model: AgentModel) -> list[Retrieval]:
    """The cheap half of a turn: one model call per agent and no generation from pictures."""
    return retrieve(agents, await plan(agents, agent_model), agent_model)


async def ask(
    agents: Sequence[AgentState], album_items: Sequence[AlbumItem], agent_model: AgentModel
) -> list[Utterance]:
    """Each questioner's question about its memory."""
    return await agent_model.say([_question(a, k, agent_model) for a, k in zip(agents, album_items, strict=True)])


async def answer(
    agents: Sequence[AgentState], album_items: Sequence[AlbumItem], questions: Sequence[str], agent_model: AgentModel
) -> list[Utterance]:
    """Each answerer's answer, looking at the same thing."""
    heard = zip(agents, album_items, questions, strict=True)
    return await agent_model.say([_answer(a, k, question, agent_model) for a, k, question in heard])


async def play(pairs: Sequence[tuple[AgentState, AgentState]], agent_model: AgentModel) -> list[Turn]:
    """All turns of a round in three batches. A pair whose model fails drops out; the others go on."""
    retrievals = await plan_and_retrieve([q for q, _ in pairs], agent_model)
    turns = [Turn(q.id, a.id, r, fault=r.fault) for (q, a), r in zip(pairs, retrievals, strict=True)]
    asking = [i for i, r in enumerate(retrievals) if r.album_item is not None]
    questions = await ask([pairs[i][0] for i in asking], [_retrieved_item(retrievals[i]) for i in asking], agent_model)
    for i, utterance in zip(asking, questions, strict=True):
        turns[i] = replace(turns[i], question=utterance.text, fault=utterance.fault)
    going = [i for i in asking if not turns[i].void]
    answers = await answer(
        [pairs[i][1] for i in going],
        [_retrieved_item(retrievals[i]) for i in going],
        [turns[i].question for i in going],
        agent_model,
    )
    for i, utterance in zip(going, answers, strict=True):
        turns[i] = replace(turns[i], answer=utterance.text, fault=utterance.fault)
    return turns


def remember(questioner: AgentState, answerer: AgentState, turn: Turn) -> tuple[AgentState, AgentState]:
    """Both agents after the turn: the record in both histories, the album item in the answerer's album."""
    if turn.void or turn.retrieval.album_item is None:
        return questioner, answerer
    return (
        replace(questioner, history=questioner.history.add(turn.record)),
        replace(
            answerer,
            history=answerer.history.add(turn.record),
            album=answerer.album.add(turn.retrieval.album_item),
        ),
    )


def _retrieved_item(retrieval: Retrieval) -> AlbumItem:
    if retrieval.album_item is None:
        raise ValueError("a retrieval without an item has nothing to show")
    return retrieval.album_item


def _question(agent: AgentState, album_item: AlbumItem, agent_model: AgentModel) -> Request:
    if album_item.is_note:
        return question_request(
            agent.persona, agent.history.records, note=album_item.note, max_tokens=agent_model.max_tokens
        )
    return question_request(
        agent.persona, agent.history.records, image=album_item.picture, max_tokens=agent_model.max_tokens
    )


def _answer(agent: AgentState, album_item: AlbumItem, question: str, agent_model: AgentModel) -> Request:
    past, tokens = agent.history.records, agent_model.max_tokens
    if album_item.is_note:
        return answer_request(agent.persona, past, question, note=album_item.note, max_tokens=tokens)
    return answer_request(agent.persona, past, question, image=album_item.picture, max_tokens=tokens)


# An agent's memory of its chats: the last few records, first in, first out.


@dataclass(frozen=True, slots=True)
class History:
    """At most ``size`` records, oldest first."""

    size: int = HISTORY
    records: tuple[ChatRecord, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InputError("history", f"size {self.size}", "A history holds 0 or more records")
        if len(self.records) > self.size:
            object.__setattr__(self, "records", self.records[len(self.records) - self.size :])

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ChatRecord]:
        return iter(self.records)

    def add(self, record: ChatRecord) -> History:
        """The history with one more record; the oldest goes when it is full."""
        return replace(self, records=(*self.records, record))

    def rolled_back(self, entries: int = 1) -> History:
        """The history as it was before its newest records came."""
        return replace(self, records=self.records[: max(0, len(self.records) - entries)])

    def cleared(self) -> History:
        """An empty history of the same size."""
        return replace(self, records=())


# Removals from agents, as values: their newest entries, named memories, and chats in which one of those spoke.

Alike = Callable[[AlbumItem, AlbumItem], bool]
"""Whether a memory is a near-duplicate of one that was removed."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep."""

    cleaned: tuple[AgentState, ...]
    """Agents that held a copy, without it and without the chats in which it spoke."""
    lookalikes: tuple[str, ...]
    """Memories that look like a removed one: they are not removed, they are to be diagnosed first."""
    contacts: tuple[str, ...]
    """Agents that held a copy or hold a near-duplicate."""


@old_argument("sweep", "said", "sentences")
def sweep(
    agents: Sequence[AgentState], gone: Iterable[AlbumItem], alike: Alike | None = None, sentences: Iterable[str] = ()
) -> SweepResult:
    """Look through every album. ``sentences``: sentences of the removed memories, taken out of histories as well."""
    removed = {album_item.key: album_item for album_item in gone}
    spoken = frozenset(sentences)
    cleaned, contacts = [], []
    verdicts: dict[str, bool] = {}
    for agent in agents:
        after = purge(agent, removed, spoken)
        if after != agent:
            cleaned.append(after)
        for album_item in after.album if alike is not None else ():
            if album_item.key not in verdicts:
                verdicts[album_item.key] = alike is not None and any(
                    alike(album_item, removed_item) for removed_item in removed.values()
                )
        if len(after.album) < len(agent.album) or any(verdicts.get(k.key, False) for k in after.album):
            contacts.append(agent.id)
    return SweepResult(tuple(cleaned), tuple(key for key, near in verdicts.items() if near), tuple(contacts))


@old_argument("purge", "said", "sentences")
def purge(agent: AgentState, keys: Iterable[str], sentences: Iterable[str] = ()) -> AgentState:
    """The agent without these memories, and without chats in which one of these sentences was spoken."""
    spoken = frozenset(sentences)
    records = tuple(r for r in agent.history if r.question not in spoken and r.answer not in spoken)
    return replace(agent, album=agent.album.without(keys), history=replace(agent.history, records=records))


def roll_back(agent: AgentState, entries: int = 1) -> AgentState:
    """The agent without its newest memories and chat records."""
    return replace(agent, album=agent.album.rolled_back(entries), history=agent.history.rolled_back(entries))
