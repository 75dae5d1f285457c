"""Intervals against printed tables, and against their own promise: coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lazaretto_lab.metrics.intervals import (
    bootstrap_interval,
    t_interval,
    wilson_interval,
)


def test_t_interval_of_five_seeds() -> None:
    interval = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.value == 3.0
    assert interval.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5), abs=1e-3)
    assert t_interval([1.0, 3.0]).half_width == pytest.approx(12.706, abs=5e-4)  # one degree of freedom
    alone = t_interval([4.0])
    assert alone.n == 1 and alone.high == math.inf
    with pytest.raises(ValueError):
        t_interval([])


def test_t_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        interval = t_interval(rng.normal(2.0, 3.0, 5))
        covered += interval.low <= 2.0 <= interval.high
    assert 0.93 <= covered / 1000 <= 0.97


def test_bootstrap_agrees_with_the_normal_theory_and_is_repeatable() -> None:
    data = np.random.default_rng(2).normal(0.0, 1.0, 400)
    interval = bootstrap_interval(data)
    assert interval == bootstrap_interval(data)
    assert interval.half_width == pytest.approx(1.96 * data.std() / 20, rel=0.1)
    median = bootstrap_interval(data, statistic=lambda rows: float(np.median(rows)))
    assert median.low < np.median(data) < median.high
    with pytest.raises(ValueError):
        bootstrap_interval([])


def test_wilson_is_honest_at_the_ends() -> None:
    none, every = wilson_interval(0, 20), wilson_interval(20, 20)
    assert none.low == 0.0 and none.high == pytest.approx(0.1611, abs=1e-4)
    assert every.high == 1.0 and every.low == pytest.approx(1 - none.high)
    assert wilson_interval(8, 10).low == pytest.approx(0.4902, abs=1e-4)
    with pytest.raises(ValueError):
        wilson_interval(3, 2)
