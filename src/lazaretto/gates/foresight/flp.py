"""Foresight as published (mode ``flp``): six rehearsed chats, two measures, two thresholds, local to the agent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lazaretto.agents.persona import Persona
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError
from lazaretto.gates.foresight.backend import RehearsalBackend
from lazaretto.gates.foresight.diversity import retrieval_entropy, semantic_diversity
from lazaretto.gates.foresight.rehearsal import RehearsalResult, rehearse

QUANTILE = 0.075
"""delta: share of benign rehearsals at or below each threshold, as published."""


@dataclass(frozen=True, slots=True)
class FlpThresholds:
    """The limits of benign rehearsals."""

    entropy: float
    diversity: float
    drift: float


@dataclass(frozen=True, slots=True)
class FlpSettings:
    """The settings of a rehearsal."""

    personas: int = 4
    """Behind how many personas: its own and others drawn from the pool."""
    passes: int = 3
    """Rounds of the rehearsal; with 4 personas, 6 chats and 18 model calls."""
    heterogeneous: bool = True
    """False: its own persona on all sides (the paper's ablation)."""
    use_entropy: bool = True
    use_diversity: bool = True

    def __post_init__(self) -> None:
        if self.personas < 1 or self.passes < 1:
            raise InputError("foresight", "rehearses with 1 persona and 1 pass at least", "Use 1 or more")
        if not (self.use_entropy or self.use_diversity):
            raise InputError("foresight", "no measure is left to diagnose with", "Use entropy, diversity or both")


@dataclass(frozen=True, slots=True)
class FlpReading:
    """The measures of one agent. None where the rehearsal gave too little to measure."""

    entropy: float | None
    diversity: float | None
    centre: NDArray[np.float64] | None = field(default=None, repr=False)
    """Mean embedding of the records, for drift."""
    faults: tuple[str, ...] = ()
    retrieved: tuple[str, ...] = ()
    """Keys of what the rehearsed chats fetched, in order."""

    def drift(self, before: FlpReading | None) -> float | None:
        """1 - cos to the reading of the round before; None without one."""
        if before is None or before.centre is None or self.centre is None:
            return None
        size = float(np.linalg.norm(self.centre) * np.linalg.norm(before.centre))
        return 1.0 - float(self.centre @ before.centre) / size if size else None


def read(rehearsed: RehearsalResult, backend: RehearsalBackend) -> FlpReading:
    """The measures of a rehearsal."""
    entropy = retrieval_entropy(rehearsed.retrieved) if rehearsed.retrieved else None
    if not rehearsed.records:
        return FlpReading(entropy, None, None, rehearsed.faults, rehearsed.retrieved)
    rows = backend.text_vectors(rehearsed.records).astype(np.float64)
    diversity = semantic_diversity(rows) if len(rows) > 1 else None
    return FlpReading(entropy, diversity, rows.mean(axis=0), rehearsed.faults, rehearsed.retrieved)


def cast_of(
    agent: AgentState, pool: Sequence[Persona], settings: FlpSettings, rng: random.Random
) -> tuple[Persona, ...]:
    """The agent's own persona and others from the pool; its own alone when it has no other."""
    others = [persona for persona in pool if persona != agent.persona]
    if not settings.heterogeneous or not others:
        return (agent.persona,) * settings.personas
    return (agent.persona, *rng.sample(others, min(settings.personas - 1, len(others))))


async def take_readings(
    agents: Sequence[AgentState],
    pool: Sequence[Persona],
    settings: FlpSettings,
    backend: RehearsalBackend,
    rng: random.Random,
) -> list[FlpReading]:
    """Rehearse every agent and measure it."""
    casts = [cast_of(agent, pool, settings, rng) for agent in agents]
    return [read(rehearsed, backend) for rehearsed in await rehearse(agents, casts, settings.passes, backend, rng)]


def infected(reading: FlpReading, thresholds: FlpThresholds, settings: FlpSettings) -> bool:
    """Both measures at or below their thresholds. What could not be measured is no evidence: not infected."""
    low = []
    if settings.use_entropy:
        low.append(reading.entropy is not None and reading.entropy <= thresholds.entropy + 1e-12)
    if settings.use_diversity:
        low.append(reading.diversity is not None and reading.diversity <= thresholds.diversity)
    return all(low)
