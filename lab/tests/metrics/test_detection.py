"""Detection figures against scikit-learn, and on cases small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from lazaretto_lab.metrics.detection import auc, confusion, recall_at_fpr, threshold_at_fpr, threshold_for_f1

labelled = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=40).filter(
    lambda rows: len({bad for bad, _ in rows}) == 2
)


@given(labelled)
@settings(max_examples=80, deadline=None)
def test_auc_counts_pairs(rows) -> None:
    bad = [s for b, s in rows if b]
    good = [s for b, s in rows if not b]
    wins = sum((x > y) + 0.5 * (x == y) for x in bad for y in good)
    assert auc([b for b, _ in rows], [s for _, s in rows]) == pytest.approx(wins / (len(bad) * len(good)))


@given(labelled, st.sampled_from([0.0, 0.01, 0.1, 0.34, 0.5, 1.0]))
@settings(max_examples=80, deadline=None)
def test_recall_at_fpr_is_the_best_one_can_do(rows, limit) -> None:
    truth, scores = np.array([b for b, _ in rows]), np.array([s for _, s in rows], dtype=float)
    thresholds = [*scores, scores.max() + 1]
    allowed = [(scores[truth] >= t).mean() for t in thresholds if (scores[~truth] >= t).mean() <= limit + 1e-12]
    assert recall_at_fpr(truth, scores, limit) == pytest.approx(max(allowed))
    assert (scores[~truth] >= threshold_at_fpr(truth, scores, limit)).mean() <= limit + 1e-12


@given(labelled)
@settings(max_examples=80, deadline=None)
def test_f1_threshold_is_the_best_one(rows) -> None:
    truth, scores = np.array([b for b, _ in rows]), np.array([s for _, s in rows], dtype=float)
    best = max(confusion(truth, scores >= t).f1 for t in scores)
    assert confusion(truth, scores >= threshold_for_f1(truth, scores)).f1 == pytest.approx(best)


def test_equals_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.random(300) < 0.3, rng.normal(size=300).round(1)
    said = scores > 0.2
    table = confusion(truth, said)
    assert auc(truth, scores) == pytest.approx(metrics.roc_auc_score(truth, scores))
    assert table.precision == pytest.approx(metrics.precision_score(truth, said))
    assert table.recall == pytest.approx(metrics.recall_score(truth, said))
    assert table.f1 == pytest.approx(metrics.f1_score(truth, said))
    assert table.accuracy == pytest.approx(metrics.accuracy_score(truth, said))


def test_shares_of_nothing_are_not_flattering() -> None:
    silent = confusion([1, 0, 0], [0, 0, 0])
    assert math.isnan(silent.precision) and silent.recall == 0.0 and silent.fpr == 0.0
    assert silent.figures()["precision"] is None
    for truth, scores in (([1, 1], [0.1, 0.2]), ([1, 0], [0.1, math.nan]), ([1], [0.1, 0.2]), ([2, 0], [0.1, 0.2])):
        with pytest.raises(ValueError):
            auc(truth, scores)
    with pytest.raises(ValueError):
        confusion([1], [1, 0])
