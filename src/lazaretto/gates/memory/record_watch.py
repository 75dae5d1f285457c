"""The structured memories of one namespace, read from its ledger.

Everything follows from the ledger's events in their order, so all processes know the same, also after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lazaretto.errors import InputError
from lazaretto.gates.engine.recheck_queue import HORIZON, TENDED
from lazaretto.gates.memory.evidence import CAPACITY, window_rows
from lazaretto.gates.memory.group_windows import GroupWindows, MemoryOrigins
from lazaretto.gates.memory.record_model import RecordModel
from lazaretto.gates.memory.record_review import Look, RecordReview, Records, joined
from lazaretto.gates.memory.record_screener import RecordJudgement, judgement, vector_of
from lazaretto.ledger import ItemState, Ledger, changes_of, observation_of, with_change
from lazaretto.ledger.tail import Tail
from lazaretto.types import REBUILT, Channel, Event, EventKind, Evidence, Observation

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
