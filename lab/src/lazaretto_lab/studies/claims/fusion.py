"""Fits alpha of the claims' risk, P = alpha (1 - C) + (1 - alpha) times the probability of a conflict.

    python -m lazaretto_lab.studies.claims.fusion --out lab/results/claims        # development worlds: seeds 100 to 102

Every note of a world of shared notes that contradicts something known gives its credibility C, the model's
probability of a conflict, and the truth: a lie of the attacker, or the honest word of somebody who may say it. Alpha is
the value with the highest AUC, as in the numeric world: the risk orders what is held, provenance decides what is. Each
world is also scored with the alpha of the others. What is made of lies is left out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lazaretto.gates.memory.claims.update_rule import risk
from lazaretto.types import Verdict
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.studies.claims.figures import tell
from lazaretto_lab.studies.notes.defences import GuardDefence
from lazaretto_lab.worlds.shared_notes.scenario import Scenario
from lazaretto_lab.worlds.shared_notes.world import World, Written

SEEDS = (100, 101, 102)
"""Development worlds: the experiments report seeds 0 to 4."""
ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class Judged:
    """A note that contradicts something known."""

    seed: int
    credibility: float
    conflict: float
    lie: bool
    refused: bool


class _Listening(GuardDefence):
    """The guard as installed, that keeps what its verdicts say about claims."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: dict[str, tuple[float, float, bool]] = {}

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        """Remembered as ever."""
        decision = self.guard.remember(text, agent=agent, source=source, parents=list(parents))
        found = _claim(decision.verdicts)
        if found is not None:
            self.told[decision.item] = found
        return Written(decision.item, not decision.allowed, decision.risk, decision.ruling.label)


def _claim(verdicts: Sequence[Verdict]) -> tuple[float, float, bool] | None:
    """Credibility, probability of a conflict, and whether the change was refused."""
    for verdict in verdicts:
        for one in verdict.evidence:
            if one.kind == "claim" and "credibility" in one.data:
                words = one.data["words"]
                refused = one.data["relation"] == "contradicts"
                return float(one.data["credibility"]), float(words["contradicts"] + words["updates"]), refused
    return None


def collected(seed: int, rounds: int) -> list[Judged]:
    """The notes of one world that contradict something known."""
    with tempfile.TemporaryDirectory() as folder, _Listening(Path(folder)) as defence:
        log = World(Scenario(seed=seed, rounds=rounds), defence).run()
        notes = [note for note in log.notes if note.item in defence.told and (note.goal >= 0 or note.origin < 0)]
        return [
            Judged(seed, credibility, conflict, note.goal >= 0, refused)
            for note in notes
            for credibility, conflict, refused in (defence.told[note.item],)
        ]


def log_loss(alpha: float, judged: Sequence[Judged]) -> float:
    """The mean loss of the risk as a probability; lies and honest notes weigh the same together."""
    sides = []
    for lie in (True, False):
        risks = [risk(alpha, one.credibility, one.conflict) for one in judged if one.lie is lie]
        bounded = [min(1 - _LEAST, max(_LEAST, value)) for value in risks]
        sides.append(sum(-math.log(value if lie else 1 - value) for value in bounded) / len(bounded))
    return sum(sides) / 2


def ranked(alpha: float, judged: Sequence[Judged]) -> float:
    """AUC of the risk: how often a lie has more of it than an honest note."""
    return auc([one.lie for one in judged], [risk(alpha, one.credibility, one.conflict) for one in judged])


def fitted(judged: Sequence[Judged]) -> float:
    """The alpha with the highest AUC; of several the one with the lowest loss."""
    return max(ALPHAS, key=lambda alpha: (round(ranked(alpha, judged), 4), -log_loss(alpha, judged)))


def report(judged: Sequence[Judged]) -> dict[str, object]:
    """Alpha, what it costs to take another, and how the fit does on a world that it has not seen."""
    lies = sum(one.lie for one in judged)
    left_out = {}
    for seed in sorted({one.seed for one in judged}):
        others, mine = ([one for one in judged if (one.seed == seed) is same] for same in (False, True))
        if len({one.lie for one in mine}) == 2 and len({one.lie for one in others}) == 2:
            alpha = fitted(others)
            aucs = {name: round(ranked(at, mine), 4) for name, at in (("auc", alpha), ("auc_at_0.6", 0.6))}
            left_out[seed] = {"alpha": alpha, "honest": sum(not one.lie for one in mine), **aucs}
    return {
        "alpha": fitted(judged), "lies": lies, "honest": len(judged) - lies,
        "auc": {str(alpha): round(ranked(alpha, judged), 4) for alpha in ALPHAS},
        "loss": {str(alpha): round(log_loss(alpha, judged), 4) for alpha in ALPHAS},
        "left_out": left_out,
    }  # fmt: skip


def main() -> None:
    """Collect, fit, print, and keep the figures with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, default=Scenario().rounds)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    judged = [one for seed in given.seeds for one in collected(seed, given.rounds)]
    tell(report(judged), map(asdict, judged), given.out, "alpha", "alpha_notes")


if __name__ == "__main__":
    main()
