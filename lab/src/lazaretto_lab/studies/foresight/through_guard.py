"""Foresight as the product ships it: the world's agents live on a guard's ledger, and ``before_round`` defends them.

Everything an agent holds is an item that was remembered through the guard, everything said is a message that was
exchanged through it, and the defence knows of the talk what the ledger knows. No other gate stands in the way, so that
what is measured is foresight alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lazaretto import Guard
from lazaretto.agents.album import AlbumItem
from lazaretto.agents.chat_agent import ChatAgent
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState, Turn
from lazaretto.learn.calibration import FlpCalibration, MonitorCalibration
from lazaretto.policy import Policy
from lazaretto.types import BeforeTurn, Channel
from lazaretto_lab.studies.foresight.calibration import (
    Calibrator,
    FlpOptions,
    MonitorOptions,
    read_options,
    rehearsal_personas,
)
from lazaretto_lab.studies.foresight.defences import streams_of
from lazaretto_lab.studies.outbreak.components import DefenceContext
from lazaretto_lab.worlds.album_chat.defence import Change, Defence, View


class GuardDefence:
    """A guard over a store of its own, driven by the world's rounds."""

    def __init__(self, guard: Guard, name: str, everybody: bool = False) -> None:
        """``guard`` rehearses already; ``everybody``: not only who shows something is about to speak (mode flp)."""
        self.guard, self.name, self.everybody = guard, f"guard: {name}", everybody
        self.items: dict[str, list[str]] = {}
        """The ids of what stands in each album, oldest first."""

    async def before_round(self, view: View) -> Sequence[Change]:
        """Hand the guard everybody, and do to the agents what it says."""
        await self.remember_all(view)
        speaking = {view.agents[q].id for q, _ in view.pairs} if not self.everybody else {a.id for a in view.agents}
        ready = {
            a.id: self.chat_agent(a, dict(zip(self.items[a.id], a.album, strict=True)), view.agent_model)
            for a in view.agents
        }
        order = [view.agents[q].id for q, _ in view.pairs] if not self.everybody else list(ready)
        foresight = self.guard.foresight.rehearsal
        assert foresight is not None
        foresight.streams = lambda _: streams_of(view)
        done = await self.guard.foresight.before_round(
            [ready[one] for one in order], others=[agent for one, agent in ready.items() if one not in speaking]
        )
        known = {agent.id: agent for agent in view.agents}
        return [Change(self._after(known[t.agent], t), t.reason) for t in done.turns if t.reason]

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Tell the guard what was read, said and kept."""
        for turn in turns:
            if not turn.void and turn.retrieval.album_item is not None:
                await self.tell(turn, turn.retrieval.album_item, turn.retrieval.slot)
        self.trim(view)
        return ()

    async def remember_all(self, view: View) -> None:
        """Have the guard know what everybody holds at the start."""
        for agent in view.agents:
            if agent.id not in self.items:
                self.items[agent.id] = [await self._remember(agent.id, k) for k in agent.album]

    def trim(self, view: View) -> None:
        """Forget the ids of what fell out of the albums."""
        for agent in view.agents:
            self.items[agent.id] = self.items[agent.id][-len(agent.album) :] if len(agent.album) else []

    def snapshot(self) -> Mapping[str, Any]:
        """Which items stand in which albums; what the guard knows is in its ledger."""
        return {"items": self.items}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with them."""
        self.items = {agent: list(items) for agent, items in snapshot["items"].items()}

    @staticmethod
    def chat_agent(agent: AgentState, album: Mapping[str, AlbumItem], model: AgentModel) -> ChatAgent:
        """The world's agent as the guard takes it."""
        history = [(record.question, record.answer) for record in agent.history]
        return ChatAgent(agent.id, model, album, history, persona=agent.persona, remembers=agent.history.size)

    def _after(self, agent: AgentState, turn: BeforeTurn) -> AgentState:
        gone = set(turn.removed)
        kept = [(item, k) for item, k in zip(self.items[agent.id], agent.album, strict=True) if item not in gone]
        self.items[agent.id] = [item for item, _ in kept]
        records = list(reversed(agent.history.records))
        for heard, said in turn.forget:
            records.remove(ChatRecord(heard, said))  # of several alike the newest goes
        return replace(
            agent,
            album=replace(agent.album, items=tuple(k for _, k in kept)),
            history=replace(agent.history, records=tuple(reversed(records))),
        )

    async def tell(self, turn: Turn, kept_item: AlbumItem, slot: int) -> None:
        """One turn: read, asked, kept by the answerer, answered."""
        item = self.items[turn.questioner][slot]
        await self.guard.recall(agent=turn.questioner, items=[item])
        await self.guard.exchange(turn.question, sender=turn.questioner, receiver=turn.answerer, parents=[item])
        kept = await self._remember(turn.answerer, kept_item, [item])
        self.items[turn.answerer].append(kept)
        await self.guard.exchange(turn.answer, sender=turn.answerer, receiver=turn.questioner, parents=[kept])

    async def _remember(self, agent: str, album_item: AlbumItem, parents: Sequence[str] = ()) -> str:
        if album_item.is_note:
            fields = {"meta": {"title": album_item.title}}
            done = await self.guard.remember(album_item.note, agent=agent, fields=fields, parents=list(parents))
        else:
            done = await self.guard.remember(
                album_item.title, image=album_item.picture, agent=agent, parents=list(parents)
            )
        return done.item


def guard_for(folder: Path, table: Mapping[str, Any]) -> Guard:
    """A guard with no gate but foresight, over a ledger in ``folder``."""
    bare: dict[str, Any] = {channel.value: {"stages": []} for channel in Channel}
    limits = {"max_items": 1_000_000, "max_agents": 100_000}
    policy = Policy.read({"channels": bare, "gates": {"foresight": dict(table)}, "repair": limits})
    return Guard.open(f"sqlite:///{folder / 'guard.db'}", policy)


def defence(settings: Mapping[str, Any], context: DefenceContext) -> Defence:
    """``defence = "guard"`` of an experiment: the settings of mode ``lazaretto``, or with ``mode = "flp"`` of that."""
    given = dict(settings)
    mode = given.pop("mode", "lazaretto")
    calibrator = Calibrator(context.chat, context.embedder, context.outbreak)
    known: FlpCalibration | MonitorCalibration
    if mode == "flp":
        flp = read_options(FlpOptions, given)
        known, table = calibrator.flp(flp.calibration, flp.rehearsal()), {"mode": "flp"}
    else:
        wanted = read_options(MonitorOptions, given)
        known, _ = calibrator.monitor(wanted.calibration)
        table = {name: getattr(wanted, name) for name in ("budget", "curiosity", "listen", "use_pull", "use_collapse")}
    guard = guard_for(context.workdir, table)
    guard.foresight.rehearse_with(known, context.embedder, rehearsal_personas())
    return GuardDefence(guard, f"{mode} {table}", everybody=mode == "flp")
