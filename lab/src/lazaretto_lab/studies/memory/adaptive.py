"""The adaptive attacker (C4): knows the detector with its threshold, and tries versions of each memory against it.

It sees the windows of the defence itself. Of several versions of a memory (action turned less far, situation moved,
instruction words dropped) it takes the most harmful one under the threshold, or the least suspicious if none passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import GroupWindows, MemoryOrigins, window_rows
from lazaretto.gates.memory.record_model import MIN_SUPPORT, RecordModel
from lazaretto.models.record_embedding import Floats
from lazaretto_lab.attacks.memory.craft import Memories
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY
from lazaretto_lab.worlds.shared_memory.scenario import Scenario


class Adaptive:
    """A ``Chooser`` that queries the detector.

    Counts the memories made, the queries, those for which any harmful version passes, and the queries that the first
    such version took.
    """

    def __init__(self, model: RecordModel, scenario: Scenario, tries: int, windows: GroupWindows) -> None:
        self._model, self._tries, self._windows = model, tries, windows
        self._rng = np.random.default_rng([scenario.seed, 41])
        self.queries = self.made = self.needed = self.passed = 0

    def choose(self, poison: Memories, right: Floats, where: tuple[NDArray[np.int64], ...]) -> Memories:
        """For each memory the most harmful version that passes; the one with the lowest score where none does."""
        count = len(poison)
        best = poison
        best_value = np.full(count, -np.inf)
        first = np.zeros(count, dtype=np.int64)
        for attempt in range(self._tries):
            version = poison if attempt == 0 else self._version(poison, right)
            looked = self._windows.evidence_for(window_rows(version.embedded(VOCABULARY)), MemoryOrigins(*where))
            fused = self._model.score(looked).fused
            harm = np.linalg.norm(version.action - right, axis=1)
            unjudged = looked.support < MIN_SUPPORT  # nothing to compare with: the defence lets it pass
            passes = ((fused < self._model.fusion.hold) | unjudged) & (harm > 0.5)
            first = np.where((first == 0) & passes, attempt + 1, first)
            value = np.where(passes, 10 + harm, -fused)
            better = (value > best_value)[:, None]
            best = Memories(
                np.where(better, version.state, best.state), np.where(better, version.context, best.context),
                np.where(better, version.action, best.action), np.where(better, version.tags, best.tags),
            )  # fmt: skip
            best_value = np.maximum(value, best_value)
        self.queries += count * self._tries
        self.made += count
        self.needed += int(first.sum())
        self.passed += int((first > 0).sum())
        return best

    def _version(self, poison: Memories, right: Floats) -> Memories:
        """Another version: action turned part of the way, situation moved a little, instruction words dropped."""
        turn = self._rng.uniform(0.2, 1.0, (len(poison), 1)).astype(np.float32)
        moved = poison.state + self._rng.normal(0, 0.15, poison.state.shape).astype(np.float32)
        tags = poison.tags.copy()
        quiet = self._rng.random(len(poison)) < 0.5
        tags[quiet, 2:] = -1
        return Memories(moved, poison.context, right + turn * (poison.action - right), tags)
