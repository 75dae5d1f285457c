"""The embedded jury on the items it was trained on, honestly: by cross-validated scores that never saw the item.

``training.jury.train`` leaves a work folder with ``prepared.json.gz``, ``precedents.json`` and a ``scores.npz`` for
every way of training: for each fold the logits of models that missed it, and of those that missed it and one more.
From these, the way of training, calibration, debate weights and thresholds of a fold come from the other folds alone,
and the ordinary debate runs on top.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.jury.scorer import DebaterScore, JuryScores, Settings, sigmoid
from lazaretto.gates.content.records import PreparedContent, Role
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import Scores, fit
from lazaretto_lab.training.jury.lexicon import fit_lexicons
from lazaretto_lab.training.jury.runs import FOLDS, labelled
from lazaretto_lab.training.jury.scores import Development, load_development, read_evidence


@functools.lru_cache(maxsize=1)
def development(work: Path, data: Path) -> Development:
    """The development half by cross-validated scores."""
    evidence = read_evidence(work)
    examples, numbers = labelled(data)
    _, words = fit_lexicons(examples, np.array(numbers), FOLDS)
    return load_development(work, evidence, words)


class HeldOutModels:
    """Takes the place of the shipped models for items of the development half, by their id."""

    version = "held-out"

    def __init__(self, work: Path, data: Path, *, retrieval: bool) -> None:
        """``retrieval``: whether debate weights are fitted with what precedents say, or without."""
        self.settings: dict[str, Settings] = {}
        self._readings: dict[str, JuryScores] = {}
        self._arm = "debate" if retrieval else "debate without retrieval"
        found = development(work, data)
        for kind, ids in found.ids.items():
            for fold, scores in enumerate(found.folds(kind)):
                self._add_fold(f"{kind.value}/{fold}", fold, scores, ids)

    def _add_fold(self, head: str, fold: int, scores: Scores, ids: tuple[str, ...]) -> None:
        inside = scores.fold != fold
        made = fit(*scores.pick(inside, fold))
        weights = made.debate if self._arm == "debate" else made.blind
        self.settings[head] = Settings(made.calibration, weights, float(sigmoid(made.thresholds[self._arm])), 1.0)
        table, _ = scores.pick(~inside, None)
        alone = made.arms(table)
        for line, row in enumerate(np.flatnonzero(~inside)):
            seats = {
                role: DebaterScore(
                    float(table[line, n]),
                    float(alone[f"{role.value} alone"][line]),
                    (),
                    dict.fromkeys(HAZARDS, 0.0),
                    dict.fromkeys(CONTEXTS, 0.0),
                )
                for n, role in enumerate((Role.STRICT, Role.LOOSE))
            }
            self._readings[ids[row]] = JuryScores(head, seats, 0, False)

    def read(self, prepared: PreparedContent) -> JuryScores | None:
        """The reading of a development item by models that never saw it."""
        try:
            return self._readings[prepared.content.id]
        except KeyError:
            raise InputError(
                "item", f"{prepared.content.id!r} has no held-out score", "Use development items"
            ) from None
