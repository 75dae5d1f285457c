"""Makes the weights of the structured-memory detector that ship with the package.

    lazaretto train records

Trains on a world of its own (a seed that no experiment uses) and writes weights and fusion; prints what it reaches on
the teams it was not trained on.
"""

from __future__ import annotations

import json
import sys

from lazaretto.gates.memory.record_model import WEIGHTS
from lazaretto_lab.studies.memory.evidence import collect_evidence, split_teams
from lazaretto_lab.studies.memory.runner import detection, fit
from lazaretto_lab.studies.memory.threshold import choose_hold_threshold
from lazaretto_lab.training.records.training import TrainingSettings
from lazaretto_lab.worlds.shared_memory import Scenario, simulate

SCENARIO = Scenario(seed=7_001, rounds=140, per_domain=5, poison=None, ratio=0.05616)


def main() -> None:
    """Train, write, print."""
    log = simulate(SCENARIO)
    evidence = collect_evidence(log, SCENARIO)
    split = split_teams(SCENARIO)
    model = fit(log, (evidence, collect_evidence(log, SCENARIO, screened=True)), split, TrainingSettings(seed=7_001))
    model = choose_hold_threshold(model, log, SCENARIO, split.validate)
    model.save(WEIGHTS)
    found = detection(log, model.score(evidence.looked).fused, model.fusion.threshold, SCENARIO)
    json.dump({name: value for name, value in found.items() if not isinstance(value, list)}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
