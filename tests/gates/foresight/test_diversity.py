"""Diversity figures on cases that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lazaretto.gates.foresight.gauge import retrieval_entropy, semantic_diversity


def test_retrieval_entropy() -> None:
    assert retrieval_entropy("aaaaaa") == 0.0
    assert retrieval_entropy("abcdef") == pytest.approx(math.log(6))
    assert retrieval_entropy("aaab") == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    with pytest.raises(ValueError):
        retrieval_entropy([])


def test_semantic_diversity_is_one_minus_the_mean_cosine() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(6) for j in range(i)]
    assert semantic_diversity(rows) == pytest.approx(1 - np.mean(pairs))
    assert semantic_diversity(np.ones((3, 2))) == pytest.approx(0.0)
    for bad in (np.ones((1, 2)), np.zeros((2, 2)), np.ones(3)):
        with pytest.raises(ValueError):
            semantic_diversity(bad)
