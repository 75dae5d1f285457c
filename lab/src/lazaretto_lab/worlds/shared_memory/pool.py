"""The memories a team has at hand: each agent's most recent ones, and what its mates share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.worlds.shared_memory.scenario import ACTION, CONTEXT, MAX_AGENTS, STATE, Scenario

Floats = NDArray[np.float32]
KEY_WEIGHTS = np.repeat([1.0, 0.5, 0.2, 0.2], [4, 4, STATE - 8, CONTEXT]).astype(np.float32)
"""What agents compare situations by: what their task turns on counts most."""
BANDWIDTH = 0.25
"""How like a situation must be for its memory to count."""
DOUBT = 0.15
"""Weight of having found nothing: memories of unlike situations are not acted on."""
MIN_WEIGHT = 0.01
IMPORTANCE = 1.6
"""What a memory's claim to be important is worth in retrieval; agents weigh relevance and importance together."""


@dataclass(frozen=True, slots=True)
class MemoryHits:
    """What each agent found: (teams, agents, k)."""

    ids: NDArray[np.int64]
    weights: Floats
    action: Floats
    taint: Floats
    hops: NDArray[np.int64]


def keys_of(state: NDArray[np.floating], context: NDArray[np.floating]) -> Floats:
    """Situations as the agents compare them."""
    return np.asarray(np.concatenate([state, context], -1) * KEY_WEIGHTS, dtype=np.float32)


class Pool:
    """Ring buffers of every agent of every team, as arrays (teams, agents x window)."""

    def __init__(self, scenario: Scenario) -> None:
        self._window, self._k = scenario.window, scenario.retrieved
        teams, slots = scenario.teams, MAX_AGENTS * scenario.window
        self.ids = np.full((teams, slots), -1, dtype=np.int64)
        self._keys = np.zeros((teams, slots, STATE + CONTEXT), np.float32)
        self._norms = np.full((teams, slots), np.inf, np.float32)
        self._action = np.zeros((teams, slots, ACTION), np.float32)
        self._taint = np.zeros((teams, slots, ACTION), np.float32)
        self._hops = np.full((teams, slots), -1, dtype=np.int64)
        self._bonus = np.zeros((teams, slots), np.float32)
        self._shared = np.zeros((teams, slots), dtype=bool)
        self._next = np.zeros((teams, MAX_AGENTS), dtype=np.int64)
        self._owner = np.repeat(np.arange(MAX_AGENTS), scenario.window)

    def retrieve(self, queries: Floats) -> MemoryHits:
        """The nearest memories that each agent may read."""
        distance = self._norms[:, None] - self._bonus[:, None] - 2 * (queries @ self._keys.transpose(0, 2, 1))
        closed = ~self._shared[:, None] & (self._owner != np.arange(MAX_AGENTS)[:, None])
        distance = np.where(closed, np.inf, distance)
        best = np.argpartition(distance, self._k, axis=-1)[..., : self._k]
        gap = np.take_along_axis(distance, best, -1) + (queries**2).sum(-1)[..., None]
        likeness = np.exp(-gap / (2 * BANDWIDTH**2) - IMPORTANCE / 2)  # 1 for the same situation, usual importance
        weight = likeness / (likeness.sum(-1, keepdims=True) + DOUBT)
        rows = np.arange(len(best))[:, None, None]
        ids = np.where(weight > MIN_WEIGHT, self.ids[rows, best], -1)
        return MemoryHits(
            ids, weight.astype(np.float32), self._action[rows, best], self._taint[rows, best], self._hops[rows, best]
        )

    def new_slots(self, team: NDArray[np.int64], agent: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot each new memory takes: the oldest of its agent's."""
        slots = np.empty(len(team), dtype=np.int64)
        for place, (t, a) in enumerate(zip(team.tolist(), agent.tolist(), strict=True)):
            slots[place] = a * self._window + self._next[t, a] % self._window
            self._next[t, a] += 1
        return slots

    def put(
        self,
        where: tuple[NDArray[np.int64], NDArray[np.int64]],
        ids: NDArray[np.int64],
        key: Floats,
        action: Floats,
        truth: tuple[Floats, NDArray[np.int64]],
        meta: tuple[NDArray[np.bool_], Floats],
    ) -> None:
        """Store memories. ``truth``: how poison moved them, and from how far away; ``meta``: whether all may read them,
        and how important they claim to be."""
        self.ids[where], self._keys[where], self._action[where] = ids, key, action
        self._norms[where] = (key**2).sum(-1)
        self._taint[where], self._hops[where] = truth
        self._shared[where] = meta[0]
        self._bonus[where] = meta[1] * (2 * BANDWIDTH**2 * IMPORTANCE)

    def drop(self, team: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Take memories out of reach."""
        hit = self.ids[team] == ids[:, None]
        found = hit.any(1)
        self._norms[team[found], hit.argmax(1)[found]] = np.inf

    def usable(self, team: int) -> NDArray[np.int64]:
        """Slots of a team that hold something readable."""
        return np.flatnonzero(np.isfinite(self._norms[team]))
