"""Structured memories without a ledger: a stream of records is judged in the order of writing, each once.

A held record never counts for or against others. In a guard, ``record_watch`` judges them, again and again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.gates.memory.evidence import EvidenceTable, MemoryWindow, selected, window_rows
from lazaretto.gates.memory.record_model import AT_WORK_RATE, RecordModel, Scores
from lazaretto.gates.memory.record_review import MIN_MEMORIES, MIN_SUPPORT
from lazaretto.models.record_embedding import DIMENSION, Floats, embed, tags_block
from lazaretto.types import Evidence, MemoryFields, Observation


@dataclass(frozen=True, slots=True)
class RecordJudgement:
    """The detector's judgement of one structured memory."""

    risk: float
    interval: tuple[float, float]
    suspicious: bool
    """Above the threshold for the false-positive rate, fixed on validation teams."""
    informed: bool
    """Whether there was enough to compare with."""
    evidence: tuple[Evidence, ...]
    ms: float
    """Spent on the decision, without the embedding."""


def embed_fields(records: Sequence[MemoryFields]) -> Floats:
    """Vectors of structured memories of any lengths; those of one shape are embedded together."""
    vectors = np.zeros((len(records), DIMENSION), np.float32)
    shapes: dict[tuple[int, int, int], list[int]] = {}
    for place, record in enumerate(records):
        shapes.setdefault((len(record.state), len(record.context), len(record.action)), []).append(place)
    for places in shapes.values():
        alike = [records[p] for p in places]
        state, context, action = (
            np.array([getattr(r, name) for r in alike], np.float32) for name in ("state", "context", "action")
        )
        vectors[places] = embed(state, context, action, tags_block([r.tags for r in alike]))
    return vectors


class RecordScreener:
    """The detector with the evidence of one namespace. Safe to use from several threads."""

    def __init__(self, model: RecordModel, window: MemoryWindow | None = None, rate: float = AT_WORK_RATE) -> None:
        self.model = model
        self.window = window or MemoryWindow()
        self._hold = model.fusion.threshold_at(rate)
        self._ids: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._lock = threading.Lock()

    def screen(self, agent: str, vector: Floats, parents: Sequence[str] = ()) -> RecordJudgement:
        """Judge one memory from its vector, (1, 768), and the ids of its parents."""
        if vector.shape != (1, DIMENSION) or not np.isfinite(vector).all():
            raise InputError("fields", "give no finite vector", "Check the numbers of the record")
        started = time.perf_counter()
        with self._lock:
            evidence = self.window.evidence_for(window_rows(vector), [agent], self._rows([parents]))
            size = self.window.size
        scores = self.model.score(evidence)
        held, informed = self._ruled(evidence, scores, size)
        ms = (time.perf_counter() - started) * 1000
        outcome = (float(scores.fused[0]), bool(held[0]), bool(informed[0]), ms)
        return judgement(self.model, evidence, scores, 0, outcome, self._ids.get)

    def screen_many(
        self,
        agents: Sequence[str],
        vectors: Floats,
        names: Sequence[str] | None = None,
        parents: Sequence[Sequence[str]] | None = None,
        success: Sequence[bool | None] | None = None,
        batch: int = 256,
    ) -> list[RecordJudgement]:
        """Judge memories in the order of writing, taking in each batch's passed ones before the next.

        ``names`` are their ids, by which evidence and ``parents`` refer to them; default: ``#0``, ``#1`` and so on.
        ``success`` is the outcome that each states for itself, None where it states none.
        """
        named = names or [f"#{n}" for n in range(len(agents))]
        out: list[RecordJudgement] = []
        for start in range(0, len(agents), batch):
            part = slice(start, start + batch)
            started = time.perf_counter()
            above = parents[part] if parents else None
            outcomes = success[part] if success else None
            evidence, scores, held, informed = self._batch(agents[part], vectors[part], named[part], above, outcomes)
            ms = (time.perf_counter() - started) * 1000 / len(evidence)
            rows = zip(scores.fused.tolist(), held.tolist(), informed.tolist(), [ms] * len(evidence), strict=True)
            out += [judgement(self.model, evidence, scores, row, s, self._ids.get) for row, s in enumerate(rows)]
        return out

    def risks(self, agents: Sequence[str], vectors: Floats, batch: int = 256) -> tuple[Floats, NDArray[np.bool_]]:
        """Scores and rulings of ``screen_many`` as columns, without a record for each memory."""
        scores, rulings = [np.zeros(0, np.float32)], [np.zeros(0, dtype=bool)]
        for start in range(0, len(agents), batch):
            part = slice(start, start + batch)
            names = [f"#{n}" for n in range(start, min(start + batch, len(agents)))]
            _, found, held, _ = self._batch(agents[part], vectors[part], names)
            scores.append(found.fused)
            rulings.append(held)
        return np.concatenate(scores), np.concatenate(rulings)

    def _batch(
        self,
        agents: Sequence[str],
        vectors: Floats,
        names: Sequence[str],
        parents: Sequence[Sequence[str]] | None = None,
        success: Sequence[bool | None] | None = None,
    ) -> tuple[EvidenceTable, Scores, NDArray[np.bool_], NDArray[np.bool_]]:
        """Judge memories against earlier ones, and take in those that pass."""
        memories = window_rows(vectors)
        with self._lock:
            rows = None if parents is None else self._rows(parents)
            evidence = self.window.evidence_for(memories, agents, rows)
            scores = self.model.score(evidence)
            held, informed = self._ruled(evidence, scores, self.window.size)
            failed = np.array([good is False for good in success]) if success else np.zeros(len(agents), dtype=bool)
            if success and rows is not None:
                known = np.array([good is not None for good in success])
                self.window.record_use(rows[known], ~failed[known])
            passed = np.flatnonzero(~held & ~failed)  # a failed one is no example to follow
            if len(passed):
                numbers = [self._number(names[n]) for n in passed.tolist()]
                writers = [agents[n] for n in passed.tolist()]
                trust = self.model.own_credibility(selected(evidence, passed))
                self.window.add(memories[passed], writers, numbers, trust, None if rows is None else rows[passed])
        return evidence, scores, held, informed

    def keep(
        self,
        items: Sequence[str],
        agents: Sequence[str],
        vectors: Floats,
        parents: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Take memories into the window."""
        if not len(items):
            return
        memories = window_rows(vectors)
        with self._lock:
            rows = None if parents is None else self._rows(parents)
            evidence = self.window.evidence_for(memories, agents, rows)
            numbers = [self._number(item) for item in items]
            self.window.add(memories, agents, numbers, self.model.own_credibility(evidence), rows)

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

    def _rows(self, parents: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Numbers of the known ones among the parents, as rows filled with -1."""
        known = [[self._numbers[p] for p in several if p in self._numbers] for several in parents]
        rows = np.full((len(known), max(map(len, known), default=0)), -1, dtype=np.int64)
        for row, several in enumerate(known):
            rows[row, : len(several)] = several
        return rows

    def _ruled(self, evidence: EvidenceTable, scores: Scores, size: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each memory is to be held, and whether there was enough to compare it with."""
        informed = (evidence.support >= MIN_SUPPORT) & (size >= MIN_MEMORIES)
        return informed & (scores.fused >= self._hold), informed


def judgement(
    model: RecordModel, evidence: EvidenceTable, terms: Scores, row: int, outcome: tuple[float, bool, bool, float],
    names: Callable[[int], str | None],
) -> RecordJudgement:  # fmt: skip
    """One row as a judgement; ``outcome``: its score, whether it is held, whether it is informed, and milliseconds."""
    score, held, informed, ms = outcome
    risk, low, high = model.fusion.calibrated(score)
    interval = (low, high) if informed else (0.0, 1.0)
    return RecordJudgement(risk, interval, held, informed, explanation(model, evidence, terms, row, names), ms)


def explanation(
    model: RecordModel, evidence: EvidenceTable, scores: Scores, row: int, names: Callable[[int], str | None]
) -> tuple[Evidence, ...]:
    """Evidence: the term that weighs most, and the memories that agree and disagree most."""
    terms = {
        "credibility": round(float(scores.credibility[row]), 3),
        "recognition": round(float(scores.neural[row]), 3),
        "similarity_to_writer": round(float(evidence.similarity[row]), 3),
        "writer_stability": round(float(evidence.stability[row]), 3),
        "conflict": round(float(evidence.conflict[row]), 3),
        "least_credible_source": round(float(evidence.lineage[row]), 3),
        "voices": int(evidence.voices[row]),
    }
    alpha = model.fusion.alpha
    source = "credibility" if alpha * (1 - terms["credibility"]) > (1 - alpha) * terms["recognition"] else "recognition"
    found = [Evidence("measure", f"The {source} term spoke loudest.", terms)]
    neighbours = evidence.neighbours[row].tolist()
    agreements = [(a, n) for a, n in zip(evidence.pairs[row, :, 1].tolist(), neighbours, strict=True) if n >= 0]
    if agreements:
        (support, near), (conflict, against) = max(agreements), min(agreements)
        data = {
            "supports": names(near),
            "agreement": round(support, 3),
            "contradicts": names(against),
            "disagreement": round(conflict, 3),
        }
        found.append(Evidence("match", "The nearest memories that support and contradict it.", data))
    return tuple(found)


def vector_of(observation: Observation) -> Floats:
    """The vector of an observation's record."""
    assert observation.fields is not None
    return embed_fields([observation.fields])
