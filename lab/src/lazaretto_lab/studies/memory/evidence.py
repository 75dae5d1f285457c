"""From a run of the shared-memory world to what a detector sees: the evidence around every memory when written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import (
    EvidenceTable,
    GroupWindows,
    MemoryOrigins,
    concatenated,
    selected,
    window_rows,
)
from lazaretto.gates.memory.record_model import Fusion, RecordModel
from lazaretto.models.record_embedding import DIMENSION, Floats
from lazaretto_lab.attacks.memory.craft import Memories
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY, Log
from lazaretto_lab.worlds.shared_memory.scenario import MAX_AGENTS, Scenario

CROSS_SHARE = 0.08
"""Cross-poisoned memories per memory of a training team."""
CLEANED = 0.9
"""Of poison and what it moved, the share that a working detector keeps out of the evidence, as training assumes it."""
Ints = NDArray[np.int64]
TRUST = RecordModel({}, Fusion())
"""For the credibility of a memory when it is taken in, which no training changes."""


@dataclass(frozen=True, slots=True)
class Split:
    """Which teams serve for what: no team is in two parts, every domain is in all."""

    train: NDArray[np.int64]
    validate: NDArray[np.int64]
    test: NDArray[np.int64]


def split_teams(scenario: Scenario) -> Split:
    """Of ten teams of a domain, four train, one validates and five test; at least one each.

    The places are turned from domain to domain, because a team's size goes with its place: every size is in all parts.
    """
    domain, place = np.divmod(np.arange(scenario.teams), scenario.per_domain)
    place = (place + domain) % scenario.per_domain
    share = place / scenario.per_domain
    parts = np.where(share < 0.4, 0, np.where(share < 0.5, 1, 2)) if scenario.per_domain >= 5 else place % 3
    return Split(*(np.flatnonzero(parts == n) for n in range(3)))


def first_of_each_domain(split: Split, scenario: Scenario, count: int) -> Split:
    """The same parts with only the first ``count`` test teams of each domain."""
    domain = split.test // scenario.per_domain
    chosen = [split.test[domain == d][:count] for d in np.unique(domain).tolist()]
    return Split(split.train, split.validate, np.concatenate(chosen))


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """The evidence around the memories of a log (row by row), and around cross-poisoned ones."""

    rows: Ints
    """The memories that were looked at, as rows of the log."""
    looked: EvidenceTable
    cross: EvidenceTable
    vectors: NDArray[np.float16]
    """Embeddings in half precision, for the baselines."""


def team_windows(scenario: Scenario) -> GroupWindows:
    """One evidence window per team."""
    return GroupWindows(scenario.teams, MAX_AGENTS * scenario.window)


def collect_evidence(
    log: Log,
    scenario: Scenario,
    noise: float = 0.0,
    screened: bool = False,
    progress: Callable[[float, str], None] = lambda share, note: None,
) -> LogEvidence:
    """Look at every memory as it was written. ``noise`` disturbs the embeddings.

    Usually nothing is held back. ``screened`` takes the training teams alone, with nine in ten of the poisoned memories
    and of those they moved kept out of the windows: what a detector sees once it is used. A memory that says of itself
    that it failed is looked at, but is no evidence of what to do.
    """
    windows = team_windows(scenario)
    rng = np.random.default_rng([scenario.seed, 21, int(screened)])
    training = np.isin(np.arange(scenario.teams), split_teams(scenario).train)
    out = screened & ~log.honest & (rng.random(len(log)) < CLEANED)
    bounds = np.searchsorted(log.round, np.arange(scenario.rounds + 1))
    looks, cross, taken_rows = [], [], []
    vectors = np.empty((0 if screened else len(log), DIMENSION), dtype=np.float16)
    for index in range(scenario.rounds):
        rows = np.arange(bounds[index], bounds[index + 1])
        rows = rows[training[log.team[rows]]] if screened else rows
        if not len(rows):
            continue
        memories = log.memories(rows)
        embedded = disturbed(memories.embedded(VOCABULARY), noise, rng)
        if not screened:
            vectors[rows] = embedded
        origin = MemoryOrigins(log.team[rows], log.agent[rows], log.parents[rows])
        windows.record_outcomes(log.reported[index])
        brief = window_rows(embedded)
        looked = windows.evidence_for(brief, origin)
        looks.append(looked)
        taken_rows.append(rows)
        swapped = np.flatnonzero(training[origin.group] & (rng.random(len(rows)) < CROSS_SHARE) & ~log.poisoned[rows])
        if len(swapped) and index >= scenario.quiet_rounds:
            fake = _crossed(memories, origin.group, swapped, rng)
            cross.append(windows.evidence_for(window_rows(fake.embedded(VOCABULARY)), origin[swapped]))
        windows.record_use(origin, log.success[rows])
        kept = np.flatnonzero(~out[rows] & log.success[rows])
        windows.add(brief[kept], origin[kept], rows[kept], TRUST.own_credibility(selected(looked, kept)))
        if index % 20 == 0:
            progress(index / scenario.rounds, f"evidence, round {index}")
    return LogEvidence(np.concatenate(taken_rows), concatenated(looks), concatenated(cross), vectors)


def embeddings(log: Log, noise: float = 0.0, seed: int = 0) -> NDArray[np.float16]:
    """The vectors of all memories alone, for methods that look at nothing around them."""
    vectors, rng = np.empty((len(log), DIMENSION), dtype=np.float16), np.random.default_rng([seed, 21])
    for start in range(0, len(log), 4_096):
        part = slice(start, start + 4_096)
        vectors[part] = disturbed(log.memories(part).embedded(VOCABULARY), noise, rng)
    return vectors


def disturbed(vectors: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Embeddings with noise of the given length relative to them, unit again."""
    if not noise:
        return vectors
    shaken = vectors + rng.standard_normal(vectors.shape, dtype=np.float32) * np.float32(noise / np.sqrt(DIMENSION))
    return np.asarray(shaken / np.linalg.norm(shaken, axis=1, keepdims=True), dtype=np.float32)


def _crossed(
    memories: Memories, team: NDArray[np.int64], rows: NDArray[np.int64], rng: np.random.Generator
) -> Memories:
    """Memories with the action of another memory of the same round and domain (any team-mate's, else anyone's)."""
    partner = np.array([rng.choice(np.flatnonzero(team == t)) for t in team[rows].tolist()])
    chosen = memories[rows]
    return Memories(chosen.state, chosen.context, memories.action[partner], chosen.tags)
