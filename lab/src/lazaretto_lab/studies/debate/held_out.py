"""The embedded jury on the items it was trained on, honestly: by cross-validated scores that never saw the item.

``training.jury.train`` leaves a work folder with ``examples.jsonl`` and ``jury-scores.npz``: for each fold the logits
of models that missed it. Calibration, debate weights and bars of a fold come from the other folds, and the ordinary
debate runs on top.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.jury.scorer import DebaterScore, JuryScores, Settings
from lazaretto.gates.content.records import PreparedContent, Role
from lazaretto_lab.training.jury.bundle import FOLDS
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import Items, fit, load_items

_ROLES = (Role.STRICT, Role.LOOSE)


@functools.lru_cache(maxsize=1)
def development(work: Path) -> Items:
    """The development half by cross-validated scores, with the foreign sources that the numbers are fitted on."""
    return load_items(work)


class HeldOutModels:
    """Takes the place of the shipped models for items of the development half, by their id."""

    version = "held-out"

    def __init__(self, work: Path) -> None:
        self.settings: dict[str, Settings] = {}
        self._readings: dict[str, JuryScores] = {}
        items = development(work)
        for head in ("text", "image", "pair"):
            for fold in range(FOLDS):
                self._add_fold(f"{head}/{fold}", items.pick(items.head == head), fold)

    def _add_fold(self, name: str, items: Items, fold: int) -> None:
        settings = self.settings[name] = fit(items.pick(items.fold != fold), name.partition("/")[0])
        blank = dict.fromkeys(HAZARDS, 0.0), dict.fromkeys(CONTEXTS, 0.0)
        for row in np.flatnonzero((items.fold == fold) & (items.source == "dev")):
            odds = {r: settings.odds(r, float(items.logits[row, n])) for n, r in enumerate(_ROLES)}
            speaks = sorted(_ROLES, key=lambda role: -odds[role])
            logits = dict(zip(_ROLES, map(float, items.logits[row]), strict=True))
            seats = {
                role: DebaterScore(logits[model], odds[model], (), *blank)
                for role, model in zip(_ROLES, speaks, strict=True)
            }
            self._readings[str(items.id[row])] = JuryScores(name, seats, 0, False)

    def read(self, prepared: PreparedContent) -> JuryScores | None:
        """The reading of a development item by models that never saw it."""
        try:
            return self._readings[prepared.content.id]
        except KeyError:
            raise InputError(
                "item", f"{prepared.content.id!r} has no held-out score", "Use development items"
            ) from None
