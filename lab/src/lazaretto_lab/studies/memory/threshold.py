"""Where the gate in use holds a memory back, chosen on validation teams.

A threshold that keeps one per cent of false positives in a store where nothing is held back keeps another share once
it is used, because what is held no longer speaks for or against others. So the defence reads again what the
validation teams wrote, with its second looks and releases, and the threshold is the most watchful one that ends with
at most one in a hundred honest memories held, two standard errors between teams on the safe side.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.record_model import AT_WORK_RATE, RecordModel
from lazaretto_lab.studies.memory.defence import MemoryDefence, Options
from lazaretto_lab.worlds.shared_memory.log import Log
from lazaretto_lab.worlds.shared_memory.scenario import Scenario
from lazaretto_lab.worlds.shared_memory.world import Screen, Writes


def choose_hold_threshold(
    model: RecordModel, log: Log, scenario: Scenario, teams: NDArray[np.int64], options: Options | None = None
) -> RecordModel:
    """The model with ``hold`` chosen on some teams; the strictest known threshold where none keeps enough."""
    honest = np.isin(log.team, teams) & log.honest & (log.round >= scenario.quiet_rounds)
    candidates = [threshold for _, threshold in model.fusion.by_rate]
    low, high = 0, len(candidates) - 1  # the first is the strictest; shares held rise along the list
    while low < high:
        middle = (low + high + 1) // 2
        held = replay_defence(MemoryDefence(model, scenario, candidates[middle], options), log, scenario, teams)
        shares = np.array([held[honest & (log.team == team)].mean() for team in teams.tolist()])
        most = shares.mean() + 2 * shares.std(ddof=1) / np.sqrt(len(shares))
        low, high = (middle, high) if most <= AT_WORK_RATE else (low, middle - 1)
    return model.with_fusion(dataclasses.replace(model.fusion, hold=candidates[low]))


def replay_defence(screen: Screen, log: Log, scenario: Scenario, teams: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which memories of a run end up held when a defence reads what some teams wrote, in order."""
    held = np.zeros(len(log), dtype=bool)
    outside = ~np.isin(np.arange(scenario.teams), teams)
    bounds = np.searchsorted(log.round, np.arange(scenario.rounds + 1))
    for index in range(scenario.rounds):
        rows = np.arange(bounds[index], bounds[index + 1])
        rows = rows[~outside[log.team[rows]]]
        if not len(rows):
            continue
        reported = log.reported[index].copy()
        reported[outside] = np.nan
        written = (log.team[rows], log.agent[rows], log.memories(rows), log.parents[rows], log.success[rows], reported)
        held[rows] = screen.admit(Writes(rows, *written))
        mending = screen.mend(index)
        if mending is not None:
            held[mending.hide], held[mending.show] = True, False
    return held
