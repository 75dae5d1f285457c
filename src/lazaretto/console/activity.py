"""Recent activity and judgements, counted while following the ledger's tail: all that is kept is in the ledger."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lazaretto.errors import InputError
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.guard import Guard
from lazaretto.learn.tuning import FEWEST, Counts, Make, Tuner, installed_gate, judged_items
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import Tail
from lazaretto.types import Event, EventKind, Ruling, RunStatus

_FOLLOWED = (
    EventKind.SEEN,
    EventKind.RULED,
    EventKind.RETRIEVED,
    EventKind.SENT,
    EventKind.LABELLED,
    EventKind.WITHDRAWN,
    EventKind.REPAIRED,
    EventKind.APPEALED,
    EventKind.RELEASED,
    EventKind.UNDONE,
)
HORIZON = 100_000
"""How many events a newly opened console looks back; earlier activity of agents is not counted."""
BUCKET_S = 60.0
BUCKETS = 48
"""Points of a timeline."""
_DAY = 86400.0
_MOST_WRITERS = 20_000
"""Items whose writer is remembered: a ruling follows its item closely."""
_FINE = (RunStatus.RAN.value, RunStatus.SKIPPED.value)
LATEST = 12


@dataclass(slots=True)
class AgentSeen:
    """The activity of one agent."""

    name: str
    wrote: int = 0
    read: int = 0
    held: int = 0
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class NotRun:
    """A gate that could not look at items."""

    gate: str
    status: str
    detail: str
    items: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Counts over time, as columns."""

    times: tuple[float, ...]
    seen: tuple[int, ...]
    held: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of the list of recent events."""

    seq: int
    time: float
    kind: str
    subject: str
    agent: str
    says: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the crew as the console shows it."""

    seq: int
    agents: tuple[AgentSeen, ...]
    seen_today: int
    held_today: int
    not_run: tuple[NotRun, ...]
    timeline: Timeline
    latest: tuple[Happened, ...]


@dataclass(slots=True)
class _Counts:
    seen: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)


class Activity:
    """Follows one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._tail = ledger, Tail(ledger, _FOLLOWED, back=HORIZON)
        self._lock = threading.Lock()
        self._agents: dict[str, AgentSeen] = {}
        self._writer: dict[str, str] = {}
        self._counts = _Counts()
        self._not_run: dict[tuple[str, str], tuple[str, Counter[int]]] = {}
        self._latest: list[Happened] = []

    def snapshot(self) -> Snapshot:
        """Everything, up to the ledger's last event."""
        with self._lock:
            for event in self._tail.new():
                self._take(event)
            now = time.time()
            since = _bucket(now - _DAY)
            for counts in (self._counts.seen, self._counts.held, *(counts for _, counts in self._not_run.values())):
                for old in [at for at in counts if at < since]:
                    del counts[old]
            return Snapshot(
                seq=self._ledger.head().seq,
                agents=tuple(sorted(self._agents.values(), key=lambda agent: -agent.last)),
                seen_today=self._counts.seen.total(),
                held_today=self._counts.held.total(),
                not_run=tuple(
                    NotRun(gate, status, detail, count)
                    for (gate, status), (detail, counts) in sorted(self._not_run.items())
                    if (count := counts.total())
                ),
                timeline=self._timeline(now),
                latest=tuple(reversed(self._latest)),
            )

    def _timeline(self, now: float) -> Timeline:
        """The last day, or as far back as anything happened; at least an hour."""
        begin = _bucket(now - _DAY)
        known = [at for at in self._counts.seen if at >= begin]
        begin = max(begin, min([*known, _bucket(now)]) - 1)
        begin = min(begin, _bucket(now) - 59)
        width = max(1, -(-(_bucket(now) - begin + 1) // BUCKETS))
        starts = range(begin, _bucket(now) + 1, width)
        columns = [
            tuple(sum(counts.get(at, 0) for at in range(start, start + width)) for start in starts)
            for counts in (self._counts.seen, self._counts.held)
        ]
        return Timeline(tuple(start * BUCKET_S for start in starts), columns[0], columns[1])

    def _take(self, event: Event) -> None:
        body: Mapping[str, Any] = event.body or {}
        at = _bucket(event.time)
        if event.kind is EventKind.SEEN:
            self._agent(event.agent, event.time).wrote += 1
            self._writer[event.subject] = event.agent
            if len(self._writer) > _MOST_WRITERS:
                del self._writer[next(iter(self._writer))]
            self._counts.seen[at] += 1
        elif event.kind is EventKind.RETRIEVED:
            self._agent(event.agent, event.time).read += 1
        elif event.kind is EventKind.SENT:
            self._agent(str(body.get("to", "")), event.time).read += 1
        elif event.kind is EventKind.RULED and event.body is not None:
            self._ruled(event, body, at)
        else:
            self._note(event, _words(event, body))

    def _ruled(self, event: Event, body: Mapping[str, Any], at: int) -> None:
        for run in body.get("runs") or ():
            if run.get("status") not in _FINE:
                key = (str(run.get("gate", "")), str(run["status"]))
                detail, counts = self._not_run.get(key, ("", Counter()))
                counts[at] += 1
                self._not_run[key] = (str(run.get("detail", "")) or detail, counts)
        if Ruling.from_label(str(body["ruling"])) > Ruling.WARN:
            self._counts.held[at] += 1
            writer = self._writer.get(event.subject)
            if writer in self._agents:
                self._agents[writer].held += 1
            self._note(event, f"{body['ruling']}, {body.get('rule', '')}")

    def _note(self, event: Event, says: str) -> None:
        who = event.agent or self._writer.get(event.subject, "")
        self._latest.append(Happened(event.seq, event.time, event.kind.value, event.subject, who, says))
        del self._latest[:-LATEST]

    def _agent(self, name: str, at: float) -> AgentSeen:
        found = self._agents.setdefault(name, AgentSeen(name))
        found.last = max(found.last, at)
        return found


def _words(event: Event, body: Mapping[str, Any]) -> str:
    if event.kind in (EventKind.LABELLED, EventKind.WITHDRAWN):
        return f"{body.get('label', '')}, {body.get('by', '')}"
    if event.kind is EventKind.REPAIRED:
        plan = body.get("plan") or {}
        return f"{plan.get('repair', '')}, {len(plan.get('steps') or ())}"
    return str(body.get("by") or body.get("reason") or "")


def _bucket(seconds: float) -> int:
    return int(seconds // BUCKET_S)


# Recent judgements, ready to be counted under other rates: read once, for all who move sliders.

DAYS = 30
"""Items of the last days are counted."""
FRESH_S = 300.0
"""Seconds for which a count of the history serves; a newer one is a click away."""


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """Judged items, ready to be counted."""

    tuner: Tuner
    counts: dict[tuple[str, str], tuple[Counts, ...]]
    now: Counts
    honest: int
    findings: int
    made: float


class Histories:
    """Keeps the last count: reading a month takes a while, moving a slider must not."""

    def __init__(self, guard: Guard, make: Make = installed_gate) -> None:
        """``make``: gates with other settings than the guard's own."""
        self._guard, self._make, self._lock = guard, make, threading.Lock()
        self._kept: JudgedHistory | None = None

    def get(self, anew: bool = False) -> JudgedHistory:
        """The history of the last days; ``InputError`` where there is too little of it."""
        with self._lock:
            if anew or self._kept is None or time.time() - self._kept.made > FRESH_S:
                self._kept = self._read()
            return self._kept

    def _read(self) -> JudgedHistory:
        ledger, policy = self._guard.ledger, self._guard.policy
        items = judged_items(ledger, time.time() - DAYS * 86_400)
        if len(items) < FEWEST:
            words = f"only {len(items)} items were judged in {DAYS} days; {FEWEST} are needed"
            raise InputError("history", words, 'Let the crew work for a while, mode = "observe" if you like')
        tuner = Tuner(items, policy, Thresholds(ledger, policy.learn), self._make)
        counts = {
            (offered.gate, offered.setting): tuple(
                tuner.counted({(offered.gate, offered.setting): value}) for value in offered.values
            )
            for offered in tuner.offered()
        }
        honest = sum(not judged.harmful for judged in items)
        return JudgedHistory(tuner, counts, tuner.counted({}), honest, len(items) - honest, time.time())
