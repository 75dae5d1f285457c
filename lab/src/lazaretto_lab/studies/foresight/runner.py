"""The gate on the bench, without a world: who is diagnosed, what a purification leaves, how drift moves."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import AgentModelBackend
from lazaretto.gates.foresight.flp import FlpReading, infected, take_readings
from lazaretto.learn.calibration import benign_agents
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.metrics.detection import confusion
from lazaretto_lab.metrics.purification import Purification, purification
from lazaretto_lab.studies.foresight.calibration import (
    Calibrator,
    FlpOptions,
    MonitorOptions,
    flp_defence,
    monitor_defence,
    read_options,
)
from lazaretto_lab.studies.foresight.defences import FlpDefence, MonitorDefence
from lazaretto_lab.studies.outbreak.attack import bank_rows, viruses_for
from lazaretto_lab.studies.outbreak.components import pool_for
from lazaretto_lab.studies.outbreak.models import models_for, remembering
from lazaretto_lab.studies.outbreak.settings import AttackSettings, ModelSettings, OutbreakSettings, cache_folder
from lazaretto_lab.worlds.album_chat.defence import View
from lazaretto_lab.worlds.streams import stream

BATCH = 128
"""Agents diagnosed between two reports of progress."""


class TrialSettings(BaseModel):
    """One row of a trial."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agents: int = 800
    album: int = 10
    rounds: int = 2
    """Benign rounds the agents have lived before they are infected."""
    shares: tuple[float, ...] = (0.7, 0.3)
    """Share of agents with no virus, with one, with two ..."""
    mode: Literal["flp", "lazaretto"] = "lazaretto"
    mode_settings: Mapping[str, Any] = {}
    memory: Literal["pictures", "notes"] = "pictures"
    pool: int = 600
    models: ModelSettings = ModelSettings()
    attacks: tuple[AttackSettings, ...] = (AttackSettings(),)
    """Viruses are taken from these in turn."""
    steps: int = 14
    """``drift`` only: rounds; the virus comes at 6 and goes at 10."""


@dataclass
class _Trial:
    settings: TrialSettings
    agent_model: AgentModel
    viruses: tuple[AlbumItem, ...]
    agents: tuple[AgentState, ...]
    defence: FlpDefence | MonitorDefence
    seed: int
    met: tuple[Mapping[str, Any], ...] = ()
    """What a bank says of the viruses, where they come from one."""

    def view(self, agents: Sequence[AgentState]) -> View:
        return View(0, tuple(agents), (), self.agent_model, self.seed)


def diagnosis(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Precision, recall, F1 and FPR over agents, a share of them infected in a random slot."""
    return _figures(_prepare(settings, seed, context), context)


def _figures(trial: _Trial, context: RunContext) -> dict[str, Any]:
    said: list[bool] = []
    start = trial.agent_model.spent.calls
    for first in range(0, len(trial.agents), BATCH):
        said += asyncio.run(_diagnose(trial, trial.agents[first : first + BATCH], first))
        context.progress((first + BATCH) / len(trial.agents), "diagnosing")
    truth = [_sick(trial, agent) > 0 for agent in trial.agents]
    figures = {k: None if v is None else 100 * v for k, v in confusion(truth, said).figures().items()}
    return {**figures, "calls_per_agent": (trial.agent_model.spent.calls - start) / len(trial.agents)}


def recall(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Diagnosis by mode flp beside what beta^K foretells, beta being measured in the very rehearsals. Mode lazaretto
    rehearses no agent; its beta is the one that the bank knows."""
    trial = _prepare(settings, seed, context)
    if not isinstance(trial.defence, FlpDefence):
        if not trial.met:
            raise InputError("settings.attacks", "mode lazaretto takes beta from a bank", "Name one")
        return {**_figures(trial, context), "beta": _mean_beta(trial)}
    backend, readings = AgentModelBackend(trial.agent_model), []
    for first in range(0, len(trial.agents), BATCH):
        batch, rng = trial.agents[first : first + BATCH], stream(seed, "trial", first)
        readings += asyncio.run(take_readings(batch, trial.defence.personas, trial.defence.settings, backend, rng))
        context.progress((first + BATCH) / len(trial.agents), "rehearsing")
    said = [infected(r, trial.defence.thresholds, trial.defence.settings) for r in readings]
    truth = [_sick(trial, agent) > 0 for agent in trial.agents]
    figures = {k: None if v is None else 100 * v for k, v in confusion(truth, said).figures().items()}
    bad = {virus.key for virus in trial.viruses}
    if trial.met:
        figures["virus_beta"] = _mean_beta(trial)
    return {**figures, **foretold([r.retrieved for r, sick in zip(readings, truth, strict=True) if sick], bad)}


def _mean_beta(trial: _Trial) -> float:
    return float(sum(row["beta"] for row in trial.met) / len(trial.met))


def foretold(fetched: Sequence[Sequence[str]], viruses: Collection[str]) -> dict[str, float | None]:
    """beta of infected agents in rehearsal, K, and in percent: beta^K, agents whose every rehearsal fetched a virus,
    and the mean of each agent's own beta to the power K (agents differ, and a power favours those who differ most)."""
    shares = [sum(key in viruses for key in keys) / len(keys) for keys in fetched if keys]
    if not shares:
        return {"beta": None, "chats": None, "beta_k": None, "all_fetched": None, "own_beta_k": None}
    beta, chats = sum(shares) / len(shares), max(len(keys) for keys in fetched)
    return {
        "beta": beta,
        "chats": float(chats),
        "beta_k": 100 * beta**chats,
        "all_fetched": 100 * sum(share == 1 for share in shares) / len(shares),
        "own_beta_k": 100 * sum(share**chats for share in shares) / len(shares),
    }


def purify(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Threat elimination and benign retention after one diagnosis and purification of every agent, and the share of
    infected and of healthy agents that were found infected."""
    trial = _prepare(settings, seed, context)
    total, start = Purification(0, 0, 0, 0), trial.agent_model.spent.calls
    met: dict[bool, list[bool]] = {True: [], False: []}
    for first in range(0, len(trial.agents), BATCH):
        before = trial.agents[first : first + BATCH]
        changed = asyncio.run(_purified(trial, before))
        for was in before:
            now = changed.get(was.id, was)
            total += purification(*([_bad(trial, k) for k in agent.album] for agent in (was, now)))
            met[_sick(trial, was) > 0].append(was.id in changed)
        context.progress((first + BATCH) / len(trial.agents), "purifying")
    figures = {k: None if v is None else 100 * v for k, v in total.figures().items()}
    for name, found in (("recall", met[True]), ("fpr", met[False])):
        figures[name] = 100 * sum(found) / len(found) if found else None
    return {**figures, "calls_per_agent": (trial.agent_model.spent.calls - start) / len(trial.agents)}


def drift(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Mean drift of agents round by round when a virus comes at round 6 and goes at round 10, and of benign ones."""
    trial = _prepare(settings, seed, context)
    if not isinstance(trial.defence, FlpDefence):
        raise ValueError("drift is a measure of mode flp")
    curves: dict[str, list[float | None]] = {"infected": [], "benign": []}
    before: dict[str, list[FlpReading]] = {}
    for step in range(trial.settings.steps):
        carrying = [replace(a, album=a.album.add(trial.viruses[0])) if 6 <= step < 10 else a for a in trial.agents]
        for name, agents in (("infected", carrying), ("benign", list(trial.agents))):
            now = asyncio.run(
                take_readings(
                    agents, trial.defence.personas, trial.defence.settings, AgentModelBackend(trial.agent_model),
                    stream(seed, "drift", step),
                )
            )  # fmt: skip
            moved = [d for r, b in zip(now, before.get(name, []), strict=False) if (d := r.drift(b)) is not None]
            curves[name].append(sum(moved) / len(moved) if moved else 0.0)
            before[name] = now
        context.progress((step + 1) / trial.settings.steps, "rehearsing")
    return {"drift": curves["infected"], "drift_benign": curves["benign"], "limit": trial.defence.thresholds.drift}


def _prepare(settings: Mapping[str, Any], seed: int, context: RunContext) -> _Trial:
    wanted = read_options(TrialSettings, settings)
    world = OutbreakSettings(
        agents=wanted.agents, album=wanted.album, memory=wanted.memory, pool=wanted.pool, models=wanted.models,
        attack=wanted.attacks[0],
    )  # fmt: skip
    context.progress(0.0, "models, viruses and calibration")
    viruses = tuple(
        v.album_item
        for attack in wanted.attacks
        for v in viruses_for(world.model_copy(update={"attack": attack}), seed)
    )
    chat, embedder = models_for(wanted.models, wanted.memory == "notes")
    calibrator = Calibrator(chat, embedder, world)
    defence: FlpDefence | MonitorDefence
    if wanted.mode == "flp":
        defence = flp_defence(read_options(FlpOptions, wanted.mode_settings), calibrator)
    else:
        defence = monitor_defence(read_options(MonitorOptions, wanted.mode_settings), calibrator)
    agent_model = AgentModel(remembering(chat, context.workdir), EmbeddingCache(embedder, context.workdir))
    healthy = _healthy(wanted, world, chat, embedder, seed)
    banks = [world.model_copy(update={"attack": attack}) for attack in wanted.attacks if attack.bank]
    met = tuple(row for bank in banks for row in bank_rows(bank, seed))
    return _Trial(wanted, agent_model, viruses, infect(healthy, viruses, wanted.shares, seed), defence, seed, met)


def _healthy(
    wanted: TrialSettings, world: OutbreakSettings, chat: ChatModel, embedder: TextEmbedder, seed: int
) -> tuple[AgentState, ...]:
    """The agents before they are infected. All rows of a seed share one life; the first to need it lives it."""
    models = [(model.name, getattr(model, "fingerprint", "")) for model in (chat, embedder)]
    facts = (wanted.agents, wanted.album, wanted.rounds, wanted.memory, wanted.pool, models, seed)
    place = cache_folder() / "lives" / hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    people = persona_pool(wanted.agents, seed)
    with file_lock(place):
        living = AgentModel(remembering(chat, place), EmbeddingCache(embedder, place))
        return asyncio.run(benign_agents(people, pool_for(world), living, wanted.rounds, seed, wanted.album))


def infect(
    agents: Sequence[AgentState], viruses: Sequence[AlbumItem], shares: Sequence[float], seed: int
) -> tuple[AgentState, ...]:
    """Give each share of the agents its number of viruses, in random slots that differ."""
    rng = stream(seed, "trial infection")
    order = rng.sample(range(len(agents)), len(agents))
    out, place = list(agents), 0
    for count, share in enumerate(shares):
        group = order[place : place + round(share * len(agents))]
        place += len(group)
        for index in group:
            album = out[index].album
            for number, slot in enumerate(rng.sample(range(len(album)), count)):
                album = album.replaced(slot, viruses[(index + number) % len(viruses)])
            out[index] = replace(out[index], album=album)
    return tuple(out)


async def _diagnose(trial: _Trial, agents: Sequence[AgentState], first: int) -> list[bool]:
    backend, rng = AgentModelBackend(trial.agent_model), stream(trial.seed, "trial", first)
    if isinstance(trial.defence, MonitorDefence):
        return [d.infected for d in await trial.defence.monitor.diagnose(agents, backend, rng)]
    readings = await take_readings(agents, trial.defence.personas, trial.defence.settings, backend, rng)
    return [infected(r, trial.defence.thresholds, trial.defence.settings) for r in readings]


async def _purified(trial: _Trial, agents: Sequence[AgentState]) -> dict[str, AgentState]:
    """What one round of the defence makes of those it finds infected, by id; everybody is about to speak."""
    view = trial.view(agents)
    if isinstance(trial.defence, MonitorDefence):
        view = replace(view, pairs=tuple((i, i) for i in range(len(agents))))
    return {change.state.id: change.state for change in await trial.defence.before_round(view)}


def _bad(trial: _Trial, album_item: AlbumItem) -> bool:
    return any(album_item.key == virus.key for virus in trial.viruses)


def _sick(trial: _Trial, agent: AgentState) -> int:
    return sum(_bad(trial, k) for k in agent.album)
