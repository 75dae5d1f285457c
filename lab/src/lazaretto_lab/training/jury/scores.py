"""What cross-validated seats made of the development half, and which way of training the inner folds prefer.

Each way of training (``runs.VARIANTS``) leaves a folder with the scores of all its seats; Strict may come from
one and Loose from another. For a fold, the pair is chosen by how well its debates rank the items of the other folds, by
seats that saw neither those items nor the fold; so nothing that is reported was used to choose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.content.records import InputKind
from lazaretto_lab.training.jury.evaluation import SEATS, Floats, Scores, item_logits, ranking_quality
from lazaretto_lab.training.jury.runs import FOLDS, load_prepared
from lazaretto_lab.training.jury.training import EncodedTexts

_TRAIN_FIRST = "Run lazaretto train jury and name its work folder in LAZARETTO_JURY_WORK"
Pair = tuple[str, str]
"""The ways in which Strict and Loose were trained."""


@dataclass(frozen=True, slots=True)
class Development:
    """The development half, scored by every pair of ways of training."""

    pairs: Mapping[Pair, Mapping[InputKind, Scores]]
    ids: Mapping[InputKind, tuple[str, ...]]
    """The items' ids, in the order of the scores."""
    logits: Mapping[str, Mapping[str, Floats]]
    """By way and recipe: the logits of everything judged, foreign sets included."""
    judged: tuple[EncodedTexts, ...]
    """What the logits belong to, in order."""
    by_fold: tuple[Pair, ...]
    """The pair chosen for each fold, by the others alone."""
    final: Pair
    """The pair chosen by all folds: what is shipped."""

    def folds(self, kind: InputKind) -> list[Scores]:
        """The scores that count for each fold."""
        return [self.pairs[pair][kind] for pair in self.by_fold]


def load_development(
    work: Path, evidence: Mapping[str, float], lexical: Mapping[str, Mapping[str, float]]
) -> Development:
    """Everything in the work folder, chosen between by inner folds."""
    found = {path.parent.name: path for path in sorted(work.glob("*/scores.npz"))}
    if not found:
        raise InputError("work", f"no scores of any way of training in {work}", _TRAIN_FIRST)
    prepared = load_prepared(work / "prepared.json.gz")
    logits: dict[str, dict[str, Floats]] = {}
    judged: list[EncodedTexts] = []
    for name, path in found.items():
        with np.load(path) as stored:
            raw = dict(stored)
        judged = [prepared.items[int(i)] for i in raw.pop("judged")]
        logits[name] = {recipe: item_logits(values) for recipe, values in raw.items()}
    pairs = {}
    for pair in product(found, found):
        seated = role_logits(logits, pair)
        pairs[pair] = {kind: _scores(judged, kind, seated, evidence, lexical) for kind in InputKind}
    ids = {kind: tuple(e.example.id for e in judged if e.fold >= 0 and e.example.kind is kind) for kind in InputKind}
    by_fold = tuple(choose(pairs, fold) for fold in range(FOLDS))
    return Development(pairs, ids, logits, tuple(judged), by_fold, choose(pairs, None))


def role_logits(logits: Mapping[str, Mapping[str, Floats]], pair: Pair) -> dict[str, Floats]:
    """By recipe, each seat's logits from its own way of training."""
    return {
        recipe: values
        for seat, way in zip(SEATS, pair, strict=True)
        for recipe, values in logits[way].items()
        if recipe.startswith(f"{seat}:")
    }


def choose(pairs: Mapping[Pair, Mapping[InputKind, Scores]], unseen: int | None) -> Pair:
    """The pair whose debates rank the items outside ``unseen`` best, kinds counting alike."""
    return max(pairs, key=lambda pair: np.mean([ranking_quality(s, unseen) for s in pairs[pair].values()]))


def _scores(
    judged: Sequence[EncodedTexts],
    kind: InputKind,
    logits: Mapping[str, Floats],
    evidence: Mapping[str, float],
    lexical: Mapping[str, Mapping[str, float]],
) -> Scores:
    rows = np.array([e.fold >= 0 and e.example.kind is kind for e in judged])
    here = [e for e, r in zip(judged, rows, strict=True) if r]
    ids = [e.example.id for e in here]
    words = {name: np.array([by.get(i, np.nan) for i in ids]) for name, by in lexical.items()}
    return Scores(
        np.array([int(e.example.label) for e in here]),
        np.array([e.fold for e in here]),
        {name: values[rows] for name, values in logits.items()},
        np.array([evidence[i] for i in ids]),
        words if kind is InputKind.TEXT else {},
    )


def read_evidence(work: Path) -> dict[str, float]:
    """What the precedents say of each development item, as ``train_jury.py assemble`` left it."""
    file = work / "precedents.json"
    if not file.is_file():
        raise InputError("work", f"no {file.name} in {work}", _TRAIN_FIRST)
    found: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return found
