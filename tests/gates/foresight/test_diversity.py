"""Diversity figures on cases that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazaretto.gates.foresight.diversity import (
    dispersion,
    entropy_retention,
    mixture_entropy,
    mixture_entropy_bound,
    retrieval_entropy,
    semantic_diversity,
    semantic_drift,
)


def test_retrieval_entropy() -> None:
    assert retrieval_entropy("aaaaaa") == 0.0
    assert retrieval_entropy("abcdef") == pytest.approx(math.log(6))
    assert retrieval_entropy("aaab") == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    with pytest.raises(ValueError):
        retrieval_entropy([])


shares = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3)


@given(shares, st.lists(st.dictionaries(st.integers(0, 5), st.floats(0.05, 1.0), min_size=1), min_size=3, max_size=3))
@settings(max_examples=100, deadline=None)
def test_mixture_entropy_never_passes_its_bound_and_meets_it_when_supports_are_apart(weights, parts) -> None:
    weights = [w / sum(weights) for w in weights]
    parts = [{k: v / sum(p.values()) for k, v in p.items()} for p in parts]
    entropies = [mixture_entropy([1.0], [p]) for p in parts]
    bound = mixture_entropy_bound(weights, entropies)
    assert mixture_entropy(weights, parts) <= bound + 1e-9
    apart = [{(i, k): v for k, v in p.items()} for i, p in enumerate(parts)]
    assert mixture_entropy(weights, apart) == pytest.approx(bound)


def test_semantic_diversity_is_one_minus_the_mean_cosine() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(6) for j in range(i)]
    assert semantic_diversity(rows) == pytest.approx(1 - np.mean(pairs))
    assert semantic_diversity(np.ones((3, 2))) == pytest.approx(0.0)
    for bad in (np.ones((1, 2)), np.zeros((2, 2)), np.ones(3)):
        with pytest.raises(ValueError):
            semantic_diversity(bad)


def test_drift_and_dispersion() -> None:
    here, there = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert semantic_drift(here, here) == pytest.approx(0.0)
    assert semantic_drift(here, there) == pytest.approx(1.0)
    spread = np.array([[0.0, 3.0], [0.0, -1.0]])
    assert dispersion(spread) == 2.0 and dispersion(spread, squared=True) == 4.0
    with pytest.raises(ValueError):
        semantic_drift(np.array([[1.0, 0.0], [-1.0, 0.0]]), here)


def test_entropy_retention_is_not_capped() -> None:
    assert entropy_retention([2.0, 3.0], [1.0, 3.0]) == 1.25
    for entropies, benign in (([1.0], [1.0, 2.0]), ([1.0], [0.0])):
        with pytest.raises(ValueError):
            entropy_retention(entropies, benign)
