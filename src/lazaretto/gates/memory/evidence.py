"""The evidence around a structured memory: who writes it, what they wrote before, and what others say of the same.

A window holds the recent memories of a group of agents (24 agents x 200 memories in the paper). A new memory is
compared with the nearest situations in it. One writer is one voice, and a writer's own memories do not support it, so
that repeating a claim earns nothing. Looking costs the same however many memories were ever written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.record_embedding import BLOCKS, DIMENSION, Floats

NEIGHBOURS = 16
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


@cache
def _projections() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(20_261_116)
    situation = rng.standard_normal((_SITUATION_END, SITUATION), dtype=np.float32) / np.sqrt(np.float32(SITUATION))
    short = rng.standard_normal((DIMENSION, SHORT), dtype=np.float32) / np.sqrt(np.float32(SHORT))
    return situation, short


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found about some memories, one row each."""

    short: Floats
    """The embedding in fewer dimensions."""
    residual: Floats
    """How it differs from what is usual in its situation."""
    pairs: Floats
    """(n, NEIGHBOURS, PAIR_FEATURES); zeros where there is no neighbour."""
    similarity: Floats
    """Mean cosine to what its writer wrote before."""
    stability: Floats
    """Share of the writer's last outcomes that were good."""
    conflict: Floats
    """0: all voices agree with its action; 1: all are opposed; 0.5 where there is no voice."""
    voices: Floats
    """Other writers heard."""
    neighbours: NDArray[np.int64]
    """Ids of the neighbours, -1 for none."""

    def __len__(self) -> int:
        return len(self.short)


def joined(parts: Sequence[Looked]) -> Looked:
    """Several looks as one."""
    return Looked(*(np.concatenate([getattr(p, name) for p in parts]) for name in Looked.__dataclass_fields__))


def taken(looked: Looked, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Looked:
    """Some rows of a look."""
    return Looked(*(getattr(looked, name)[rows] for name in Looked.__dataclass_fields__))


class Writers:
    """What is known of each writer: the mean of its recent memories and how its decisions went."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._recent: list[Floats] = []
        self._sum: list[Floats] = []
        self._count: list[int] = []
        self._outcomes: list[list[float]] = []

    def place(self, writer: str) -> int:
        """A writer's number; a new writer gets one."""
        place = self._place.get(writer)
        if place is None:
            place = self._place[writer] = len(self._place)
            self._recent.append(np.zeros((HISTORY, SHORT), np.float32))
            self._sum.append(np.zeros(SHORT, np.float32))
            self._count.append(0)
            self._outcomes.append([])
        return place

    def wrote(self, place: int, short: Floats) -> None:
        """Add a memory to a writer's history."""
        slot = self._count[place] % HISTORY
        self._sum[place] += short - self._recent[place][slot]
        self._recent[place][slot] = short
        self._count[place] += 1

    def reported(self, place: int, good: float) -> None:
        """Add an outcome."""
        outcomes = self._outcomes[place]
        outcomes.append(good)
        if len(outcomes) > OUTCOMES:
            del outcomes[0]

    def similarity(self, place: int, short: Floats) -> float:
        """Mean cosine to the writer's history; 0.5 where it has none."""
        kept = min(self._count[place], HISTORY)
        return float(short @ self._sum[place] / kept) if kept else 0.5

    def stability(self, place: int) -> float:
        """Share of good outcomes; one half where nothing is known."""
        outcomes = self._outcomes[place]
        return sum(outcomes) / len(outcomes) if outcomes else UNKNOWN_STABILITY


class Window:
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
        self._credibility = np.zeros(capacity, np.float32)
        self._ids = np.full(capacity, -1, dtype=np.int64)
        self._slots: dict[int, int] = {}

    def look(self, vectors: Floats, writers: Sequence[str], ids: NDArray[np.int64] | None = None) -> Looked:
        """What the window says about memories, without taking them in. ``ids``: theirs, when they already are in."""
        situation, short = self._shortened(vectors)
        action = vectors[:, _SITUATION_END:_ACTION_END]
        place = np.array([self.writers.place(w) for w in writers], dtype=np.int64)
        likeness, best = self._nearest(situation, ids)
        known = np.asarray(best >= 0)
        agreement = np.where(known, (self._action[best] * action[:, None]).sum(-1) / _ACTION_SHARE, 0.0)
        other = known & (self._writer[best] != place[:, None])
        voice = _voices(self._writer[best], np.where(other, likeness, 0.0))
        total = voice.sum(1)
        conflict = np.where(total > 0, (voice * (1 - agreement)).sum(1) / (2 * np.where(total > 0, total, 1.0)), 0.5)
        weight = likeness / np.maximum(likeness.sum(1, keepdims=True), 1e-9)
        usual = (weight[..., None] * self._short[best]).sum(1)
        pairs = np.stack([likeness, agreement, np.where(known, self._credibility[best], 0.0), other, voice], axis=-1)
        histories = [self.writers.similarity(p, s) for p, s in zip(place.tolist(), short, strict=True)]
        stability = [self.writers.stability(p) for p in place.tolist()]
        return Looked(
            short,
            np.where(known.any(axis=1, keepdims=True), short - usual, 0.0).astype(np.float32),
            pairs.astype(np.float32),
            np.array(histories, np.float32),
            np.array(stability, np.float32),
            conflict.astype(np.float32),
            (voice > 0).sum(1).astype(np.float32),
            np.where(known, self._ids[best], -1),
        )

    def add(
        self, vectors: Floats, writers: Sequence[str], ids: Sequence[int], credibility: Floats, short: Floats
    ) -> None:
        """Take memories in; the oldest make room."""
        situation, _ = self._shortened(vectors)
        slots = (self._next + np.arange(len(ids))) % self.capacity
        for slot in slots[self._ids[slots] >= 0].tolist():
            self._slots.pop(int(self._ids[slot]), None)
        self._situation[slots], self._short[slots] = situation, short
        self._action[slots] = vectors[:, _SITUATION_END:_ACTION_END]
        self._credibility[slots], self._ids[slots] = credibility, ids
        for slot, writer, one, item in zip(slots.tolist(), writers, short, ids, strict=True):
            place = self.writers.place(writer)
            self._writer[slot] = place
            self._slots[item] = slot
            self.writers.wrote(place, one)
        self._next = (self._next + len(ids)) % self.capacity
        self.size = min(self.capacity, self.size + len(ids))

    def forget(self, item: int) -> None:
        """Take a memory out: it no longer speaks for or against others."""
        slot = self._slots.pop(item, None)
        if slot is not None:
            self._situation[slot], self._writer[slot], self._ids[slot] = -1.0, -1, -1

    def _shortened(self, vectors: Floats) -> tuple[Floats, Floats]:
        by_situation, by_all = _projections()
        situation = vectors[:, :_SITUATION_END] @ by_situation
        situation /= np.maximum(np.linalg.norm(situation, axis=1, keepdims=True), 1e-9)
        return situation, vectors @ by_all

    def _nearest(self, situation: Floats, ids: NDArray[np.int64] | None) -> tuple[Floats, NDArray[np.int64]]:
        count = min(NEIGHBOURS, self.size)
        if count == 0:
            shape = (len(situation), NEIGHBOURS)
            return np.zeros(shape, np.float32), np.full(shape, -1, dtype=np.int64)
        cosine = situation @ self._situation[: self.size].T
        best = np.argpartition(-cosine, count - 1, axis=1)[:, :count]
        found = np.take_along_axis(cosine, best, 1)
        gone = self._ids[best] < 0
        if ids is not None:  # a memory is no witness for itself
            gone |= self._ids[best] == ids[:, None]
        likeness = np.where(gone, 0.0, np.exp(_LIKENESS * (found - 1)))
        best = np.where(gone, -1, best)
        if count < NEIGHBOURS:
            missing = ((0, 0), (0, NEIGHBOURS - count))
            likeness, best = np.pad(likeness, missing), np.pad(best, missing, constant_values=-1)
        return likeness.astype(np.float32), best


def _voices(writer: NDArray[np.int64], likeness: Floats) -> Floats:
    """Each writer speaks once: its likeness is shared among its memories, and counts as its nearest one's."""
    same = writer[:, :, None] == writer[:, None, :]
    mine = np.where(same, likeness[:, None, :], 0.0)
    total, loudest = mine.sum(2), mine.max(2)
    return np.asarray(likeness * loudest / np.maximum(total, 1e-9), dtype=np.float32)
