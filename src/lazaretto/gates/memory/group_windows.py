"""Evidence windows of several groups of agents, looked at together: one group per namespace, or per simulated team."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import EvidenceTable, Ints, MemoryWindow, WindowRows, concatenated, selected
from lazaretto.models.record_embedding import Floats


@dataclass(frozen=True, slots=True)
class MemoryOrigins:
    """The origins of memories, one row each."""

    group: Ints
    writer: Ints
    """Numbers of the writers within their groups."""
    parents: Ints
    """Numbers of the memories they were made from, -1 for none."""

    def __getitem__(self, rows: Ints | NDArray[np.bool_]) -> MemoryOrigins:
        return MemoryOrigins(self.group[rows], self.writer[rows], self.parents[rows])


class GroupWindows:
    """One evidence window per group."""

    def __init__(self, groups: int, capacity: int) -> None:
        self.windows = [MemoryWindow(capacity) for _ in range(groups)]

    def record_outcomes(self, reported: Floats) -> None:
        """Outcomes of a round, (groups, writers); NaN for none."""
        for group, row in enumerate(reported):
            heard = np.flatnonzero(~np.isnan(row))
            if len(heard):
                writers = self.windows[group].writers
                writers.add_outcomes(writers.places(_names(heard)), row[heard])

    def sizes(self, group: Ints) -> Ints:
        """The count of memories in each row's group."""
        return np.array([w.size for w in self.windows])[group]

    def evidence_for(self, memories: WindowRows, origin: MemoryOrigins, ids: Ints | None = None) -> EvidenceTable:
        """Looks at some memories, in their order; ``ids`` when they already are in the windows."""
        order = np.argsort(origin.group, kind="stable")
        parts = [
            self.windows[g].evidence_for(
                memories[rows], _names(origin.writer[rows]), origin.parents[rows], None if ids is None else ids[rows]
            )
            for g, rows in _groups(origin.group, order)
        ]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return selected(concatenated(parts), back)

    def add(self, memories: WindowRows, origin: MemoryOrigins, ids: Ints, trust: Floats) -> None:
        """Take memories in."""
        for g, rows in _groups(origin.group, np.argsort(origin.group, kind="stable")):
            self.windows[g].add(
                memories[rows], _names(origin.writer[rows]), ids[rows].tolist(), trust[rows], origin.parents[rows]
            )

    def record_use(self, origin: MemoryOrigins, good: NDArray[np.bool_]) -> None:
        """Record the outcomes of decisions made from memories in the windows."""
        for g, rows in _groups(origin.group, np.argsort(origin.group, kind="stable")):
            self.windows[g].record_use(origin.parents[rows], good[rows])

    def forget(self, group: Ints, ids: Ints) -> None:
        """Take memories out: they no longer count as evidence."""
        for g, item in zip(group.tolist(), ids.tolist(), strict=True):
            self.windows[g].forget(item)


def _names(writers: Ints) -> list[str]:
    return [str(w) for w in writers.tolist()]


def _groups(group: Ints, order: Ints) -> list[tuple[int, Ints]]:
    ends = np.flatnonzero(np.diff(group[order])) + 1
    return [(int(group[rows[0]]), rows) for rows in np.split(order, ends) if len(rows)]
