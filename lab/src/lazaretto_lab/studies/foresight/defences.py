"""The foresight gate and its repairs as defences that can be handed to the album-chat world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.persona import Persona
from lazaretto.agents.turn import AgentState, Turn
from lazaretto.errors import UnreadablePicture
from lazaretto.gates.foresight.backend import AgentModelBackend
from lazaretto.gates.foresight.flp import FlpReading, FlpSettings, FlpThresholds, infected, take_readings
from lazaretto.gates.foresight.monitor import Diagnosis, MemoryMonitor
from lazaretto.gates.picture_hash import PerceptualHash
from lazaretto.pictures import first_frame
from lazaretto.repair.bisection import bisect
from lazaretto.repair.rollback import remove_all, remove_newer_half, roll_back
from lazaretto.repair.sweep import sweep
from lazaretto_lab.models.request_batching import RequestBatcher
from lazaretto_lab.worlds.album_chat.defence import Change, View
from lazaretto_lab.worlds.streams import stream

NEAR_BITS, NEAR_COLOURS = 6, 32
"""How far two pictures may look apart and still be near-duplicates that are diagnosed first."""
_LAPS = 4
"""How often a purified community is diagnosed again within a round."""

BLUNT: dict[str, Callable[[AgentState], AgentState]] = {"naive": remove_all, "tail": remove_newer_half}
"""Baselines: diagnosis as published, purification without looking."""


class FlpDefence:
    """The defence as published: every agent rehearses, whoever collapses is rolled back or bisected."""

    def __init__(
        self,
        thresholds: FlpThresholds,
        personas: Sequence[Persona],
        settings: FlpSettings | None = None,
        *,
        rounds: int = 0,
        purify: str = "flp",
        smallest: int = 2,
    ) -> None:
        """``rounds``: how many rounds from the first it runs (0: all of them; the authors' program: 4)."""
        self.thresholds, self.personas, self.settings = thresholds, tuple(personas), settings or FlpSettings()
        self.rounds, self.purify, self.smallest = rounds, purify, smallest
        self.before: dict[str, FlpReading] = {}
        self.name = f"flp {self.settings} {thresholds} rounds={rounds or 'all'} purify={purify} smallest={smallest}"

    async def before_round(self, view: View) -> Sequence[Change]:
        """Rehearse everybody, purify the infected."""
        if self.rounds and view.round_index >= self.rounds:
            return ()
        backend, rng = AgentModelBackend(view.agent_model), stream(view.seed, "flp", view.round_index)
        readings = await take_readings(view.agents, self.personas, self.settings, backend, rng)
        sick = [
            (agent, reading.drift(self.before.get(agent.id)))
            for agent, reading in zip(view.agents, readings, strict=True)
            if infected(reading, self.thresholds, self.settings)
        ]
        chorus = RequestBatcher(view.agent_model.chat)
        agent_model = AgentModel(chorus, view.agent_model.embedder, view.agent_model.max_tokens)
        in_step = replace(view, agent_model=agent_model)
        pure = await chorus.run_together([partial(self.purified, agent, drift, in_step) for agent, drift in sick])
        view.agent_model.spent += agent_model.spent
        self.before = {agent.id: reading for agent, reading in zip(view.agents, readings, strict=True)}
        return [Change(state, how) for state, how in pure]

    async def purified(self, agent: AgentState, drift: float | None, view: View) -> tuple[AgentState, str]:
        """The agent after purification, and by which way. No drift is known in the first round: long-term."""
        if self.purify in BLUNT:
            return BLUNT[self.purify](agent), self.purify
        if drift is not None and drift > self.thresholds.drift:
            return roll_back(agent), "rollback"
        backend, rng = (
            AgentModelBackend(view.agent_model),
            stream(view.seed, f"flp bisect {agent.id}", view.round_index),
        )

        async def test(keys: tuple[str, ...]) -> bool:
            part = replace(agent, album=agent.album.only(keys))
            (reading,) = await take_readings([part], self.personas, self.settings, backend, rng)
            return infected(reading, self.thresholds, self.settings)

        found = await bisect([k.key for k in agent.album], test, smallest=self.smallest, verify=False)
        return replace(agent, album=agent.album.without(found.removed)), "bisect"

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Foresight acts before, not after."""
        return ()

    def snapshot(self) -> Mapping[str, Any]:
        """The mean embeddings of the round before."""
        return {"centres": {a: r.centre.tolist() for a, r in self.before.items() if r.centre is not None}}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with them."""
        self.before = {a: FlpReading(None, None, np.array(c)) for a, c in snapshot["centres"].items()}


class MonitorDefence:
    """Foresight as we run it: whoever is about to show something is diagnosed; what is found goes everywhere."""

    def __init__(self, monitor: MemoryMonitor, source: str = "") -> None:
        """``source`` names the calibration, so that runs with another one are other runs."""
        self.monitor = monitor
        self.name = f"lazaretto {monitor.settings} {monitor.scales} {source}"
        self._partners: dict[str, str] = {}

    async def before_round(self, view: View) -> Sequence[Change]:
        """Diagnose the questioners of this round, purify, sweep, and diagnose again until nothing is found."""
        backend, rng = AgentModelBackend(view.agent_model), stream(view.seed, "lazaretto", view.round_index)
        agents = {agent.id: agent for agent in view.agents}
        speaking = [view.agents[q].id for q, _ in view.pairs]
        reasons: dict[str, str] = {}
        for lap in range(_LAPS):
            said = await self.monitor.diagnose(
                [agents[one] for one in speaking], backend, rng, 0 if lap else len(view.agents)
            )
            sick = [diagnosis for diagnosis in said if diagnosis.infected]
            if not sick:
                break
            for changed in self._purify(sick, agents):
                agents[changed.id] = changed
                reasons[changed.id] = "foresight" if changed.id in {d.agent for d in sick} else "sweep"
        return [Change(agents[one], reason) for one, reason in reasons.items()]

    def _purify(self, sick: Sequence[Diagnosis], agents: Mapping[str, AgentState]) -> tuple[AgentState, ...]:
        keys = {key for diagnosis in sick for key in diagnosis.culprits}
        gone = {k.key: k for d in sick for k in agents[d.agent].album if k.key in keys}
        said = [
            u
            for key in gone
            for u in (*self.monitor.readings[key].utterances, *self.monitor.heard.get(key, {}).values())
        ]
        swept = sweep(tuple(agents.values()), gone.values(), near_duplicate, said)
        self.monitor.rehearse_first(swept.lookalikes)
        contacts = {self._partners.get(one, "") for one in (*swept.contacts, *(d.agent for d in sick))}
        met = [k.key for one in contacts if one in agents for k in agents[one].album]
        self.monitor.rehearse_first(key for key in met if key not in keys and self._unread(key))
        return swept.cleaned

    def _unread(self, key: str) -> bool:
        reading = self.monitor.readings.get(key)
        return reading is not None and reading.collapse is None

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Listen, and note who met whom."""
        self.monitor.record_talk(talk_by_item(turns))
        self._partners = {}
        for q, a in view.pairs:
            one, other = view.agents[q].id, view.agents[a].id
            self._partners |= {one: other, other: one}
        return ()

    def snapshot(self) -> Mapping[str, Any]:
        """Readings and contacts."""
        return {"watch": self.monitor.snapshot(), "partners": self._partners}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with them."""
        self.monitor.restore(snapshot["watch"])
        self._partners = dict(snapshot["partners"])


def talk_by_item(turns: Iterable[Turn]) -> list[tuple[AlbumItem, dict[str, str]]]:
    """What was said about what, of the turns that came to their end."""
    return [
        (turn.retrieval.album_item, {turn.questioner: turn.question, turn.answerer: turn.answer})
        for turn in turns
        if not turn.void and turn.retrieval.album_item is not None
    ]


def near_duplicate(one: AlbumItem, other: AlbumItem) -> bool:
    """Pictures that look the same from afar; notes with nearly the same words."""
    if one.is_note != other.is_note:
        return False
    if one.is_note:
        mine, theirs = set(one.note.lower().split()), set(other.note.lower().split())
        return 2 * len(mine & theirs) >= len(mine | theirs)
    first, second = _look(one.picture), _look(other.picture)
    if first is None or second is None:
        return False
    return first.distance(second) <= NEAR_BITS and first.colour_gap(second) <= NEAR_COLOURS


@lru_cache(maxsize=4096)
def _look(picture: bytes) -> PerceptualHash | None:
    try:
        return PerceptualHash.of(first_frame(picture))
    except UnreadablePicture:
        return None
