"""A gate that comes late: poison has been at work for rounds, and what was made from it lies many hops away.

Settings: fields of the world's scenario, ``gate`` (``none``, ``no repair``, ``isolate``, ``whole``, ``by descent`` and
``by descent, isolate``) and ``begins``, the round in which it comes. The detector is the one that ships, at the
threshold a policy gets that says nothing. Figures are of all teams, from the round after the first pass on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.memory.record_model import AT_WORK_RATE, shared_model
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.memory.defence import EVERY, MemoryDefence, Options
from lazaretto_lab.studies.memory.runner import scenario_from
from lazaretto_lab.worlds.shared_memory import Log, Scenario, outcomes, simulate

GATES = {
    "none": None,
    "no repair": Options(repair=False),
    "isolate": Options(rebuild=False),
    "whole": Options(),
    "by descent": Options(by_descent=True),
    "by descent, isolate": Options(by_descent=True, rebuild=False),
}
DEPTHS = 8
"""Hops that are counted apart; further ones with the last."""
BINS = np.linspace(0, 1, 11)


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One unit: a world that was poisoned for some rounds, and a gate that comes then."""
    gate, begins = str(settings.get("gate", "whole")), int(settings.get("begins", 80))
    if gate not in GATES:
        raise InputError("gate", f"{gate!r} is unknown", f"Use one of {', '.join(GATES)}")
    scenario = scenario_from({k: v for k, v in settings.items() if k not in ("gate", "begins")}, seed)
    options, defence = GATES[gate], None
    if options is not None:
        model = shared_model()
        how = dataclasses.replace(options, begins=begins)
        defence = MemoryDefence(model, scenario, model.fusion.threshold_at(AT_WORK_RATE), how)
    log = simulate(scenario, defence, progress=context.progress)
    return _measured(log, scenario, begins, defence)


def _measured(log: Log, scenario: Scenario, begins: int, defence: MemoryDefence | None) -> dict[str, Any]:
    after = outcomes(log, dataclasses.replace(scenario, quiet_rounds=begins + EVERY))
    before = outcomes(log, scenario)
    found: dict[str, Any] = {k: v for k, v in dataclasses.asdict(after).items() if k != "reward"}
    found |= {"hops_whole_run": before.hops, "max_hops_whole_run": before.max_hops}
    mine = log.round >= scenario.quiet_rounds
    honest, moved = mine & log.honest, mine & (log.kind == 0) & (log.hops > 0)
    gone = log.held | log.rewritten
    found["reward"] = float(log.reward[begins + EVERY :].mean())
    found["honest_kept"] = float(1 - gone[honest].mean())
    found["poison_held"] = float(log.held[log.poisoned].mean()) if log.poisoned.any() else None
    found["far"] = int((moved & (log.hops >= 3)).sum())
    found["far_mended"] = float(gone[moved & (log.hops >= 3)].mean()) if found["far"] else None
    if defence is None:
        return found
    done = {name: defence.done[name] for name in ("isolate", "rewrite", "reconcile", "isolated", "released")}
    found |= {f"{name}_by_defence": int(count) for name, count in done.items()}
    if defence.screened:
        hops, score, plan = (np.concatenate(column) for column in zip(*defence.screened, strict=True))
        depth = np.minimum(hops, DEPTHS)
        found["score_by_depth"] = [np.histogram(score[depth == d], BINS)[0].tolist() for d in range(1, DEPTHS + 1)]
        for name in ("isolate", "rewrite", "reconcile"):
            found[f"{name}_by_depth"] = [int(((depth == d) & (plan == name)).sum()) for d in range(1, DEPTHS + 1)]
    return found
