"""How sure a figure is: 95 % intervals of means and shares.

Student's t is computed here, from its closed form for whole degrees of freedom, because SciPy would be a heavy
dependency for this one number; a test compares it with SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

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
    half = student_quantile(0.5 + level / 2, data.size - 1) * float(data.std(ddof=1)) / math.sqrt(data.size)
    return Interval(mean, mean - half, mean + half, data.size)


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.95,
    statistic: Callable[[NDArray[np.float64]], float] | None = None,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = BOOTSTRAP_SEED,
) -> Interval:
    """A statistic (default: the mean) of the rows of ``values`` with its percentile bootstrap interval."""
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise ValueError("no observations")
    measure = statistic or (lambda rows: float(rows.mean()))
    rng = np.random.default_rng(seed)
    drawn = [measure(data[rng.integers(0, len(data), len(data))]) for _ in range(samples)]
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(measure(data), float(low), float(high), len(data))


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """A share with Wilson's interval, which stays inside [0, 1] and is honest at 0 and 1."""
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is not a share")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half), trials)


def student_cdf(t: float, degrees: int) -> float:
    """P(T <= t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(degrees))
    cos2 = math.cos(angle) ** 2
    term = total = 1.0 if degrees % 2 == 0 else math.cos(angle)
    if degrees == 1:
        total = 0.0
    for k in range(2 + degrees % 2, degrees - 1, 2):
        term *= (k - 1) / k * cos2
        total += term
    inside = math.sin(angle) * total if degrees % 2 == 0 else 2 / math.pi * (angle + math.sin(angle) * total)
    return 0.5 + inside / 2


def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability, by bisection; probability above one half."""
    if degrees < 1 or not 0.5 <= probability < 1:
        raise ValueError("needs at least one degree of freedom and a probability in [0.5, 1)")
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def _data(values: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=float).ravel()
    if data.size == 0:
        raise ValueError("no observations")
    return data
