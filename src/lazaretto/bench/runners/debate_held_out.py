"""The embedded jury on the items it was trained on, honestly: by cross-validated scores that never saw the item.

``training/train_jury.py`` leaves a work folder with ``prepared.json.gz``, ``scores.npz`` and ``precedents.json``: for
every fold the logits of seats that missed it, and of seats that missed it and one more. From these, calibration,
debate weights and thresholds of a fold are fitted on the other folds alone, and the ordinary debate runs on top.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.jury.scoring import Reading, SeatReading, Settings, sigmoid
from lazaretto.gates.content.records import InputKind, Prepared, Role
from lazaretto.learn.jury_data import CONTEXTS, HAZARDS
from lazaretto.learn.jury_evaluation import Scores, fit, item_logits
from lazaretto.learn.jury_lexicon import fit_lexicons
from lazaretto.learn.jury_runs import FOLDS, labelled, load_prepared


@functools.lru_cache(maxsize=1)
def development_scores(work: Path, data: Path) -> dict[InputKind, tuple[Scores, tuple[str, ...]]]:
    """Per kind of input: every development item's scores, and the items' ids in the same order."""
    if not (work / "scores.npz").is_file() or not (work / "precedents.json").is_file():
        fix = "Run training/train_jury.py and name its work folder in LAZARETTO_JURY_WORK"
        raise InputError("work", f"no scores.npz and precedents.json in {work}", fix)
    prepared = load_prepared(work / "prepared.json.gz")
    evidence: dict[str, float] = json.loads((work / "precedents.json").read_text(encoding="utf-8"))
    with np.load(work / "scores.npz") as stored:
        raw = dict(stored)
    judged = [prepared.items[int(i)] for i in raw.pop("judged")]
    logits = {name: item_logits(values) for name, values in raw.items()}
    examples, numbers = labelled(data)
    _, words = fit_lexicons(examples, np.array(numbers), FOLDS)
    found = {}
    for kind in InputKind:
        rows = np.array([e.fold >= 0 and e.example.kind is kind for e in judged])
        here = [e for e, r in zip(judged, rows, strict=True) if r]
        ids = tuple(e.example.id for e in here)
        lexical = {n: np.array([by.get(i, np.nan) for i in ids]) for n, by in words.items()}
        scores = Scores(
            np.array([int(e.example.label) for e in here]),
            np.array([e.fold for e in here]),
            {name: values[rows] for name, values in logits.items()},
            np.array([evidence[i] for i in ids]),
            lexical if kind is InputKind.TEXT else {},
        )
        found[kind] = (scores, ids)
    return found


class HeldOutModels:
    """Takes the place of the shipped models for items of the development half, by their id."""

    version = "held-out"

    def __init__(self, work: Path, data: Path, *, retrieval: bool) -> None:
        """``retrieval``: whether debate weights are fitted with what precedents say, or without."""
        self.settings: dict[str, Settings] = {}
        self._readings: dict[str, Reading] = {}
        self._arm = "debate" if retrieval else "debate without retrieval"
        for kind, (scores, ids) in development_scores(work, data).items():
            for fold in range(FOLDS):
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
                role: SeatReading(
                    float(table[line, n]),
                    float(alone[f"{role.value} alone"][line]),
                    (),
                    dict.fromkeys(HAZARDS, 0.0),
                    dict.fromkeys(CONTEXTS, 0.0),
                )
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
