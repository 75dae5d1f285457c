"""One turn: plan, retrieve, ask, answer, for any number of pairs at once.

Agents are values and a turn changes none of them: it returns what was said, and ``remember`` makes the agents as they
are afterwards. That is what lets a world play a turn for real and foresight rehearse the same turn on copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lazaretto.agents.album import Album, Keepsake
from lazaretto.agents.history import History
from lazaretto.agents.model import Mind, Said
from lazaretto.agents.persona import Persona
from lazaretto.agents.prompts import ChatRecord, answer_request, plan_request, question_request
from lazaretto.models.protocol import Request

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
    """What a plan fetched from an album."""

    plan: str
    keepsake: Keepsake | None = None
    slot: int = -1
    """Where in the album it stood; 0 is the oldest."""
    score: float = 0.0
    """Cosine of plan and keepsake."""
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


async def plan(agents: Sequence[AgentState], mind: Mind) -> list[Said]:
    """What each agent wants to talk about, from persona, history and the titles in its album; no pixels."""
    requests = [plan_request(a.persona, a.history.records, a.album.listing, mind.max_tokens) for a in agents]
    return await mind.say(requests)


def retrieve(agents: Sequence[AgentState], plans: Sequence[Said], mind: Mind) -> list[Retrieval]:
    """The keepsake nearest to each plan; the oldest wins a tie. A plan without words looks with the persona instead."""
    looking = [i for i, (a, p) in enumerate(zip(agents, plans, strict=True)) if not p.fault and len(a.album)]
    queries = mind.text_vectors([plans[i].text or agents[i].persona.text() for i in looking])
    held = [k for i in looking for k in agents[i].album]
    vectors = mind.keepsake_vectors(held)
    found = [Retrieval(p.text, fault=p.fault or EMPTY_ALBUM) for p in plans]
    start = 0
    for query, i in zip(queries, looking, strict=True):
        album = agents[i].album.keepsakes
        scores = vectors[start : start + len(album)] @ query
        start += len(album)
        slot = int(np.argmax(scores))
        found[i] = Retrieval(plans[i].text, album[slot], slot, float(scores[slot]))
    return found


async def plan_and_retrieve(agents: Sequence[AgentState], mind: Mind) -> list[Retrieval]:
    """The cheap half of a turn: one model call per agent and no generation from pictures."""
    return retrieve(agents, await plan(agents, mind), mind)


async def ask(agents: Sequence[AgentState], keepsakes: Sequence[Keepsake], mind: Mind) -> list[Said]:
    """Each questioner's question about what it fetched."""
    return await mind.say([_question(a, k, mind) for a, k in zip(agents, keepsakes, strict=True)])


async def answer(
    agents: Sequence[AgentState], keepsakes: Sequence[Keepsake], questions: Sequence[str], mind: Mind
) -> list[Said]:
    """Each answerer's answer, looking at the same thing."""
    heard = zip(agents, keepsakes, questions, strict=True)
    return await mind.say([_answer(a, k, question, mind) for a, k, question in heard])


async def play(pairs: Sequence[tuple[AgentState, AgentState]], mind: Mind) -> list[Turn]:
    """All turns of a round in three batches. A pair whose model fails drops out; the others go on."""
    retrievals = await plan_and_retrieve([q for q, _ in pairs], mind)
    turns = [Turn(q.id, a.id, r, fault=r.fault) for (q, a), r in zip(pairs, retrievals, strict=True)]
    asking = [i for i, r in enumerate(retrievals) if r.keepsake is not None]
    questions = await ask([pairs[i][0] for i in asking], [_kept(retrievals[i]) for i in asking], mind)
    for i, said in zip(asking, questions, strict=True):
        turns[i] = replace(turns[i], question=said.text, fault=said.fault)
    going = [i for i in asking if not turns[i].void]
    answers = await answer(
        [pairs[i][1] for i in going], [_kept(retrievals[i]) for i in going], [turns[i].question for i in going], mind
    )
    for i, said in zip(going, answers, strict=True):
        turns[i] = replace(turns[i], answer=said.text, fault=said.fault)
    return turns


def remember(questioner: AgentState, answerer: AgentState, turn: Turn) -> tuple[AgentState, AgentState]:
    """Both agents after the turn: the record in both histories, the keepsake in the answerer's album."""
    if turn.void or turn.retrieval.keepsake is None:
        return questioner, answerer
    return (
        replace(questioner, history=questioner.history.add(turn.record)),
        replace(
            answerer,
            history=answerer.history.add(turn.record),
            album=answerer.album.add(turn.retrieval.keepsake),
        ),
    )


def _kept(retrieval: Retrieval) -> Keepsake:
    if retrieval.keepsake is None:
        raise ValueError("a retrieval without a keepsake has nothing to show")
    return retrieval.keepsake


def _question(agent: AgentState, keepsake: Keepsake, mind: Mind) -> Request:
    if keepsake.is_note:
        return question_request(agent.persona, agent.history.records, note=keepsake.note, max_tokens=mind.max_tokens)
    return question_request(agent.persona, agent.history.records, image=keepsake.picture, max_tokens=mind.max_tokens)


def _answer(agent: AgentState, keepsake: Keepsake, question: str, mind: Mind) -> Request:
    past, tokens = agent.history.records, mind.max_tokens
    if keepsake.is_note:
        return answer_request(agent.persona, past, question, note=keepsake.note, max_tokens=tokens)
    return answer_request(agent.persona, past, question, image=keepsake.picture, max_tokens=tokens)
