"""How far an infection went: shares of agents, the round at which a share is first reached, activation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np
from numpy.typing import ArrayLike, NDArray

THRESHOLDS = (85, 90, 95)
"""The percentages whose first round is reported."""


def first_reaching(curve: ArrayLike, threshold: float) -> int | None:
    """The first index at which the curve is at or above the threshold; None if never."""
    reached = np.asarray(curve) >= threshold
    return int(np.argmax(reached)) if reached.any() else None


def current_percent(symptomatic: Iterable[Set[str] | Set[int]], agents: int) -> list[float]:
    """Share of agents that show the symptom in each round, in percent."""
    return [100.0 * len(now) / agents for now in symptomatic]


def cumulative_percent(symptomatic: Iterable[Set[str] | Set[int]], agents: int) -> list[float]:
    """Share of agents that have shown the symptom up to each round, in percent."""
    ever: set[str | int] = set()
    curve = []
    for now in symptomatic:
        ever.update(now)
        curve.append(100.0 * len(ever) / agents)
    return curve


def activation(retrieved_virus: ArrayLike, carrying_questioners: ArrayLike) -> NDArray[np.float64]:
    """beta_t: of the questioners that carry the virus, the share that retrieved it; NaN in rounds without carriers."""
    hits, chances = np.asarray(retrieved_virus, dtype=float), np.asarray(carrying_questioners, dtype=float)
    share: NDArray[np.float64] = np.full(np.broadcast(hits, chances).shape, np.nan)
    np.divide(hits, chances, out=share, where=chances > 0)
    return share


def infection_summary(cumulative: Sequence[float], current: Sequence[float]) -> dict[str, float | int | None]:
    """The figures of the published tables: rounds 8, 16 and 24 (where they exist), peak, threshold rounds."""
    summary: dict[str, float | int | None] = {}
    for name, curve in (("cumulative", cumulative), ("current", current)):
        for round_ in (8, 16, 24):
            summary[f"{name}_{round_}"] = float(curve[round_]) if round_ < len(curve) else None
        for threshold in THRESHOLDS:
            summary[f"first_{name}_{threshold}"] = first_reaching(curve, threshold)
    summary["cumulative_end"] = float(cumulative[-1])
    summary["current_end"] = float(current[-1])
    summary["current_peak"] = float(max(current))
    return summary
