"""The evidence around a structured memory: its writer, the writer's past, and what others say of the same.

A new memory is compared with the nearest situations in a window of recent ones (24 agents x 200 memories in the paper).
One writer is one voice, one root source is one voice, and a writer's own memories do not support it. A memory is
trusted no more than its least trusted source, and counts less the more of what was made from it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.record_embedding import BLOCKS, DIMENSION, Floats

OWN, OTHERS = 4, 12
NEIGHBOURS = OWN + OTHERS
"""Nearest memories that are looked at: a few of the writer's own, most of others. Its own last steps are always the
nearest, and would leave no place for a witness."""
CAPACITY = 24 * 200
HISTORY = 200
OUTCOMES = 100
SITUATION, SHORT = 64, 240
PAIR_FEATURES = 5
"""Per neighbour: likeness, agreement, credibility, whether it is another writer, share of its writer's voice."""
_SITUATION_END = BLOCKS["state"] + BLOCKS["context"]
_ACTION_END = _SITUATION_END + BLOCKS["action"]
_ACTION_SHARE = BLOCKS["action"] / DIMENSION
_LIKENESS = 20.0
"""Sharpness of likeness: a neighbour whose situation's cosine is 0.05 lower counts a third."""
UNKNOWN_STABILITY = 0.5
BENEFIT = 2.0
"""Good uses with which every memory begins: one bad use is no proof."""
_GONE = np.float32(-2.0)
"""A number below every cosine."""
_BLOCK = 16
Ints = NDArray[np.int64]


@cache
def _projections() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(20_261_116)
    situation = rng.standard_normal((_SITUATION_END, SITUATION), dtype=np.float32) / np.sqrt(np.float32(SITUATION))
    short = rng.standard_normal((DIMENSION, SHORT), dtype=np.float32) / np.sqrt(np.float32(SHORT))
    return situation, short


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Memories as a window keeps and compares them, one row each."""

    situation: Floats
    """State and context, unit vectors."""
    action: Floats
    short: Floats
    """The whole embedding in fewer dimensions."""

    def __len__(self) -> int:
        return len(self.short)

    def __getitem__(self, rows: Ints | slice) -> WindowRows:
        return WindowRows(self.situation[rows], self.action[rows], self.short[rows])


def window_rows(vectors: Floats) -> WindowRows:
    """Embeddings of 768 dimensions as a window needs them."""
    by_situation, by_all = _projections()
    situation = vectors[:, :_SITUATION_END] @ by_situation
    situation /= np.maximum(np.linalg.norm(situation, axis=1, keepdims=True), 1e-9)
    return WindowRows(situation, vectors[:, _SITUATION_END:_ACTION_END], vectors @ by_all)


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """Evidence about memories, one row each."""

    short: Floats
    """The embedding in fewer dimensions."""
    residual: Floats
    """The embedding minus the usual one in its situation."""
    pairs: Floats
    """(n, NEIGHBOURS, PAIR_FEATURES); zeros where there is no neighbour."""
    similarity: Floats
    """Mean cosine to its writer's earlier memories."""
    stability: Floats
    """Share of the writer's last outcomes that were good."""
    conflict: Floats
    """0: all voices agree with its action; 1: all are opposed; 0.5 where there is no voice."""
    voices: Floats
    """Independent others heard."""
    support: Floats
    """Their weight together: 1 is one other writer in the very same situation."""
    lineage: Floats
    """Trust of the least trusted memory it was made from; 1 where none is known."""
    neighbours: Ints
    """Ids of the neighbours, -1 for none."""

    def __len__(self) -> int:
        return len(self.short)


def concatenated(parts: Sequence[EvidenceTable]) -> EvidenceTable:
    """The rows of several tables as one table."""
    return EvidenceTable(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in EvidenceTable.__dataclass_fields__)
    )


def selected(evidence: EvidenceTable, rows: Ints | NDArray[np.bool_]) -> EvidenceTable:
    """Some rows of a table."""
    return EvidenceTable(*(getattr(evidence, name)[rows] for name in EvidenceTable.__dataclass_fields__))


class Writers:
    """Statistics of each writer: the mean of its recent memories and the outcomes of its decisions."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._recent = np.zeros((8, HISTORY, SHORT), np.float32)
        self._sum = np.zeros((8, SHORT), np.float32)
        self._count = np.zeros(8, dtype=np.int64)
        self._outcomes = np.zeros((8, OUTCOMES), np.float32)
        self._reports = np.zeros(8, dtype=np.int64)

    def place(self, writer: str) -> int:
        """A writer's number; a new writer gets one."""
        place = self._place.get(writer)
        if place is None:
            place = self._place[writer] = len(self._place)
            if place == len(self._sum):
                for name in ("_recent", "_sum", "_count", "_outcomes", "_reports"):
                    old = getattr(self, name)
                    setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        return place

    def places(self, writers: Sequence[str]) -> Ints:
        """The numbers of several writers."""
        return np.array([self.place(w) for w in writers], dtype=np.int64)

    def add_memories(self, places: Ints, short: Floats) -> None:
        """Add memories to their writers' histories."""
        for place, vector in zip(places.tolist(), short, strict=True):
            slot = self._count[place] % HISTORY
            self._sum[place] += vector - self._recent[place, slot]
            self._recent[place, slot] = vector
            self._count[place] += 1

    def add_outcomes(self, places: Ints, good: Floats) -> None:
        """Add outcomes, at most one per writer at a time."""
        self._outcomes[places, self._reports[places] % OUTCOMES] = good
        self._reports[places] += 1

    def similarity(self, places: Ints, short: Floats) -> Floats:
        """Mean cosine to each writer's history; 0.5 where it has none."""
        kept = np.minimum(self._count[places], HISTORY)
        mean = (short * self._sum[places]).sum(1) / np.maximum(kept, 1)
        return np.where(kept > 0, mean, np.float32(0.5)).astype(np.float32)

    def stability(self, places: Ints) -> Floats:
        """Share of good outcomes; one half where nothing is known."""
        heard = np.minimum(self._reports[places], OUTCOMES)
        share = self._outcomes[places].sum(1) / np.maximum(heard, 1)
        return np.where(heard > 0, share, np.float32(UNKNOWN_STABILITY)).astype(np.float32)


class MemoryWindow:
    """The recent memories of one group of agents."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.writers = Writers()
        self.size = 0
        self._next = 0
        self._situation = np.zeros((capacity, SITUATION), np.float32)
        self._action = np.zeros((capacity, BLOCKS["action"]), np.float32)
        self._short = np.zeros((capacity, SHORT), np.float32)
        self._writer = np.full(capacity, -1, dtype=np.int64)
        self._trust = np.zeros(capacity, np.float32)
        self._ids = np.full(capacity, -1, dtype=np.int64)
        self._root = np.full(capacity, -1, dtype=np.int64)
        self._weight = np.ones(capacity, np.float32)
        self._uses = np.zeros((capacity, 2), np.float32)
        self._slots: dict[int, int] = {}
        self._gaps = False
        """Whether anything was ever taken out."""

    def evidence_for(
        self, memories: WindowRows, writers: Sequence[str], parents: Ints | None = None, ids: Ints | None = None
    ) -> EvidenceTable:
        """The window's evidence about memories, without taking them in.

        ``parents``: rows of ids they were made from, -1 for none. ``ids``: theirs, when they already are in.
        """
        place = self.writers.places(writers)
        lineage, _ = self._descent(parents, len(memories))
        likeness, best = self._nearest(memories.situation, place, ids)
        known = np.asarray(best >= 0)
        writer = self._writer[best]
        agreement = np.where(known, np.einsum("nkd,nd->nk", self._action[best], memories.action) / _ACTION_SHARE, 0.0)
        other = known & (writer != place[:, None])
        heard = np.where(other, likeness * self._weight[best], np.float32(0.0))
        voice, voices = _voices(writer, np.where(known, self._root[best], -1), heard)
        total = voice.sum(1)
        conflict = np.where(total > 0, (voice * (1 - agreement)).sum(1) / (2 * np.where(total > 0, total, 1.0)), 0.5)
        weight = likeness / np.maximum(likeness.sum(1, keepdims=True), 1e-9)
        usual = np.einsum("nk,nkd->nd", weight, self._short[best])
        trust = np.where(known, self._trust[best] * self._weight[best], 0.0)
        pairs = np.stack([likeness, agreement, trust, other, voice], axis=-1)
        return EvidenceTable(
            memories.short,
            np.where(known.any(axis=1, keepdims=True), memories.short - usual, 0.0).astype(np.float32),
            pairs.astype(np.float32),
            self.writers.similarity(place, memories.short),
            self.writers.stability(place),
            conflict.astype(np.float32),
            voices,
            total,
            lineage,
            np.where(known, self._ids[best], -1),
        )

    def add(
        self, memories: WindowRows, writers: Sequence[str], ids: Sequence[int], trust: Floats,
        parents: Ints | None = None,
    ) -> None:  # fmt: skip
        """Take memories in; the oldest make room."""
        _, root = self._descent(parents, len(memories))
        slots = (self._next + np.arange(len(ids))) % self.capacity
        for slot in slots[self._ids[slots] >= 0].tolist():
            self._slots.pop(int(self._ids[slot]), None)
        self._situation[slots], self._short[slots] = memories.situation, memories.short
        self._action[slots], self._trust[slots] = memories.action, trust
        self._ids[slots], self._weight[slots], self._uses[slots] = ids, 1.0, 0.0
        self._root[slots] = np.where(root < 0, self._ids[slots], root)
        places = self.writers.places(writers)
        self._writer[slots] = places
        self._slots.update(zip(ids, slots.tolist(), strict=True))
        self.writers.add_memories(places, memories.short)
        self._next = (self._next + len(ids)) % self.capacity
        self.size = min(self.capacity, self.size + len(ids))

    def record_use(self, parents: Ints, good: NDArray[np.bool_]) -> None:
        """Record the outcomes of decisions made from memories here (rows of ids, -1 for none)."""
        for several, well in zip(parents.tolist(), good.tolist(), strict=True):
            for slot in (self._slots.get(parent) for parent in several):
                if slot is not None:
                    self._uses[slot, int(well)] += 1
                    failed, worked = self._uses[slot]
                    self._weight[slot] = (worked + BENEFIT) / (failed + worked + BENEFIT)

    def forget(self, item: int) -> None:
        """Take a memory out: it no longer speaks for or against others."""
        slot = self._slots.pop(item, None)
        if slot is not None:
            self._gaps = True
            self._situation[slot], self._writer[slot], self._ids[slot], self._root[slot] = -1.0, -1, -1, -1

    def _descent(self, parents: Ints | None, count: int) -> tuple[Floats, Ints]:
        """Least trust among the parents, and the one root they all go back to (-1 where they have several or none)."""
        if parents is None or parents.size == 0:
            return np.ones(count, np.float32), np.full(count, -1, dtype=np.int64)
        find = self._slots.get
        slots = np.array([[find(parent, -1) for parent in several] for several in parents.tolist()], dtype=np.int64)
        known = slots >= 0
        least = np.where(known, self._trust[slots], np.float32(1.0)).min(1)
        first = np.where(known, self._root[slots], np.iinfo(np.int64).max).min(1)
        last = np.where(known, self._root[slots], -1).max(1)
        return least, np.where(first == last, first, -1)

    def _nearest(self, situation: Floats, place: Ints, ids: Ints | None) -> tuple[Floats, Ints]:
        """Likeness and slots of the nearest memories, the writer's own first; 0 and -1 where there is none."""
        if self.size == 0:
            shape = (len(situation), NEIGHBOURS)
            return np.zeros(shape, np.float32), np.full(shape, -1, dtype=np.int64)
        cosine = situation @ self._situation[: self.size].T
        own = self._writer[: self.size] == place[:, None]
        if ids is not None:  # a memory is no witness for itself
            cosine[self._ids[: self.size] == ids[:, None]] = _GONE
        if self._gaps:
            cosine[:, self._ids[: self.size] < 0] = _GONE
        parts = [_top(np.where(own, cosine, _GONE), OWN), _top(np.where(own, _GONE, cosine), OTHERS)]
        found, best = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
        gone = found <= _GONE
        likeness = np.where(gone, np.float32(0.0), np.exp(np.float32(_LIKENESS) * (found - 1)))
        return likeness, np.where(gone, -1, best)


def _top(cosine: Floats, count: int) -> tuple[Floats, Ints]:
    """The highest of each row and their columns, highest first; ``_GONE`` and -1 where a row has fewer.

    The maxima of blocks give a bar that at least ``count`` of a row pass, so that only a few are sorted: ten times
    faster than a partition of whole rows.
    """
    rows, size = cosine.shape
    blocks = size // _BLOCK
    bar = np.full(rows, _GONE, np.float32)
    if blocks > count:
        peaks = cosine[:, : blocks * _BLOCK].reshape(rows, _BLOCK, blocks).max(axis=1)
        bar = np.partition(peaks, blocks - count, axis=1)[:, blocks - count]
    row, column = np.nonzero((cosine >= bar[:, None]) & (cosine > _GONE))
    value = cosine[row, column]
    order = np.lexsort((-value, row))
    row, column, value = row[order], column[order], value[order]
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(rows))[row]
    kept = place < count
    found, best = np.full((rows, count), _GONE, np.float32), np.full((rows, count), -1, dtype=np.int64)
    found[row[kept], place[kept]], best[row[kept], place[kept]] = value[kept], column[kept]
    return found, best


def _voices(writer: Ints, root: Ints, likeness: Floats) -> tuple[Floats, Floats]:
    """The loudness of each neighbour, and the count of voices.

    Each writer, and each root source, speaks once: its loudness is shared among what says the same thing again.
    """
    same = (writer[:, :, None] == writer[:, None, :]) | (root[:, :, None] == root[:, None, :])
    mine = np.where(same, likeness[:, None, :], np.float32(0.0))
    total, loudest = mine.sum(2), mine.max(2)
    share = likeness / np.maximum(total, 1e-9)
    return np.asarray(share * loudest, dtype=np.float32), share.sum(1).round().astype(np.float32)


# Evidence windows of several groups of agents, looked at together: one group per namespace, or per simulated team.


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
