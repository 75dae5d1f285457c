"""From the scores of cross-validated seats to figures and fitted numbers.

For a fold, everything fitted (calibration, debate weights, thresholds) comes from scores of the other folds by models
that saw neither; the fold itself is scored by models that missed it. What is shipped is fitted the same way on all
folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto_lab.metrics.detection import auc, confusion
from lazaretto_lab.metrics.intervals import bootstrap_interval

Floats = NDArray[np.float64]
SEATS = ("strict", "loose")
ARMS = ("strict alone", "loose alone", "debate without retrieval", "debate", "debate, context first")
_MISSED_HARM = {0: 1.0, 1: 1.5}
_FALSE_ALARM = {0: 1.5, 1: 1.0}


@dataclass(frozen=True, slots=True)
class Scores:
    """Development items of one kind, with the logits of every seat that may judge them."""

    labels: NDArray[np.int64]
    fold: NDArray[np.int64]
    logits: Mapping[str, Floats]
    """By recipe name, such as ``strict:0,3``: one logit per item."""
    evidence: Floats
    """What the precedents say of each item."""
    lexical: Mapping[str, Floats]
    """By unseen folds, such as ``0,3``: the bag of words' logit per item; empty where it is not used."""

    def pick(self, rows: NDArray[np.bool_], unseen: int | None) -> tuple[Floats, NDArray[np.int64]]:
        """(strict, loose, lexical, evidence) of the rows, by models that saw neither their own fold nor ``unseen``."""
        table = np.zeros((int(rows.sum()), 4))
        for line, i in enumerate(np.flatnonzero(rows)):
            missed = sorted({int(self.fold[i])} | ({unseen} if unseen is not None else set()))
            name = ",".join(map(str, missed))
            words = self.lexical[name][i] if self.lexical else 0.0
            table[line] = [*(self.logits[f"{seat}:{name}"][i] for seat in SEATS), words, self.evidence[i]]
        return table, self.labels[rows]


@dataclass(frozen=True, slots=True)
class FittedHead:
    """The numbers of one head, as ``jury.json`` holds them."""

    calibration: Mapping[str, tuple[float, float, float]]
    """Per seat: offset, weight of its own logit, weight of the bag of words."""
    debate: Mapping[str, tuple[float, float, float, float]]
    blind: Mapping[str, tuple[float, float, float, float]]
    """The debate fitted without precedents."""
    thresholds: Mapping[str, float]
    """Per arm, on log-odds."""

    def arms(self, table: Floats) -> dict[str, Floats]:
        """Log-odds of every arm for rows of (strict, loose, lexical, evidence)."""
        odds = [_odds(self.calibration[s], table[:, n], table[:, 2]) for n, s in enumerate(SEATS)]
        found = {"strict alone": odds[0], "loose alone": odds[1]}
        for arm, weights in (("debate without retrieval", self.blind), ("debate", self.debate)):
            sides = [w[0] + w[1] * odds[0] + w[2] * odds[1] + w[3] * table[:, 3] for w in (weights[s] for s in SEATS)]
            found[arm] = (sides[0] + sides[1]) / 2
        # Context first: Loose alone, still unconvinced after the debate, is enough to exonerate.
        found["debate, context first"] = np.minimum(found["debate"], sides[1])
        return found


def _odds(calibration: tuple[float, float, float], logits: Floats, lexical: Floats) -> Floats:
    return calibration[0] + calibration[1] * logits + calibration[2] * lexical


def fit(table: Floats, labels: NDArray[np.int64]) -> FittedHead:
    """Calibration, debate weights and thresholds from rows of (strict, loose, lexical, evidence)."""
    calibration: dict[str, tuple[float, float, float]] = {}
    for n, seat in enumerate(SEATS):
        offset, own, words = _logistic(table[:, [n, 2]], labels, None)
        calibration[seat] = (offset, own, words)
    odds = np.stack([_odds(calibration[s], table[:, n], table[:, 2]) for n, s in enumerate(SEATS)], axis=1)
    debate: dict[str, tuple[float, float, float, float]] = {}
    blind: dict[str, tuple[float, float, float, float]] = {}
    for seat, costs in zip(SEATS, (_MISSED_HARM, _FALSE_ALARM), strict=True):
        # One slope for both sides: with weights of their own, a few hundred items fit them worse than equal ones.
        middle = odds.mean(axis=1)
        offset, slope, pull = _logistic(np.column_stack([middle, 2 * table[:, 3]]), labels, costs)
        debate[seat] = (offset, slope / 2, slope / 2, 2 * pull)
        offset, slope = _logistic(middle[:, None], labels, costs)
        blind[seat] = (offset, slope / 2, slope / 2, 0.0)
    made = FittedHead(calibration, debate, blind, {})
    thresholds = {arm: best_threshold(x, labels) for arm, x in made.arms(table).items()}
    return FittedHead(calibration, debate, blind, thresholds)


def _logistic(
    features: Floats, labels: NDArray[np.int64], costs: dict[int, float] | None, freedom: float = 0.3
) -> tuple[float, ...]:
    """Offset and weights."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtra("fitting the jury", "models") from None
    model = LogisticRegression(C=freedom, class_weight=costs).fit(features, labels)
    return (float(model.intercept_[0]), *map(float, model.coef_[0]))


def best_threshold(odds: Floats, labels: NDArray[np.int64]) -> float:
    """The cut with the best expected F1 if chances are what a beta calibration makes of the odds.

    Expected F1 is steadier than picking by some hundred labels; a straight line in log-odds, however, overrates the
    middle, which a beta calibration (one weight for each end) does not.
    """
    order = np.argsort(-odds)
    ends = np.column_stack([-np.logaddexp(0, -odds), np.logaddexp(0, odds)])[order]
    offset, low, high = _logistic(ends, labels[order], None, freedom=1000.0)
    chance = 1 / (1 + np.exp(-(offset + ends @ [low, high])))
    expected = 2 * np.cumsum(chance) / (np.arange(1, len(chance) + 1) + chance.sum())
    return float(odds[order][int(np.argmax(expected))])


def f1(labels: NDArray[Any], ruled: NDArray[Any]) -> float:
    """F1 of the risky class."""
    return confusion(labels > 0, ruled > 0).f1


def ranking_quality(scores: Scores, unseen: int | None) -> float:
    """AUC of the debate over the items outside fold ``unseen``, by models that saw neither: for choosing inside."""
    table, labels = scores.pick(scores.fold != unseen, unseen)
    return auc(labels, fit(table, labels).arms(table)["debate"])


def nested(by_fold: Sequence[Scores]) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Floats]]:
    """Per arm: what was ruled, and the log-odds past the threshold, of every item by nested cross-validation.

    ``by_fold`` holds, for each fold, the scores of the way of training that the other folds chose.
    """
    count = len(by_fold[0].labels)
    ruled = {arm: np.zeros(count, dtype=bool) for arm in ARMS}
    margins = {arm: np.zeros(count) for arm in ARMS}
    for k, scores in enumerate(by_fold):
        inside = scores.fold != k
        fitted = fit(*scores.pick(inside, k))
        table, _ = scores.pick(~inside, None)
        for arm, odds in fitted.arms(table).items():
            margins[arm][~inside] = odds - fitted.thresholds[arm]
            ruled[arm][~inside] = odds >= fitted.thresholds[arm]
    return ruled, margins


def spread(scores: Scores, folds: int) -> float:
    """1.96 standard deviations of an item's mean logit over models trained without it: what retraining would change."""
    deviations = []
    for i in range(len(scores.labels)):
        k = int(scores.fold[i])
        names = [str(k), *(",".join(map(str, sorted((k, j)))) for j in range(folds) if j != k)]
        values = [np.mean([scores.logits[f"{seat}:{n}"][i] for seat in SEATS]) for n in names]
        deviations.append(np.std(values))
    return float(1.96 * np.mean(deviations))


def summary(labels: NDArray[np.int64], ruled: NDArray[np.bool_], margins: Floats) -> dict[str, Any]:
    """Precision, recall, F1 and AUC, with a 95 % bootstrap interval for F1."""
    counts = confusion(labels, ruled)
    rows = np.column_stack([labels, ruled])
    interval = bootstrap_interval(rows, statistic=lambda r: f1(r[:, 0], r[:, 1] > 0))
    return {
        "items": len(labels),
        "precision": round(counts.precision, 4),
        "recall": round(counts.recall, 4),
        "f1": round(counts.f1, 4),
        "f1_interval": [round(interval.low, 4), round(interval.high, 4)],
        "auc": round(auc(labels, margins), 4),
    }


def difference(
    measure: Callable[[NDArray[Any], NDArray[Any]], float],
    labels: NDArray[np.int64],
    ours: NDArray[Any],
    theirs: NDArray[Any],
) -> dict[str, Any]:
    """A measure of one arm minus another's on the same items, with a paired 95 % bootstrap interval."""
    rows = np.column_stack([labels, ours, theirs])
    interval = bootstrap_interval(rows, statistic=lambda r: measure(r[:, 0], r[:, 1]) - measure(r[:, 0], r[:, 2]))
    return {"mean": round(interval.value, 4), "interval": [round(interval.low, 4), round(interval.high, 4)]}


def item_logits(windows: NDArray[np.float32]) -> Floats:
    """One logit per item from its windows' logits (items, 4), NaN where there is no window."""
    return np.asarray(np.nanmean(windows, axis=1), dtype=np.float64)
