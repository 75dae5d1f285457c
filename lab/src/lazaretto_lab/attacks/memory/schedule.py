"""When and where poison is put in: spread over teams and rounds, unevenly, as the published setting has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError

WAYS = (("I", "C1"), ("I", "C2"), ("II", "C1"), ("II", "C2"), ("III", "C3"))
"""Which type goes by which road: inserted (C1), by altering an existing memory (C2), by several agents at once (C3)."""
GROUP = 4
"""Memories of one colluding set, each in another agent's buffer."""


@dataclass(frozen=True, slots=True)
class Injection:
    """All poison of a run, sorted by round; each field has one entry per memory."""

    round: NDArray[np.int64]
    team: NDArray[np.int64]
    kind: NDArray[np.int64]
    """1, 2 or 3."""
    axis: NDArray[np.int64]
    """1, 2 or 3."""
    group: NDArray[np.int64]
    """Colluding memories share it."""

    def of_round(self, round_index: int) -> slice:
        """Where the entries of a round lie."""
        low, high = np.searchsorted(self.round, [round_index, round_index + 1])
        return slice(int(low), int(high))


def schedule(
    count: int, rounds: tuple[int, int], teams: int, ways: tuple[tuple[str, ...], tuple[str, ...]], seed: int
) -> Injection:
    """``count`` poisoned memories between two rounds; ``ways`` are the types and the axes that are allowed."""
    kinds, axes = ways
    open_ways = [(k, a) for k, a in WAYS if k in kinds and a in axes]
    if not open_ways:
        raise InputError("kinds", f"{kinds} cannot go by {axes}", "Type III needs C3; I and II need C1 or C2")
    rng = np.random.default_rng([seed, 7])
    # every type gets the same share, whatever number of roads it has
    share = np.array([1 / sum(k == other for other, _ in open_ways) for k, _ in open_ways])
    drawn = rng.choice(len(open_ways), count, p=share / share.sum())
    kind = np.array([("I", "II", "III").index(k) + 1 for k, _ in open_ways])[drawn]
    axis = np.array([int(a[1]) for _, a in open_ways])[drawn]
    order = np.argsort(kind == 3, kind="stable")  # colluders side by side, so that sets can be cut
    kind, axis = kind[order], axis[order]
    group = np.arange(count)
    lies = np.flatnonzero(kind == 3)
    group[lies] = lies[0] + np.arange(len(lies)) // GROUP if len(lies) else group[lies]
    weight = rng.uniform(0.5, 1.5, (rounds[1] - rounds[0], teams))
    place = rng.choice(weight.size, count, p=(weight / weight.sum()).ravel())[group]
    when, team = np.divmod(place, teams)
    order = np.argsort(when, kind="stable")
    when, team, kind, axis, group = (a[order] for a in (when, team, kind, axis, group))
    return Injection(when + rounds[0], team, kind, axis, group)
