"""Structured memories at the gate: keeps the evidence of one namespace, and turns scores into verdicts.

The window is filled from the ledger when the gate first meets a structured memory, and grows with what is allowed; what
is held never speaks for or against others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.memory.evidence import Looked, Window, taken
from lazaretto.gates.memory.records import RecordModel, Scores
from lazaretto.models.record_embedding import Floats, embed, tags_block
from lazaretto.types import Evidence, MemoryFields, Observation

MIN_MEMORIES = 50
MIN_VOICES = 1
"""Below these there is too little to compare with, and the verdict says so instead of guessing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the detector makes of one structured memory."""

    risk: float
    interval: tuple[float, float]
    suspicious: bool
    """Above the threshold that was fixed on validation teams."""
    informed: bool
    """Whether there was enough to compare with."""
    evidence: tuple[Evidence, ...]
    ms: float
    """Spent on the decision, without the embedding."""


def embed_fields(records: Sequence[MemoryFields]) -> Floats:
    """Vectors of structured memories of any lengths."""
    rows = [
        embed(
            np.array([r.state], np.float32), np.array([r.context], np.float32), np.array([r.action], np.float32),
            tags_block([r.tags]),
        )
        for r in records
    ]  # fmt: skip
    return np.concatenate(rows) if rows else np.zeros((0, 768), np.float32)


class StructuredScreener:
    """The detector with the evidence of one namespace. Safe to use from several threads."""

    def __init__(self, model: RecordModel, window: Window | None = None) -> None:
        self.model = model
        self.window = window or Window()
        self._ids: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._lock = threading.Lock()

    def screen(self, agent: str, vector: Floats) -> Judged:
        """Judge one memory from its vector, (1, 768)."""
        if vector.shape != (1, 768) or not np.isfinite(vector).all():
            raise InputError("fields", "give no finite vector", "Check the numbers of the record")
        started = time.perf_counter()
        with self._lock:
            looked = self.window.look(vector, [agent])
        scores = self.model.score(looked)
        return self._judge(looked, scores, (time.perf_counter() - started) * 1000)

    def screen_many(self, agents: Sequence[str], vectors: Floats, batch: int = 256) -> list[Judged]:
        """Judge memories in the order of writing, taking in each batch's passed ones before the next."""
        out: list[Judged] = []
        for start in range(0, len(agents), batch):
            part = slice(start, start + batch)
            started = time.perf_counter()
            with self._lock:
                looked = self.window.look(vectors[part], agents[part])
                scores = self.model.score(looked)
            ms = (time.perf_counter() - started) * 1000 / len(looked)
            judged = [self._judge(taken(looked, rows), _row(scores, rows), ms) for rows in _each(len(looked))]
            passed = [start + i for i, one in enumerate(judged) if not one.suspicious]
            names, writers = [f"#{n}" for n in passed], [agents[n] for n in passed]
            self.keep(names, writers, vectors[passed], taken(looked, np.array(passed, dtype=np.int64) - start))
            out += judged
        return out

    def keep(self, items: Sequence[str], agents: Sequence[str], vectors: Floats, looked: Looked | None = None) -> None:
        """Take memories into the window; ``looked`` is what was seen of them, when that was done already."""
        if not len(items):
            return
        with self._lock:
            looked = looked or self.window.look(vectors, agents)
            numbers = [self._number(item) for item in items]
            self.window.add(vectors, agents, numbers, self.model.credibility(looked), looked.short)

    def drop(self, item: str) -> None:
        """A memory was held after all: it no longer speaks."""
        with self._lock:
            number = self._numbers.get(item)
            if number is not None:
                self.window.forget(number)

    def report(self, outcomes: Iterable[tuple[str, bool]]) -> None:
        """How decisions of agents went."""
        with self._lock:
            for agent, good in outcomes:
                self.window.writers.reported(self.window.writers.place(agent), float(good))

    def _number(self, item: str) -> int:
        """The item's number in the window; names of memories that left it long ago are dropped."""
        known = self._numbers.get(item)
        if known is not None:
            return known
        number = self._next
        self._next += 1
        self._numbers[item], self._ids[number] = number, item
        gone = self._ids.pop(number - 2 * self.window.capacity, None)
        if gone is not None:
            self._numbers.pop(gone, None)
        return number

    def _judge(self, looked: Looked, scores: Scores, ms: float) -> Judged:
        fusion = self.model.fusion
        fused = float(scores.fused[0])
        risk, low, high = fusion.calibrated(fused)
        informed = self.window.size >= MIN_MEMORIES and looked.voices[0] >= MIN_VOICES
        if not informed:
            low, high = 0.0, 1.0
        return Judged(
            risk, (low, high), informed and fused >= fusion.threshold, informed, self._evidence(looked, scores), ms
        )

    def _evidence(self, looked: Looked, scores: Scores) -> tuple[Evidence, ...]:
        """Which term spoke, and which memories agree and disagree most."""
        terms = {
            "credibility": round(float(scores.credibility[0]), 3),
            "recognition": round(float(scores.neural[0]), 3),
            "similarity_to_writer": round(float(looked.similarity[0]), 3),
            "writer_stability": round(float(looked.stability[0]), 3),
            "conflict": round(float(looked.conflict[0]), 3),
            "voices": int(looked.voices[0]),
        }
        alpha = self.model.fusion.alpha
        source = (
            "credibility" if alpha * (1 - terms["credibility"]) > (1 - alpha) * terms["recognition"] else "recognition"
        )
        found = [Evidence("measure", f"The {source} term spoke loudest.", terms)]
        known = looked.neighbours[0] >= 0
        if known.any():
            agreement = np.where(known, looked.pairs[0, :, 1], 0.0)
            near, against = int(agreement.argmax()), int(np.where(known, agreement, 9.0).argmin())
            data = {
                "supports": self._ids.get(int(looked.neighbours[0, near])),
                "agreement": round(float(agreement[near]), 3),
                "contradicts": self._ids.get(int(looked.neighbours[0, against])),
                "disagreement": round(float(agreement[against]), 3),
            }
            found.append(Evidence("match", "The nearest memories that support and contradict it.", data))
        return tuple(found)


def _each(count: int) -> list[np.ndarray]:
    return [np.array([n]) for n in range(count)]


def _row(scores: Scores, rows: np.ndarray) -> Scores:
    return Scores(scores.fused[rows], scores.credibility[rows], scores.neural[rows], scores.attention[rows])


def vector_of(observation: Observation) -> Floats:
    """The vector of an observation's record."""
    assert observation.fields is not None
    return embed_fields([observation.fields])
