"""Structured memories in the order of writing: those of a namespace, from its ledger, or a stream without one.

Everything follows from the ledger's events in their order, so all processes know the same, also after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.gates.engine.recheck_queue import HORIZON, TENDED
from lazaretto.gates.memory.evidence import (
    CAPACITY,
    EvidenceTable,
    GroupWindows,
    MemoryOrigins,
    MemoryWindow,
    selected,
    window_rows,
)
from lazaretto.gates.memory.record_model import (
    AT_WORK_RATE,
    MIN_MEMORIES,
    MIN_SUPPORT,
    Look,
    RecordModel,
    RecordReview,
    Records,
    Scores,
    joined,
)
from lazaretto.ledger import ItemState, Ledger, changes_of, observation_of, with_change
from lazaretto.ledger.reader import Tail
from lazaretto.models.record_embedding import DIMENSION, Floats, embed, tags_block
from lazaretto.types import REBUILT, Channel, Event, EventKind, Evidence, MemoryFields, Observation

GATE = "memory"
_KINDS = (
    EventKind.SEEN, EventKind.RULED, EventKind.RELEASED, EventKind.ERASED, EventKind.SUPERSEDED, EventKind.REPAIRED,
    EventKind.UNDONE, EventKind.WITHDRAWN, EventKind.REPORTED, EventKind.NOTED,
)  # fmt: skip


@dataclass(slots=True)
class _Kept:
    """One memory under watch."""

    records: Records
    trust: float = 1.0
    fresh: bool = True
    """Written, and not ruled on yet."""
    rebuilt: bool = False
    """Made by a repair: it is evidence for no other memory."""
    state: ItemState = field(default_factory=ItemState)


class RecordWatch:
    """Judges structured memories, and judges them again. Safe to use from several threads."""

    def __init__(self, model: RecordModel, rate: float, capacity: int = CAPACITY) -> None:
        """``rate``: the share of honest memories that may be held."""
        self.model = model
        self._review = RecordReview(model.score, GroupWindows(1, capacity), model.fusion.threshold_at(rate))
        self._most = 2 * capacity
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._writers: dict[str, int] = {}
        self._kept: dict[int, _Kept] = {}
        self._next = 0
        self._tail: Tail | None = None
        self._lock = threading.Lock()

    def screen(self, observation: Observation, ledger: Ledger) -> RecordJudgement:
        """Judge a memory that is about to be written."""
        with self._lock:
            self._follow(ledger)
            started = time.perf_counter()
            look = self._review.look(self._records(observation, self._next))
            return self._judged(look, 0, (time.perf_counter() - started) * 1000)

    def again(self, items: Sequence[str], ledger: Ledger) -> list[tuple[RecordJudgement, Look, int] | None]:
        """Judge memories that were written; None for those that are not known here."""
        with self._lock:
            self._follow(ledger)
            started = time.perf_counter()
            known = [item for item in items if item in self._numbers]
            if not known:
                return [None] * len(items)
            look = self._review.look(_stacked([self._kept[self._numbers[item]].records for item in known]), again=True)
            ms = (time.perf_counter() - started) * 1000 / len(known)
            rows = {item: (self._judged(look, row, ms), look, row) for row, item in enumerate(known)}
            return [rows.get(item) for item in items]

    def _judged(self, look: Look, row: int, ms: float) -> RecordJudgement:
        outcome = (float(look.scores[row]), bool(look.bad[row]), bool(look.informed[row]), ms)
        judged = judgement(self.model, look.evidence, look.terms, row, outcome, self._names.get)
        first, *others = judged.evidence
        score, trust = notes(self.model, look, row)
        measure = Evidence(first.kind, first.summary, {**first.data, "score": score, "trust": trust})
        return replace(judged, evidence=(measure, *others))

    def _follow(self, ledger: Ledger) -> None:
        """Take in the events since the last call, from all writers."""
        if self._tail is None:
            self._tail = Tail(ledger, _KINDS, back=HORIZON)
        for event in self._tail.new():
            self._take(event)
        self._settle_fresh()

    def _take(self, event: Event) -> None:
        body = event.body or {}
        if event.kind is EventKind.SEEN:
            self._settle_fresh()
            if body.get("channel") == Channel.MEMORY.value and body.get("fields") is not None:
                self._watch(observation_of(event.namespace, event.subject, event.agent, event.time, body))
        elif event.kind is EventKind.REPORTED:
            self._hear(event.agent, body)
        elif event.kind is EventKind.NOTED:
            self._note(event.subject, body)
        else:
            for item, name, value in changes_of(event.kind, event.subject, event.body):
                self._change(item, name, value, body)

    def _watch(self, observation: Observation) -> None:
        number = self._next
        try:
            records = self._records(observation, number)
        except InputError:  # it never got past the gate either
            return
        self._next += 1
        self._numbers[observation.id], self._names[number] = number, observation.id
        rebuilt = bool(observation.fields and observation.fields.meta.get(REBUILT))
        self._kept[number] = _Kept(records, rebuilt=rebuilt)
        gone = self._names.pop(number - self._most, None)
        if gone is not None:
            del self._kept[self._numbers.pop(gone)]

    def _records(self, observation: Observation, number: int) -> Records:
        vector = vector_of(observation)
        if not np.isfinite(vector).all():
            raise InputError("fields", "give no finite vector", "Check the numbers of the record")
        writer = self._writers.setdefault(observation.agent, len(self._writers))
        parents = [self._numbers[p] for p in observation.parents if p in self._numbers]
        success = stated_success(observation)
        origin = MemoryOrigins(np.zeros(1, np.int64), np.array([writer]), np.array([parents], np.int64).reshape(1, -1))
        return Records(
            np.array([number]), origin, window_rows(vector), np.array([-1 if success is None else success], np.int8)
        )

    def _change(self, item: str, name: str, value: Any, body: Mapping[str, Any]) -> None:
        number = self._numbers.get(item)
        if number is None:
            return
        kept = self._kept[number]
        before = kept.state.visible
        kept.state = with_change(kept.state, name, value)
        if kept.fresh and name == "ruling":
            self._admit(number, kept, body)
        elif not kept.fresh and before != kept.state.visible:
            self._speak(kept, kept.state.visible)

    def _admit(self, number: int, kept: _Kept, ruled: Mapping[str, Any]) -> None:
        """A memory was ruled on for the first time."""
        kept.fresh = False
        noted = _recorded(ruled)
        if noted is None:  # the gate was not asked: its notes are worked out now
            noted = notes(self.model, self._review.look(kept.records), 0)
        score, kept.trust = noted
        self._review.remember(np.array([number]), np.array([score]))
        held = np.array([not kept.state.visible or kept.rebuilt])
        self._review.take(kept.records, held, np.array([kept.trust], np.float32))

    def _settle_fresh(self) -> None:
        """A memory written without a ruling counts as allowed."""
        last = self._next - 1
        kept = self._kept.get(last)
        if kept is not None and kept.fresh:
            self._admit(last, kept, {})

    def _speak(self, kept: _Kept, speaks: bool) -> None:
        if speaks and not kept.rebuilt:
            self._review.keep(kept.records, np.zeros(1, np.int64), np.array([kept.trust], np.float32))
        else:
            self._review.drop(kept.records)

    def _hear(self, agent: str, body: Mapping[str, Any]) -> None:
        """A decision of an agent went well or badly, and so did the use of the memories it rested on."""
        good = body.get("success")
        if good is None:
            return
        window = self._review.windows.windows[0]
        writer = self._writers.setdefault(agent, len(self._writers))
        window.writers.add_outcomes(window.writers.places([str(writer)]), np.array([good], np.float32))
        used = [self._numbers[item] for item in body.get("rests_on", ()) if item in self._numbers]
        if used:
            window.record_use(np.array([used]), np.array([bool(good)]))

    def _note(self, subject: str, body: Mapping[str, Any]) -> None:
        for item, by_gate in body.get("looked", {}).items() if subject == TENDED else ():
            number = self._numbers.get(item)
            if number is not None and GATE in by_gate:
                score, self._kept[number].trust = by_gate[GATE]
                self._review.remember(np.array([number]), np.array([score]))


def notes(model: RecordModel, look: Look, row: int) -> tuple[float, float]:
    """The notes of a look for the ledger: the running score, and how far the memory is trusted as a witness."""
    return float(look.scores[row]), float(model.own_credibility(look.evidence)[row])


def stated_success(observation: Observation) -> bool | None:
    """The outcome that a record states for itself; None where it states none."""
    success = observation.fields.meta.get("success") if observation.fields else None
    return success if isinstance(success, bool) else None


def _recorded(ruled: Mapping[str, Any]) -> tuple[float, float] | None:
    """The notes in a recorded ruling."""
    for verdict in ruled.get("verdicts", ()):
        for evidence in verdict.get("evidence", ()) if verdict.get("gate") == GATE else ():
            data = evidence.get("data", {})
            if "score" in data and "trust" in data:
                return float(data["score"]), float(data["trust"])
    return None


def _stacked(parts: Sequence[Records]) -> Records:
    """Single records as rows of one table; those with fewer parents are filled up."""
    width = max(part.origin.parents.shape[1] for part in parts)

    def filled(part: Records) -> Records:
        gap = ((0, 0), (0, width - part.origin.parents.shape[1]))
        parents = np.pad(part.origin.parents, gap, constant_values=-1)
        return replace(part, origin=replace(part.origin, parents=parents))

    return joined([filled(part) for part in parts])


# Structured memories without a ledger: a stream of records is judged in the order of writing, each once.
#
# A held record never counts for or against others. In a guard, ``record_watch`` judges them, again and again.


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
