"""The memory gate inside the shared-memory world: holds what it finds, then repairs what that had touched.

It holds at the threshold that keeps false positives at one per cent on validation teams (or the one by F1, where
that is stricter), and not at all while there is too little to compare with. Recent memories are looked at again every
few rounds, with everything held so far no longer speaking: what had slipped through is isolated, with it falls what
it had touched if that too conflicts, and what proves clean is released.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lazaretto.bench.memory_evidence import TeamWindows
from lazaretto.gates.memory.evidence import Looked, taken
from lazaretto.gates.memory.records import RecordModel
from lazaretto.gates.memory.structured import MIN_MEMORIES, MIN_VOICES
from lazaretto.models.record_embedding import Floats
from lazaretto.worlds.shared_memory.log import VOCABULARY
from lazaretto.worlds.shared_memory.scenario import Scenario
from lazaretto.worlds.shared_memory.world import Mending, Writes

EVERY, BACK = 5, 10
"""Rounds between re-evaluations, and how many rounds back they reach."""


class MemoryDefence:
    """A ``Screen`` for the world."""

    def __init__(self, model: RecordModel, scenario: Scenario, repair: bool = True) -> None:
        self._model, self._repair = model, repair
        self.windows = TeamWindows(scenario)
        self._recent: list[tuple[Writes, Floats, NDArray[np.bool_]]] = []
        self._threshold = max(model.fusion.threshold, model.fusion.threshold_1_percent)

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Score each write against what its team holds; hold it above the threshold."""
        vectors = writes.memories.embedded(VOCABULARY)
        self.windows.hear(writes.reported)
        looked = self.windows.look(writes.team, writes.agent, vectors)
        held = self._suspicious(looked, writes.team)
        kept = np.flatnonzero(~held)
        self._add(writes, vectors, kept, looked)
        self._recent.append((writes, vectors, ~held))
        return held

    def mend(self, round_index: int) -> Mending | None:
        """Look at recent memories again: hold what slipped through, release what proves clean."""
        if not self._repair or round_index % EVERY or not self._recent:
            return None
        self._recent = self._recent[-BACK:]
        hide: list[int] = []
        show: list[int] = []
        for writes, vectors, kept in self._recent:
            looked = self.windows.look(writes.team, writes.agent, vectors, writes.ids)
            bad = self._suspicious(looked, writes.team)
            for row in np.flatnonzero(bad & kept).tolist():
                hide.append(int(writes.ids[row]))
                self.windows.windows[int(writes.team[row])].forget(int(writes.ids[row]))
            freed = np.flatnonzero(~bad & ~kept)
            show += writes.ids[freed].tolist()
            self._add(writes, vectors, freed, looked)
            kept[:] = ~bad
        return Mending(np.array(hide, dtype=np.int64), np.array(show, dtype=np.int64)) if hide or show else None

    def _suspicious(self, looked: Looked, team: NDArray[np.int64]) -> NDArray[np.bool_]:
        known = np.array([self.windows.windows[t].size >= MIN_MEMORIES for t in team.tolist()], dtype=bool)
        return np.asarray((self._model.score(looked).fused >= self._threshold) & known & (looked.voices >= MIN_VOICES))

    def _add(self, writes: Writes, vectors: Floats, rows: NDArray[np.int64], looked: Looked) -> None:
        if len(rows):
            where = (writes.team[rows], writes.agent[rows])
            self.windows.add(where, writes.ids[rows], vectors[rows], taken(looked, rows))
