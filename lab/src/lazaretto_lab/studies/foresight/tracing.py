"""Contact tracing on the bench: one infected agent is known; how many must be rehearsed until all are found?

A crew lives undefended on a guard's ledger. Whatever is passed on is encoded anew, as messengers do, so no two copies
have the same bytes: a sweep finds none of the others, and everybody infected has to be rehearsed. Then one of them is
found, and the others are sought twice, from copies of the same ledger: with ``guard.incidents.contacts`` first, and by
looking at everybody in a random order.
"""

from __future__ import annotations

import asyncio
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from lazaretto import Guard
from lazaretto.agents.album import AlbumItem, note_item, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.turn import AgentState, Turn
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.foresight.calibration import (
    CalibrationSettings,
    Calibrator,
    read_options,
    rehearsal_personas,
)
from lazaretto_lab.studies.foresight.through_guard import GuardDefence, guard_for
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.components import pool_for
from lazaretto_lab.studies.outbreak.models import models_for, remembering
from lazaretto_lab.studies.outbreak.settings import AttackSettings, ModelSettings, OutbreakSettings
from lazaretto_lab.worlds.album_chat.defence import Change, View
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.album_chat.world import AlbumChat
from lazaretto_lab.worlds.streams import stream

MOST_TURNS = 12
"""How often one agent is looked at before its unread memories are left unread."""


class TracingSettings(BaseModel):
    """One row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agents: int = 128
    infected: int = 1
    """Patients zero."""
    rounds: int = 8
    """Rounds lived before the first infected agent is found."""
    pool: int = 600
    models: ModelSettings = ModelSettings()
    attack: AttackSettings = AttackSettings()
    calibration: CalibrationSettings = CalibrationSettings()


class Messenger(GuardDefence):
    """No defence at all: the guard is told what happens, and what is passed on arrives in other bytes."""

    def __init__(self, guard: Guard, viruses: Sequence[AlbumItem]) -> None:
        super().__init__(guard, "messenger")
        self.virus_keys = {virus.key for virus in viruses}
        """Keys of everything that is a virus, re-encoded copies included."""
        self._copies = 0

    async def before_round(self, view: View) -> Sequence[Change]:
        """Remember what everybody holds at the start."""
        await self.remember_all(view)
        return ()

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Tell the guard, and give the answerer its own copy."""
        changes, agents = [], {agent.id: agent for agent in view.agents}
        for turn in turns:
            shown = turn.retrieval.album_item
            if turn.void or shown is None:
                continue
            self._copies += 1
            copy = encoded_anew(shown, self._copies)
            if shown.key in self.virus_keys:
                self.virus_keys.add(copy.key)
            await self.tell(turn, copy, turn.retrieval.slot)
            agent = agents[turn.answerer]
            changes.append(Change(replace(agent, album=agent.album.replaced(len(agent.album) - 1, copy)), "copy"))
        self.trim(view)
        return changes

    def infected(self, agents: Sequence[AgentState]) -> list[str]:
        """Who holds a virus."""
        return [agent.id for agent in agents if any(k.key in self.virus_keys for k in agent.album)]


def encoded_anew(album_item: AlbumItem, number: int) -> AlbumItem:
    """The same content in other bytes: a comment in a PNG, white space after anything else."""
    if album_item.is_note:
        return note_item(f"{album_item.note.rstrip()}{' ' * (number % 997 + 1)}", album_item.title)
    data = album_item.picture
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return picture_item(data.split(b" #")[0] + b" #%d" % number, album_item.title)
    body = b"tEXt" + b"Comment\0%d" % number
    chunk = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return picture_item(data[:33] + chunk + data[33:], album_item.title)  # after the header, which is 33 bytes long


@dataclass
class _Crew:
    """A crew that has lived, with what it takes to look for the infected in it."""

    agents: tuple[AgentState, ...]
    items: Mapping[str, list[str]]
    infected: list[str]
    virus_keys: set[str]
    chat: ChatModel
    embedder: TextEmbedder
    calibration: Any
    folder: Path
    seed: int


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Rehearsals until all infected agents are found, contacts first and by scanning."""
    wanted = read_options(TracingSettings, settings)
    world = OutbreakSettings(
        agents=wanted.agents, pool=wanted.pool, models=wanted.models, attack=wanted.attack, rounds=wanted.rounds
    )
    context.progress(0.0, "models and calibration")
    chat, embedder = models_for(wanted.models, notes=False)
    calibrator = Calibrator(chat, embedder, world)
    calibration, _ = calibrator.monitor(wanted.calibration)
    return trace(wanted, viruses_for(world), pool_for(world), chat, embedder, calibration, seed, context)


def trace(
    wanted: TracingSettings,
    viruses: Sequence[Virus],
    pool: Sequence[AlbumItem],
    chat: ChatModel,
    embedder: TextEmbedder,
    calibration: Any,
    seed: int,
    context: RunContext,
) -> Mapping[str, Any]:
    """``run`` with the parts already made."""
    crew = asyncio.run(_live(wanted, viruses, pool, chat, embedder, calibration, seed, context))
    if len(crew.infected) < 2:
        return {"outcome": "void", "reason": f"{len(crew.infected)} infected: there is nobody left to find"}
    contacts = asyncio.run(_search(crew, contacts_first=True))
    context.progress(0.8, "scanning")
    scan = asyncio.run(_search(crew, contacts_first=False))
    figures = {
        f"{name}_{way}": found[name] for way, found in (("contacts", contacts), ("scan", scan)) for name in found
    }
    return {
        "infected": len(crew.infected),
        "carrying": 100.0 * len(crew.infected) / wanted.agents,
        **figures,
        "times_fewer": scan["rehearsed"] / contacts["rehearsed"],
        "times_fewer_calls": scan["calls"] / max(1, contacts["calls"]),
    }


async def _live(
    wanted: TracingSettings,
    viruses: Sequence[Virus],
    pool: Sequence[AlbumItem],
    chat: ChatModel,
    embedder: TextEmbedder,
    calibration: Any,
    seed: int,
    context: RunContext,
) -> _Crew:
    folder = context.workdir
    for old in folder.glob("guard.db*"):
        old.unlink()  # a crew that died young lives again from the start; its answers are kept
    scenario = Scenario(
        agents=wanted.agents, rounds=wanted.rounds, infected=wanted.infected, placement="random", seed=seed
    )
    model = AgentModel(remembering(chat, folder), EmbeddingCache(embedder, folder))
    guard = guard_for(folder, {})
    try:
        messenger = Messenger(guard, [virus.album_item for virus in viruses])
        crew = AlbumChat(scenario, model, pool, viruses, defence=messenger)
        outcome = await crew.run(
            lambda done: context.progress(0.6 * (done.round_index + 1) / wanted.rounds, "the crew lives")
        )
        infected = messenger.infected(outcome.agents)
        items = {agent: list(held) for agent, held in messenger.items.items()}
        return _Crew(outcome.agents, items, infected, messenger.virus_keys, chat, embedder, calibration, folder, seed)
    finally:
        guard.close()


async def _search(crew: _Crew, *, contacts_first: bool) -> dict[str, Any]:
    """Look at agents until all infected ones are found; the first one, drawn by chance, is known and not counted."""
    place = crew.folder / ("contacts" if contacts_first else "scan")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for file in crew.folder.glob("guard.db*"):
        shutil.copy(file, place)
    guard = guard_for(place, {})
    try:
        guard.foresight.rehearse_with(crew.calibration, crew.embedder, rehearsal_personas())
        model = AgentModel(remembering(crew.chat, crew.folder), EmbeddingCache(crew.embedder, crew.folder))
        order = stream(crew.seed, "tracing order").sample([agent.id for agent in crew.agents], len(crew.agents))
        first = stream(crew.seed, "tracing first").choice(crew.infected)
        known = {agent.id: agent for agent in crew.agents}
        missing, looked, calls, wrong = set(crew.infected), 0, 0, 0
        half = 0
        left = [first, *(one for one in order if one != first)]
        while left and missing:
            due = [one for one in await guard.incidents.contacts() if one in left] if contacts_first else []
            name = due[0] if due else left[0]
            left.remove(name)
            spent, removed = await _look(guard, model, known[name], crew.items[name])
            if name != first:
                looked, calls = looked + 1, calls + spent
            wrong += sum(key not in crew.virus_keys for key in removed)
            if any(key in crew.virus_keys for key in removed):
                missing.discard(name)
            if not half and 2 * len(missing) <= len(crew.infected):
                half = looked
        return {"rehearsed": looked, "rehearsed_half": half, "calls": calls, "missed": len(missing), "wrong": wrong}
    finally:
        guard.close()


async def _look(guard: Guard, model: AgentModel, agent: AgentState, items: Sequence[str]) -> tuple[int, list[str]]:
    """All turns it takes until nothing suspicious is unread: model calls, and keys of what was removed."""
    album, calls, removed = dict(zip(items, agent.album, strict=True)), 0, []
    for _ in range(MOST_TURNS):
        done = await guard.foresight.before_turn(Messenger.chat_agent(agent, album, model))
        calls += done.calls
        removed += [album.pop(item).key for item in done.removed]
        if not done.unread:
            break
    return calls, removed
