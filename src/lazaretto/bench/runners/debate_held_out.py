"""The embedded jury on the items it was trained on, honestly: by cross-validated scores that never saw the item.

``training/train_jury.py`` leaves a work folder with ``prepared.json.gz`` and ``scores.npz``: for every fold the
logits of seats that missed it, and of seats that missed it and one more. From these, calibration, debate weights and
thresholds of a fold are fitted on the other folds alone, and the ordinary debate runs on top.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.jury.scoring import Reading, SeatReading, Settings, sigmoid
from lazaretto.gates.content.records import InputKind, Prepared, Role
from lazaretto.learn.jury_data import CONTEXTS, HAZARDS
from lazaretto.learn.jury_evaluation import Scores, fit, item_logits
from lazaretto.learn.jury_runs import FOLDS, load_prepared


class HeldOutModels:
    """Takes the place of the shipped models for items of the development half, by their id."""

    version = "held-out"

    def __init__(self, work: Path) -> None:
        if not (work / "scores.npz").is_file():
            fix = "Run training/train_jury.py and name its work folder in LAZARETTO_JURY_WORK"
            raise InputError("work", f"no scores.npz in {work}", fix)
        prepared = load_prepared(work / "prepared.json.gz")
        with np.load(work / "scores.npz") as stored:
            raw = dict(stored)
        kept = work / "precedents.json"
        self.knows_precedents = kept.is_file()
        """Whether debate weights could be fitted with what precedents say; else they are fitted without."""
        evidence: dict[str, float] = json.loads(kept.read_text(encoding="utf-8")) if self.knows_precedents else {}
        judged = [prepared.items[int(i)] for i in raw.pop("judged")]
        logits = {name: item_logits(values) for name, values in raw.items()}
        self.settings: dict[str, Settings] = {}
        self._readings: dict[str, Reading] = {}
        for kind in InputKind:
            rows = np.array([e.fold >= 0 and e.example.kind is kind for e in judged])
            here = [e for e, r in zip(judged, rows, strict=True) if r]
            scores = Scores(
                np.array([int(e.example.label) for e in here]),
                np.array([e.fold for e in here]),
                {name: values[rows] for name, values in logits.items()},
                np.array([evidence.get(e.example.id, 0.0) for e in here]),
            )
            for fold in range(FOLDS):
                self._add_fold(kind, fold, scores, [e.example.id for e in here])

    def _add_fold(self, kind: InputKind, fold: int, scores: Scores, ids: list[str]) -> None:
        inside = scores.fold != fold
        made = fit(*scores.pick(inside, fold))
        head = f"{kind.value}/{fold}"
        arm, weights = ("debate", made.debate) if self.knows_precedents else ("debate without retrieval", made.blind)
        self.settings[head] = Settings(made.calibration, weights, float(sigmoid(made.thresholds[arm])), 1.0)
        table, _ = scores.pick(~inside, None)
        for line, row in enumerate(np.flatnonzero(~inside)):
            seats = {
                role: SeatReading(float(table[line, n]), (), dict.fromkeys(HAZARDS, 0.0), dict.fromkeys(CONTEXTS, 0.0))
                for n, role in enumerate((Role.STRICT, Role.LOOSE))
            }
            self._readings[ids[row]] = Reading(head, seats, 0, False)

    def read(self, prepared: Prepared) -> Reading | None:
        """The reading of a development item by models that never saw it."""
        try:
            return self._readings[prepared.exhibit.id]
        except KeyError:
            raise InputError(
                "item", f"{prepared.exhibit.id!r} has no held-out score", "Use development items"
            ) from None
