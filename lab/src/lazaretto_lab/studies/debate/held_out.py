"""The embedded jury on the items it was trained on, honestly: by cross-validated scores that never saw the item.

``training.jury.train`` leaves a work folder with ``examples.jsonl`` and ``jury-scores.npz``: for each fold the logits
of models that missed it. Calibration, debate weights and bars of a fold come from the other folds, and the ordinary
debate runs on top. Those of the shipped version are stored (``lab/results/jury``), so no training is needed.
"""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

import numpy as np
import orjson

from lazaretto.errors import InputError
from lazaretto.gates.content.jury.scorer import DebaterScore, JuryScores, Settings
from lazaretto.gates.content.records import PreparedContent, Role
from lazaretto_lab.training.jury.bundle import FOLDS
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import SEATS, Items, fit, load_items, scored_items

_ROLES = (Role.STRICT, Role.LOOSE)
STORED = Path(__file__).resolve().parents[4] / "results" / "jury"
"""The cross-validated scores of the shipped version, in a checkout."""


@functools.lru_cache(maxsize=2)
def development(work: Path | None) -> tuple[Items, Path]:
    """The development half by cross-validated scores, with the foreign sources that the numbers are fitted on, and the
    file of scores; of a training's work folder, or as stored."""
    if work is not None:
        return load_items(work), work / "jury-scores.npz"
    scores = STORED / "left_out_scores.npz"
    if not scores.is_file():
        raise InputError("work", f"no stored scores in {STORED}", "Name a training's folder in LAZARETTO_JURY_WORK")
    lines = gzip.decompress((STORED / "left_out_items.jsonl.gz").read_bytes()).splitlines()
    return scored_items(scores, [orjson.loads(line) for line in lines]), scores


class HeldOutModels:
    """Takes the place of the shipped models for items of the development half, by their id."""

    version = "held-out"

    def __init__(self, work: Path | None) -> None:
        self.settings: dict[str, Settings] = {}
        self._readings: dict[str, JuryScores] = {}
        items, scores = development(work)
        self._names = _named(scores, items)
        for head in ("text", "image", "pair"):
            for fold in range(FOLDS):
                self._add_fold(f"{head}/{fold}", items.pick(items.head == head), fold)

    def _add_fold(self, name: str, items: Items, fold: int) -> None:
        settings = self.settings[name] = fit(items.pick(items.fold != fold), name.partition("/")[0])
        for row in np.flatnonzero((items.fold == fold) & (items.source == "dev")):
            odds = {r: settings.odds(r, float(items.logits[row, n])) for n, r in enumerate(_ROLES)}
            speaks = sorted(_ROLES, key=lambda role: -odds[role])
            logits = dict(zip(_ROLES, map(float, items.logits[row]), strict=True))
            seats = {
                role: DebaterScore(logits[model], odds[model], (), *self._names[str(items.id[row])])
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


def _named(scores: Path, items: Items) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """Hazards (by Strict's model) and benign contexts (by Loose's) of every development item, each by the model that
    missed its fold."""
    with np.load(scores) as stored:
        names, single = [str(name) for name in stored["recipes"]], stored["single"].tolist()
        place = {int(row): n for n, row in enumerate(stored["named"])}
        hazard, context = (stored[part].astype(np.float64) for part in ("hazard", "context"))
    found = {}
    for n in np.flatnonzero(items.source == "dev"):
        seats = [single.index(names.index(f"{seat}:{items.fold[n]}")) for seat in SEATS]
        row = place[int(items.rows[n])]
        kinds, benign = np.exp(hazard[seats[0], row]), 1 / (1 + np.exp(-context[seats[1], row]))
        shares = dict(zip(HAZARDS, (kinds / kinds.sum()).tolist(), strict=True))
        found[str(items.id[n])] = shares, dict(zip(CONTEXTS, benign.tolist(), strict=True))
    return found
