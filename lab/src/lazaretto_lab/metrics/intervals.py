"""How sure a figure is: 95 % intervals of means and shares.

SciPy computes them. It is imported where it is used: its statistics take a second to load, and every command of the
laboratory imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BOOTSTRAP_SAMPLES = 2_000
BOOTSTRAP_SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and where the true value plausibly lies."""

    value: float
    low: float
    high: float
    n: int
    """Number of observations behind it."""

    @property
    def half_width(self) -> float:
        """Half the width, for writing ``value ± half_width``."""
        return (self.high - self.low) / 2


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean with Student's t interval. One observation has no interval: its bounds are infinite."""
    data = _data(values)
    mean = float(data.mean())
    if data.size == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    from scipy import stats

    quantile = float(stats.t.ppf(0.5 + level / 2, data.size - 1))
    half = quantile * float(data.std(ddof=1)) / math.sqrt(data.size)
    return Interval(mean, mean - half, mean + half, data.size)


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.95,
    statistic: Callable[[NDArray[np.float64]], float] | None = None,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = BOOTSTRAP_SEED,
) -> Interval:
    """A statistic (default: the mean) of the rows of ``values`` with its percentile bootstrap interval.

    The mean of single numbers is left to SciPy. Its ``bootstrap`` draws the same samples, but takes columns, not rows,
    and refuses one observation.
    """
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise ValueError("no observations")
    rng = np.random.default_rng(seed)
    if statistic is None and data.ndim == 1 and data.size > 1:
        from scipy import stats

        bounds = stats.bootstrap(
            (data,), np.mean, n_resamples=samples, batch=100, confidence_level=level, method="percentile", rng=rng
        ).confidence_interval
        return Interval(float(data.mean()), float(bounds.low), float(bounds.high), len(data))
    measure = statistic or (lambda rows: float(rows.mean()))
    drawn = [measure(data[rng.integers(0, len(data), len(data))]) for _ in range(samples)]
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(measure(data), float(low), float(high), len(data))


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """A share with Wilson's interval, which stays inside [0, 1] and is honest at 0 and 1."""
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is not a share")
    from scipy import stats

    bounds = stats.binomtest(successes, trials).proportion_ci(level, method="wilson")
    return Interval(successes / trials, float(bounds.low), float(bounds.high), trials)


def _data(values: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=float).ravel()
    if data.size == 0:
        raise ValueError("no observations")
    return data
