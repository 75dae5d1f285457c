"""How well something is found: confusion counts, ranking quality, and recall at a false-positive rate one can bear.

A test compares them with scikit-learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of right and wrong decisions. Shares of nothing are NaN, never a flattering 0 or 1."""

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int

    @property
    def precision(self) -> float:
        """Of what was flagged, the share that was bad."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """Of what was bad, the share that was flagged."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _share(2 * self.true_positives, 2 * self.true_positives + self.false_positives + self.false_negatives)

    @property
    def fpr(self) -> float:
        """Of what was good, the share that was flagged."""
        return _share(self.false_positives, self.false_positives + self.true_negatives)

    @property
    def accuracy(self) -> float:
        """Share of right decisions."""
        right = self.true_positives + self.true_negatives
        return _share(right, right + self.false_positives + self.false_negatives)

    def figures(self) -> dict[str, float | None]:
        """All shares by name; None where there is none."""
        names = ("precision", "recall", "f1", "fpr", "accuracy")
        values = {name: float(getattr(self, name)) for name in names}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def confusion(truth: ArrayLike, flagged: ArrayLike) -> Confusion:
    """Count decisions against the truth; both are booleans or 0 and 1."""
    bad, said = _booleans(truth), _booleans(flagged)
    if bad.shape != said.shape:
        raise ValueError(f"{bad.size} truths against {said.size} decisions")
    return Confusion(
        int((bad & said).sum()), int((~bad & said).sum()), int((~bad & ~said).sum()), int((bad & ~said).sum())
    )


def auc(truth: ArrayLike, scores: ArrayLike) -> float:
    """Chance that a bad item scores higher than a good one, ties counting half. Needs both kinds.

    From ranks, which are exact, and not by scikit-learn's sum of trapezoids, which rounds: training chooses by this
    figure, and equal rankings must stay equal.
    """
    from scipy import stats

    bad, values = _checked(truth, scores)
    ranks = stats.rankdata(values)
    positives, negatives = int(bad.sum()), int((~bad).sum())
    return float((ranks[bad].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def threshold_at_fpr(truth: ArrayLike, scores: ArrayLike, limit: float = 0.01) -> float:
    """The lowest threshold (flag when score >= threshold) that keeps the false-positive rate at or under the limit."""
    bad, values = _checked(truth, scores)
    good = np.sort(values[~bad])[::-1]
    allowed = math.floor(limit * good.size + 1e-9)
    if allowed >= good.size:
        return float(values.min())
    above = values[values > good[allowed]]
    return float(above.min()) if above.size else float(np.nextafter(good[allowed], np.inf))


def recall_at_fpr(truth: ArrayLike, scores: ArrayLike, limit: float = 0.01) -> float:
    """Recall at the lowest threshold whose false-positive rate stays at or under the limit."""
    bad, values = _checked(truth, scores)
    return float((values[bad] >= threshold_at_fpr(bad, values, limit)).mean())


def threshold_for_f1(truth: ArrayLike, scores: ArrayLike) -> float:
    """The threshold (flag when score >= threshold) with the best F1; the highest of equals. Choose it on validation
    data."""
    bad, values = _checked(truth, scores)
    order = np.argsort(-values, kind="stable")
    hits = np.cumsum(bad[order])
    flagged = np.arange(1, values.size + 1)
    last_of_tie = np.append(values[order][1:] != values[order][:-1], True)
    f1 = np.where(last_of_tie, 2 * hits / (flagged + bad.sum()), -1.0)
    return float(values[order][int(np.argmax(f1))])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _booleans(values: ArrayLike) -> NDArray[np.bool_]:
    data = np.asarray(values)
    if data.dtype != np.bool_ and not np.isin(data, (0, 1)).all():
        raise ValueError("truth and decisions must be booleans or 0 and 1")
    return data.astype(np.bool_).ravel()


def _checked(truth: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    bad, values = _booleans(truth), np.asarray(scores, dtype=float).ravel()
    if bad.shape != values.shape:
        raise ValueError(f"{bad.size} truths against {values.size} scores")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    if bad.all() or not bad.any():
        raise ValueError("ranking needs both bad and good items")
    return bad, values
