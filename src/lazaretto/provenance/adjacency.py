"""Neighbours of numbered nodes: flat arrays for the bulk, a small table for newer edges.

The compressed sparse row layout is fast for long chains and for hubs. It cannot grow in place, so new edges wait in a
table and are merged when they have become an eighth of the whole (decisions/provenance.md#0002).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.ledger.effects import EdgeColumns, EdgeEnd
from lazaretto.types import EdgeKind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MERGE_AT_LEAST = 1024
"""Fewer new edges than this are never worth a merge."""


class FoundEdges(NamedTuple):
    """Edges as columns of equal length."""

    owners: Ints
    """The place of the source among the nodes asked about."""
    targets: Ints
    times: Floats
    tags: NDArray[np.uint8]


class NewEdges(NamedTuple):
    """Edges to be added, as columns of equal length."""

    sources: Ints
    targets: Ints
    times: Floats
    tags: NDArray[np.uint8]

    def where(self, mask: NDArray[np.bool_]) -> NewEdges:
        """Some of them."""
        return NewEdges(self.sources[mask], self.targets[mask], self.times[mask], self.tags[mask])

    @classmethod
    def joined(cls, parts: Sequence[NewEdges]) -> NewEdges:
        """Several sets, one after the other."""
        sources, targets, times, tags = zip(*parts, strict=True)
        return cls(np.concatenate(sources), np.concatenate(targets), np.concatenate(times), np.concatenate(tags))

    def reversed(self) -> NewEdges:
        """The same edges, seen from the other end."""
        return NewEdges(self.targets, self.sources, self.times, self.tags)


class Layers(NamedTuple):
    """Part of a breadth-first search."""

    reached: list[int]
    """The nodes found, nearest first."""
    sizes: list[int]
    """How many of them each layer holds."""
    frontier: list[int]
    """The last layer, from which a search may go on."""


def _concatenated_ranges(starts: Ints, counts: Ints) -> Ints:
    """The numbers start, start + 1, ... of every range, one range after the other."""
    before = np.cumsum(counts) - counts
    places: Ints = np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(starts - before, counts)
    return places


class Adjacency:
    """Edges from numbered nodes to numbered neighbours, each with a time and a tag that says of which kind it is.

    Duplicates are kept; readers ignore them.
    """

    def __init__(self) -> None:
        self._set_base(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float64), np.zeros(0, np.uint8))

    def _set_base(self, offsets: Ints, targets: NDArray[np.int32], times: Floats, tags: NDArray[np.uint8]) -> None:
        self._offsets, self._targets, self._times, self._tags = offsets, targets, times, tags
        self._nodes = len(offsets) - 1
        # Plain indexing of a memoryview is several times faster than that of an array, which thin frontiers live on.
        self._offset_cells: Any = offsets.data
        self._target_cells: Any = targets.data
        self._recent: dict[int, list[tuple[int, float, int]]] = {}
        self._recent_count = 0

    def __len__(self) -> int:
        return len(self._targets) + self._recent_count

    def extend(self, rows: NewEdges) -> None:
        """Add edges; merges into the flat arrays when the new ones have become many."""
        if self._recent_count + len(rows.sources) > max(MERGE_AT_LEAST, len(self._targets) // 8):
            self._merge(rows)
            return
        for source, target, time, tag in zip(*(column.tolist() for column in rows), strict=True):
            self._recent.setdefault(source, []).append((target, time, tag))
        self._recent_count += len(rows.sources)

    def _merge(self, rows: NewEdges) -> None:
        late = [(source, *edge) for source, near in self._recent.items() for edge in near]
        recent = list(zip(*late, strict=True)) or [(), (), (), ()]
        kept = np.repeat(np.arange(self._nodes, dtype=np.int64), np.diff(self._offsets))
        sources = np.concatenate([kept, np.array(recent[0], np.int64), rows.sources])
        targets = np.concatenate([self._targets, np.array(recent[1], np.int32), rows.targets.astype(np.int32)])
        times = np.concatenate([self._times, np.array(recent[2], np.float64), rows.times])
        tags = np.concatenate([self._tags, np.array(recent[3], np.uint8), rows.tags])
        order = np.argsort(sources, kind="stable")
        offsets = np.zeros(int(sources.max()) + 2, np.int64)
        np.cumsum(np.bincount(sources), out=offsets[1:])
        self._set_base(offsets, targets[order], times[order], tags[order])

    def neighbours(self, node: int) -> list[int]:
        """The neighbours of one node."""
        near: list[int] = []
        if node < self._nodes:
            cells = self._target_cells
            near = [cells[k] for k in range(self._offset_cells[node], self._offset_cells[node + 1])]
        if node in self._recent:
            near.extend(edge[0] for edge in self._recent[node])
        return near

    def breadth_first(self, frontier: list[int], seen: bytearray, widest: int, most: int | None) -> Layers:
        """Breadth first from ``frontier`` until a layer is empty or holds ``widest`` nodes, or after ``most`` layers.

        Written out in one piece: a chain is nothing but steps, and a call per step would double its price.
        """
        offsets, cells, recent, settled = self._offset_cells, self._target_cells, self._recent, self._nodes
        reached: list[int] = []
        sizes: list[int] = []
        while frontier and len(frontier) < widest and (most is None or len(sizes) < most):
            found = []
            for node in frontier:
                if node < settled:
                    for k in range(offsets[node], offsets[node + 1]):
                        target = cells[k]
                        if not seen[target]:
                            seen[target] = 1
                            found.append(target)
                if node in recent:
                    for target, _, _ in recent[node]:
                        if not seen[target]:
                            seen[target] = 1
                            found.append(target)
            reached += found
            sizes.append(len(found))
            frontier = found
        return Layers(reached, sizes, frontier)

    def gather(self, nodes: Sequence[int] | Ints) -> FoundEdges:
        """All edges out of many nodes at once."""
        wanted = np.asarray(nodes, np.int64)
        settled = np.flatnonzero(wanted < self._nodes)
        starts = self._offsets[wanted[settled]]
        counts = self._offsets[wanted[settled] + 1] - starts
        cells = _concatenated_ranges(starts, counts)
        base = FoundEdges(
            np.repeat(settled, counts), self._targets[cells].astype(np.int64), self._times[cells], self._tags[cells]
        )
        late = self._gather_recent(wanted) if self._recent else []
        if not late:
            return base
        owners, targets, times, tags = zip(*late, strict=True)
        return FoundEdges(
            np.concatenate([base.owners, np.array(owners, np.int64)]),
            np.concatenate([base.targets, np.array(targets, np.int64)]),
            np.concatenate([base.times, np.array(times, np.float64)]),
            np.concatenate([base.tags, np.array(tags, np.uint8)]),
        )

    def _gather_recent(self, wanted: Ints) -> list[tuple[int, int, float, int]]:
        """Edges that are not merged yet, looked up from the smaller side."""
        if len(wanted) <= len(self._recent):
            positions: Iterable[int] = range(len(wanted))
        else:
            fresh = np.fromiter(self._recent, np.int64, len(self._recent))
            positions = np.flatnonzero(np.isin(wanted, fresh)).tolist()
        recent, nodes = self._recent, wanted.tolist()
        return [(p, *edge) for p in positions for edge in recent.get(nodes[p], ())]


# Edges of a long ledger, read only around the items asked about.
#
# The graph begins empty at the ledger's head, takes in all that is appended, and reads older edges around the nodes
# that a question meets, each once. The answers are the same: `tests/provenance` asks both ways.

WHOLE_UP_TO = 20_000
"""A ledger of at most so many events is read whole at once."""
MOST_NODES, MOST_LAYERS = 100_000, 2_000
"""A single walk that meets more than this reads the whole ledger: that is then the shorter way."""

_OWN = (EdgeKind.WRITTEN_BY, EdgeKind.DERIVED_FROM)
_INFLUENCED = (EdgeKind.INFLUENCED,)
_READ = (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)
_NAMED_BY_OTHERS = (EdgeKind.DERIVED_FROM, EdgeKind.INFLUENCED, EdgeKind.SUPERSEDES)


class EdgeReader(Protocol):
    """The part of a ledger that this module needs."""

    def edges_at(
        self, nodes: Iterable[str], *, end: EdgeEnd, kinds: Sequence[EdgeKind], until: int
    ) -> list[EdgeColumns]:
        """The edges of some kinds that begin or end at any of many nodes, of the events up to ``until``."""
        ...


class Surroundings:
    """The nodes whose edges were read, up to one event."""

    def __init__(self, ledger: EdgeReader, until: int) -> None:
        self._ledger, self._until = ledger, until
        self._back: set[str] = set()
        """Items whose sources and writers are known."""
        self._forward: set[str] = set()
        """Items that everything is known of."""
        self._agents: set[str] = set()
        """Agents whose reads are known."""

    def behind(self, items: Iterable[str]) -> Iterator[EdgeColumns]:
        """Writers of items, and the items these came from; those that were read before are left out."""
        fresh = [name for name in dict.fromkeys(items) if name not in self._back]
        if fresh:
            pages = [*self._at(fresh, "source", _OWN), *self._at(fresh, "target", _INFLUENCED)]
            self._back.update(fresh)  # only now: the store may fail
            yield from pages

    def around(self, items: Iterable[str]) -> Iterator[EdgeColumns]:
        """The same, and the items' children and readers."""
        fresh = [name for name in dict.fromkeys(items) if name not in self._forward]
        if fresh:
            pages = [*self._at(fresh, "source", tuple(EdgeKind)), *self._at(fresh, "target", _NAMED_BY_OTHERS)]
            self._back.update(fresh)
            self._forward.update(fresh)
            yield from pages

    def read_by(self, agents: Iterable[str]) -> Iterator[EdgeColumns]:
        """Items that agents read or were sent."""
        fresh = [name for name in dict.fromkeys(agents) if name not in self._agents]
        if fresh:
            pages = self._at(fresh, "target", _READ)
            self._agents.update(fresh)
            yield from pages

    def _at(self, nodes: list[str], end: EdgeEnd, kinds: Sequence[EdgeKind]) -> list[EdgeColumns]:
        return self._ledger.edges_at(nodes, end=end, kinds=kinds, until=self._until)
