"""Neighbours of numbered nodes: flat arrays for the bulk, a small table for what came since.

A compressed sparse row (CSR) layout answers both a long thin chain and a hub of a hundred thousand children fast, in
a fraction of the memory of one list per node. It cannot grow in place, so new edges wait in a table and are merged
when they have become an eighth of the whole: each edge is then moved a bounded number of times.
See decisions/0010-provenance-graph-in-flat-arrays.md for the measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MERGE_AT_LEAST = 8192
"""Fewer new edges than this are never worth a merge."""


def _concatenated_ranges(starts: Ints, counts: Ints) -> Ints:
    """The numbers start, start + 1, ... of every range, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(starts - before, counts)


class Adjacency:
    """Edges from numbered nodes to numbered neighbours, each with a time. Duplicates are kept; readers ignore them."""

    def __init__(self) -> None:
        self._set_base(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float64))

    def _set_base(self, offsets: Ints, targets: NDArray[np.int32], times: Floats) -> None:
        self._offsets, self._targets, self._times = offsets, targets, times
        self._nodes = len(offsets) - 1
        # Plain indexing of a memoryview is several times faster than that of an array, which thin frontiers live on.
        self._offset_cells: Any = memoryview(offsets)
        self._target_cells: Any = memoryview(targets)
        self._recent: dict[int, list[tuple[int, float]]] = {}
        self._recent_count = 0

    def __len__(self) -> int:
        return len(self._targets) + self._recent_count

    def extend(self, sources: Sequence[int], targets: Sequence[int], times: Sequence[float]) -> None:
        """Add edges; merges into the flat arrays when the new ones have become many."""
        if self._recent_count + len(sources) > max(MERGE_AT_LEAST, len(self._targets) // 8):
            self._merge(sources, targets, times)
            return
        for source, target, time in zip(sources, targets, times, strict=True):
            self._recent.setdefault(source, []).append((target, time))
        self._recent_count += len(sources)

    def _merge(self, sources: Sequence[int], targets: Sequence[int], times: Sequence[float]) -> None:
        waiting = [(s, t, when) for s, near in self._recent.items() for t, when in near]
        late_sources, late_targets, late_times = zip(*waiting, strict=True) if waiting else ((), (), ())
        kept = np.repeat(np.arange(self._nodes, dtype=np.int64), np.diff(self._offsets))
        all_sources = np.concatenate([kept, np.array([*late_sources, *sources], np.int64)])
        all_targets = np.concatenate([self._targets, np.array([*late_targets, *targets], np.int32)])
        all_times = np.concatenate([self._times, np.array([*late_times, *times], np.float64)])
        order = np.argsort(all_sources, kind="stable")
        offsets = np.zeros(int(all_sources.max()) + 2, np.int64)
        np.cumsum(np.bincount(all_sources), out=offsets[1:])
        self._set_base(offsets, all_targets[order], all_times[order])

    def of(self, node: int) -> list[int]:
        """The neighbours of one node."""
        near: list[int] = []
        if node < self._nodes:
            cells = self._target_cells
            near = [cells[k] for k in range(self._offset_cells[node], self._offset_cells[node + 1])]
        if node in self._recent:
            near.extend(target for target, _ in self._recent[node])
        return near

    def gather(self, nodes: Iterable[int] | Ints) -> tuple[Ints, Ints, Floats]:
        """All edges out of many nodes at once, as columns: position in ``nodes``, neighbour, time."""
        wanted = np.asarray(nodes if isinstance(nodes, np.ndarray) else list(nodes), np.int64)
        settled = np.flatnonzero(wanted < self._nodes)
        starts = self._offsets[wanted[settled]]
        counts = self._offsets[wanted[settled] + 1] - starts
        cells = _concatenated_ranges(starts, counts)
        owners, targets, times = np.repeat(settled, counts), self._targets[cells].astype(np.int64), self._times[cells]
        if not self._recent:
            return owners, targets, times
        late = self._gather_recent(wanted)
        if not late:
            return owners, targets, times
        more_owners, more_targets, more_times = zip(*late, strict=True)
        return (
            np.concatenate([owners, np.array(more_owners, np.int64)]),
            np.concatenate([targets, np.array(more_targets, np.int64)]),
            np.concatenate([times, np.array(more_times, np.float64)]),
        )

    def _gather_recent(self, wanted: Ints) -> list[tuple[int, int, float]]:
        """Edges that are not merged yet, looked up from whichever side is smaller."""
        if len(wanted) <= len(self._recent):
            positions: Iterable[int] = range(len(wanted))
        else:
            fresh = np.fromiter(self._recent, np.int64, len(self._recent))
            positions = np.flatnonzero(np.isin(wanted, fresh)).tolist()
        recent, nodes = self._recent, wanted.tolist()
        return [(p, target, time) for p in positions for target, time in recent.get(nodes[p], ())]
