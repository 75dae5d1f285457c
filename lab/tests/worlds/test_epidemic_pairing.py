"""Pairs: exactly Python's in reference mode, uniform otherwise, and the same however the work is split."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazaretto_lab.worlds.epidemic.pairing import (
    ReferenceDraws,
    Stream,
    merged_pop_order,
    pop_order,
    random_pairs,
    raw_words,
    uniforms,
)


@given(st.integers(0, 2**80), st.lists(st.integers(1, 9000), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_draws_are_those_of_python(seed, tops) -> None:
    draws, rng = ReferenceDraws(seed), random.Random(seed)
    for top in tops:
        assert draws.falling(top, top).tolist() == [rng.randrange(0, n) for n in range(top, 0, -1)]


@given(st.integers(1, 400), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_merging_pops_like_a_list(agents, rng) -> None:
    code = np.array([rng.randrange(0, n) for n in range(agents, 0, -1)][: rng.randrange(1, agents + 1)])
    left = list(range(agents))
    expected = [left.pop(c) for c in code.tolist()]
    assert merged_pop_order(code).tolist() == expected == pop_order(code, agents).tolist()


@given(st.integers(2, 300), st.integers(0, 2**64 - 1), st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_everyone_is_in_one_pair_and_parts_make_the_whole(agents, seed, parts) -> None:
    asks, answers, _ = random_pairs(seed, 4, agents)
    assert asks.size == answers.size == agents // 2
    assert len({*asks.tolist(), *answers.tolist()}) == 2 * (agents // 2)
    pieces = [random_pairs(seed, 4, agents, part, parts) for part in range(parts)]
    assert np.concatenate([p[0] for p in pieces]).tolist() == asks.tolist()
    assert np.concatenate([p[1] for p in pieces]).tolist() == answers.tolist()
    assert all(p[2] == sum(q[0].size for q in pieces[:i]) for i, p in enumerate(pieces) if p[0].size)


@pytest.mark.parametrize("agents", [4, 5])
def test_every_ordered_matching_is_equally_likely(agents) -> None:
    """Chi-square over all ordered matchings; the bound is the 0.999 quantile, and the seeds are fixed."""
    trials = 6000
    seen: Counter[frozenset[tuple[int, int]]] = Counter()
    for seed in range(trials):
        asks, answers, _ = random_pairs(seed, 0, agents)
        seen[frozenset(zip(asks.tolist(), answers.tolist(), strict=True))] += 1
    possible = {frozenset(zip(p[0:2], p[2:4], strict=True)) for p in permutations(range(agents), 4)}
    assert set(seen) <= possible
    expected = trials / len(possible)
    statistic = sum((seen[m] - expected) ** 2 / expected for m in possible)
    degrees = len(possible) - 1
    assert statistic < degrees + 4.5 * (2 * degrees) ** 0.5


def test_any_part_of_a_stream_can_be_made_alone() -> None:
    whole = raw_words(3, Stream.ASK, 7, 100)
    assert raw_words(3, Stream.ASK, 7, 60, 40).tolist() == whole[40:].tolist()
    assert not np.array_equal(whole, raw_words(3, Stream.ANSWER, 7, 100))
    assert not np.array_equal(whole, raw_words(3, Stream.ASK, 8, 100))
    assert not np.array_equal(whole, raw_words(4, Stream.ASK, 7, 100))
    with pytest.raises(ValueError):
        raw_words(3, Stream.ASK, 7, 10, 2)
    drawn = uniforms(3, Stream.ASK, 0, 4000)
    assert drawn.min() >= 0.0 and drawn.max() < 1.0 and abs(drawn.mean() - 0.5) < 0.02
