"""From a run of the shared-memory world to what a detector sees: the looks of every memory, in the order of writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.attacks.memory.craft import Memories
from lazaretto.gates.memory.evidence import Looked, Window, joined, taken
from lazaretto.models.record_embedding import Floats
from lazaretto.worlds.shared_memory.log import VOCABULARY, Log
from lazaretto.worlds.shared_memory.scenario import MAX_AGENTS, Scenario

CROSS_SHARE = 0.08
"""Cross-poisoned memories per memory of a training team."""
EQUAL_CREDIBILITY = np.float32(1 / 3)


@dataclass(frozen=True, slots=True)
class Split:
    """Which teams serve for what: no team is in two parts, every domain is in all."""

    train: NDArray[np.int64]
    validate: NDArray[np.int64]
    test: NDArray[np.int64]


def split_teams(scenario: Scenario) -> Split:
    """Of ten teams of a domain, four train, one validates and five test; at least one each."""
    place = np.arange(scenario.teams) % scenario.per_domain
    share = place / scenario.per_domain
    parts = np.where(share < 0.4, 0, np.where(share < 0.5, 1, 2)) if scenario.per_domain >= 5 else place % 3
    return Split(*(np.flatnonzero(parts == n) for n in range(3)))


@dataclass(frozen=True, slots=True)
class Walked:
    """The looks of all memories of a log (row by row), and of cross-poisoned ones."""

    looked: Looked
    cross: Looked
    vectors: NDArray[np.float16]
    """Embeddings in half precision, for the baselines."""


class TeamWindows:
    """One evidence window per team."""

    def __init__(self, scenario: Scenario) -> None:
        self.windows = [Window(MAX_AGENTS * scenario.window) for _ in range(scenario.teams)]
        self._names = [str(a) for a in range(MAX_AGENTS)]

    def hear(self, reported: Floats) -> None:
        """Outcomes of a round, (teams, agents)."""
        for team, agent in np.argwhere(~np.isnan(reported)).tolist():
            writers = self.windows[team].writers
            writers.reported(writers.place(self._names[agent]), float(reported[team, agent]))

    def look(
        self,
        team: NDArray[np.int64],
        agent: NDArray[np.int64],
        vectors: Floats,
        ids: NDArray[np.int64] | None = None,
    ) -> Looked:
        """Looks of some memories, in their order; ``ids`` when they already are in the windows."""
        order = np.argsort(team, kind="stable")
        parts = [
            self.windows[t].look(
                vectors[rows], [self._names[a] for a in agent[rows].tolist()], None if ids is None else ids[rows]
            )
            for t, rows in _groups(team, order)
        ]
        back = np.empty(len(team), dtype=np.int64)
        back[order] = np.arange(len(team))
        return taken(joined(parts), back)

    def add(
        self,
        where: tuple[NDArray[np.int64], NDArray[np.int64]],
        ids: NDArray[np.int64],
        vectors: Floats,
        looked: Looked,
    ) -> None:
        """Take memories in; ``where`` are their teams and agents."""
        team, agent = where
        credibility = (np.clip(looked.similarity, 0, 1) + looked.stability + 1 - looked.conflict) * EQUAL_CREDIBILITY
        for t, rows in _groups(team, np.argsort(team, kind="stable")):
            names = [self._names[a] for a in agent[rows].tolist()]
            self.windows[t].add(vectors[rows], names, ids[rows].tolist(), credibility[rows], looked.short[rows])


def _groups(team: NDArray[np.int64], order: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    ends = np.flatnonzero(np.diff(team[order])) + 1
    return [(int(team[rows[0]]), rows) for rows in np.split(order, ends) if len(rows)]


def walk(
    log: Log,
    scenario: Scenario,
    noise: float = 0.0,
    progress: Callable[[float, str], None] = lambda share, note: None,
) -> Walked:
    """Look at every memory as it was written, with nothing held back. ``noise`` disturbs the embeddings."""
    windows = TeamWindows(scenario)
    rng = np.random.default_rng([scenario.seed, 21])
    training = np.isin(np.arange(scenario.teams), split_teams(scenario).train)
    bounds = np.searchsorted(log.round, np.arange(scenario.rounds + 1))
    looks, cross = [], []
    vectors = np.empty((len(log), 768), dtype=np.float16)
    for index in range(scenario.rounds):
        rows = np.arange(bounds[index], bounds[index + 1])
        if not len(rows):
            continue
        memories = log.memories(rows)
        embedded = disturbed(memories.embedded(VOCABULARY), noise, rng)
        vectors[rows] = embedded
        team, agent = log.team[rows], log.agent[rows]
        windows.hear(log.reported[index])
        looked = windows.look(team, agent, embedded)
        looks.append(looked)
        swapped = np.flatnonzero(training[team] & (rng.random(len(rows)) < CROSS_SHARE) & ~log.poisoned[rows])
        if len(swapped) and index >= scenario.quiet_rounds:
            fake = _crossed(memories, team, swapped, rng)
            cross.append(windows.look(team[swapped], agent[swapped], fake.embedded(VOCABULARY)))
        windows.add((team, agent), rows, embedded, looked)
        if index % 20 == 0:
            progress(index / scenario.rounds, f"evidence, round {index}")
    return Walked(joined(looks), joined(cross), vectors)


def disturbed(vectors: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Embeddings with noise of the given length relative to them, unit again."""
    if not noise:
        return vectors
    shaken = vectors + rng.standard_normal(vectors.shape, dtype=np.float32) * np.float32(noise / np.sqrt(768))
    return np.asarray(shaken / np.linalg.norm(shaken, axis=1, keepdims=True), dtype=np.float32)


def _crossed(
    memories: Memories, team: NDArray[np.int64], rows: NDArray[np.int64], rng: np.random.Generator
) -> Memories:
    """Memories with the action of another memory of the same round and domain (any team-mate's, else anyone's)."""
    partner = np.array([rng.choice(np.flatnonzero(team == t)) for t in team[rows].tolist()])
    chosen = memories[rows]
    return Memories(chosen.state, chosen.context, memories.action[partner], chosen.tags)
