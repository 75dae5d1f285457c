"""The rehearsal: an agent plays both sides of a few turns behind other personas, on copies of itself.

Albums are read and never written; records of the rehearsal go into the copies' histories alone, which end with it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lazaretto.agents.persona import Persona
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError
from lazaretto.gates.foresight.backend import RehearsalBackend


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """The result of a rehearsal of one agent."""

    retrieved: tuple[str, ...] = ()
    """The key that each rehearsed turn fetched."""
    records: tuple[str, ...] = ()
    """The rehearsed chats as text, of those turns that came to their end."""
    faults: tuple[str, ...] = ()
    """Why turns are missing: a model that failed, an empty album."""


@dataclass
class _RehearsedTurn:
    """One rehearsed turn in the making."""

    agent: int
    asking: int
    answering: int
    key: str = ""
    question: str = ""


@dataclass
class _Notes:
    retrieved: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


async def rehearse(
    agents: Sequence[AgentState],
    casts: Sequence[Sequence[Persona]],
    passes: int,
    backend: RehearsalBackend,
    rng: random.Random,
) -> list[RehearsalResult]:
    """Every agent behind its cast of personas, ``passes`` times in pairs that change; all agents in common batches.

    Histories begin empty, as in the authors' program. An odd persona sits out; one persona plays both sides.
    """
    if passes < 1:
        raise InputError("passes", f"{passes}", "Rehearse at least once")
    copies = [
        [replace(agent.playing(persona), history=agent.history.cleared()) for persona in cast]
        for agent, cast in zip(agents, casts, strict=True)
    ]
    notes = [_Notes() for _ in agents]
    for _ in range(passes):
        scenes = [scene for index, cast in enumerate(copies) for scene in _pairs(index, len(cast), rng)]
        await _play(scenes, copies, notes, backend)
    return [RehearsalResult(tuple(n.retrieved), tuple(n.records), tuple(n.faults)) for n in notes]


def _pairs(agent: int, cast: int, rng: random.Random) -> list[_RehearsedTurn]:
    if cast == 1:
        return [_RehearsedTurn(agent, 0, 0)]
    order = rng.sample(range(cast), cast)
    return [_RehearsedTurn(agent, q, a) for q, a in zip(order[0::2], order[1::2], strict=False)]


async def _play(
    scenes: list[_RehearsedTurn], copies: list[list[AgentState]], notes: list[_Notes], backend: RehearsalBackend
) -> None:
    """One pass: plan, look up, ask, answer; a scene that fails drops out and says why."""
    going: list[_RehearsedTurn] = []
    plans = await backend.plan([copies[s.agent][s.asking] for s in scenes])
    for scene, utterance in zip(scenes, plans, strict=True):
        actor = copies[scene.agent][scene.asking]
        if utterance.fault or not len(actor.album):
            notes[scene.agent].faults.append(utterance.fault or "the album is empty")
            continue
        (key,) = await backend.look_up(actor.album, [utterance.text or actor.persona.text()])
        if not key:
            notes[scene.agent].faults.append("retrieval failed" if key is None else "nothing was retrieved")
            continue
        scene.key = key
        notes[scene.agent].retrieved.append(key)
        going.append(scene)
    for side in ("ask", "answer"):
        shown = [next(k for k in copies[s.agent][0].album if k.key == s.key) for s in going]
        if side == "ask":
            spoken = await backend.ask([copies[s.agent][s.asking] for s in going], shown)
        else:
            actors = [copies[s.agent][s.answering] for s in going]
            spoken = await backend.answer(actors, shown, [s.question for s in going])
        left = []
        for scene, utterance in zip(going, spoken, strict=True):
            if utterance.fault:
                notes[scene.agent].faults.append(utterance.fault)
            elif side == "ask":
                scene.question = utterance.text
                left.append(scene)
            else:
                _keep(scene, utterance.text, copies[scene.agent], notes[scene.agent])
        going = left


def _keep(scene: _RehearsedTurn, answer: str, cast: list[AgentState], notes: _Notes) -> None:
    record = ChatRecord(scene.question, answer)
    notes.records.append(record.text())
    for place in {scene.asking, scene.answering}:
        cast[place] = replace(cast[place], history=cast[place].history.add(record))
