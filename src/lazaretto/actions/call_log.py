"""The past as the last gate needs it, read from the ledger: reads and calls of agents, answers of people.

Approvals and endorsements have names of their own in the ledger, so they are found however old they are. Rates and
values that the crew handed out are followed from ``LOOK_BACK`` events before the guard opened.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lazaretto.actions.mind import Mind
from lazaretto.actions.settings import ActionSettings
from lazaretto.ledger import Ledger
from lazaretto.ledger.tail import Tail
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Event, EventKind, Ruling

LOOK_BACK = 10_000
MOST_AGENTS = 1_000
"""Agents whose minds are kept ready; others are read from the graph again."""
CALLED, ASKED, TASK, LISTED = "actions:called", "actions:asked", "actions:task:", "actions:listed:"
"""Subjects of notes: calls that are no decision, calls that wait for a person, and the prefixes for tasks and
for directories' answers."""
_KINDS = (
    EventKind.RETRIEVED,
    EventKind.SENT,
    EventKind.RULED,
    EventKind.RELEASED,
    EventKind.DERIVED,
    EventKind.INFLUENCED,
    EventKind.ERASED,
    EventKind.REPORTED,
    EventKind.NOTED,
)
_ECHO_CALLS = 4
"""An answer may echo the values of so many calls before it: agents call tools side by side."""
_HELD = frozenset(ruling.label for ruling in Ruling if ruling > Ruling.WARN)


def task_subject(agent: str) -> str:
    """Subject of the ledger's notes of an agent's tasks."""
    return f"{TASK}{_digest(agent)}"


def listed_subject(agent: str) -> str:
    """Subject of the ledger's notes of directories' answers to an agent."""
    return f"{LISTED}{_digest(agent)}"


def _digest(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:32]


def call_subject(agent: str, tool: str, arguments: bytes) -> str:
    """Subject of the ledger's notes of people's answers about one exact call."""
    parts = (agent.encode(), tool.encode(), arguments)
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
    return f"actions:call:{digest}"


@dataclass(frozen=True, slots=True)
class Task:
    """The task of an agent."""

    item: str
    time: float
    tools: tuple[str, ...] = ()
    """The tools it may need, if they were given; patterns."""


@dataclass(slots=True)
class _Agent:
    """The state of one agent."""

    mind: Mind
    task: Task | None
    calls: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    """Class -> when calls of it were allowed."""


class CallLog:
    """Follows the ledger for the last gate. Safe to share between threads: everything happens under its lock."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy, settings: ActionSettings) -> None:
        self._ledger, self._graph, self._policy, self._settings = ledger, graph, policy, settings
        self._tail = Tail(ledger, _KINDS, back=LOOK_BACK)
        self._agents: dict[str, _Agent] = {}
        self._held: set[str] = set()
        self._calls: dict[str, dict[str, deque[float]]] = defaultdict(lambda: defaultdict(deque))
        self._handed_out: dict[str, tuple[float, float]] = {}
        self._last_calls: dict[str, deque[Mapping[str, float]]] = defaultdict(lambda: deque(maxlen=_ECHO_CALLS))
        self._answers: dict[str, Mapping[str, float]] = {}
        self._lock = threading.Lock()

    def follows(self, agent: str) -> bool:
        """Whether an agent's mind is kept ready."""
        return agent in self._agents

    @contextmanager
    def about(self, agent: str, task: str | None = None) -> Iterator[AgentView]:
        """The present state of an agent; ``task`` names an earlier task than its last."""
        with self._lock:
            self._follow()
            known = self._agents.get(agent)
            if known is None:
                known = self._agents[agent] = self._opened(agent)
                while len(self._agents) > MOST_AGENTS:
                    del self._agents[next(iter(self._agents))]
            if task is not None and (known.task is None or known.task.item != task):
                known = self._opened(agent, task)
            known.mind.settle()
            yield AgentView(known.mind, known.task, self._calls[agent], self._handed_out, self._answers)

    def _opened(self, agent: str, wanted: str | None = None) -> _Agent:
        task: Task | None = None
        for event in self._ledger.events(subject=task_subject(agent), kinds=(EventKind.NOTED,)):
            found = _task(event)
            if found is not None and (wanted is None or found.item == wanted):
                task = found
        since = task.time if task is not None else time.time() - self._settings.window_s
        mind = Mind(self._ledger, self._graph, self._policy, self._held)
        mind.add(self._graph.read_by(agent, since))
        for event in self._ledger.events(subject=listed_subject(agent), kinds=(EventKind.NOTED,)):
            if event.time >= since:
                mind.add_listed(*_listed(event))
        return _Agent(mind, task)

    def _follow(self) -> None:
        for event in self._tail.new():
            self._take(event)

    def _take(self, event: Event) -> None:
        body: Mapping[str, Any] = event.body or {}
        if event.kind is EventKind.RETRIEVED:
            self._has_read(event.agent, event.subject)
        elif event.kind is EventKind.SENT:
            self._has_read(str(body.get("to", "")), event.subject)
        elif event.kind is EventKind.RULED:
            (self._held.add if body.get("ruling") in _HELD else self._held.discard)(event.subject)
        elif event.kind is EventKind.RELEASED:
            self._held.discard(event.subject)
        elif event.kind is EventKind.NOTED and event.subject.startswith(TASK):
            self._begin(event)
        elif event.kind is EventKind.NOTED and event.subject.startswith(LISTED):
            if event.agent in self._agents:
                self._agents[event.agent].mind.add_listed(*_listed(event))
        elif event.kind is EventKind.NOTED and event.subject == CALLED:
            self._called(event, body)
        elif event.kind is EventKind.REPORTED and "action" in body:
            self._called(event, body["action"])
        elif event.kind in (EventKind.DERIVED, EventKind.ERASED) or (
            event.kind is EventKind.INFLUENCED and "target" in body
        ):
            for known in self._agents.values():
                known.mind.relearn()

    def _has_read(self, agent: str, item: str) -> None:
        if calls := self._last_calls.get(agent):
            self._answers[item] = {key: min(c.get(key, 1.0) for c in calls) for call in calls for key in call}
            while len(self._answers) > 10 * LOOK_BACK:
                del self._answers[next(iter(self._answers))]
        if agent in self._agents:
            self._agents[agent].mind.add([item])

    def _begin(self, event: Event) -> None:
        task = _task(event)
        if task is not None and event.agent in self._agents:
            mind = Mind(self._ledger, self._graph, self._policy, self._held)
            mind.add([task.item])
            self._agents[event.agent] = _Agent(mind, task)

    def _called(self, event: Event, body: Mapping[str, Any]) -> None:
        handed = {str(key): float(value) for key, value in (body.get("values") or {}).items()}
        if body.get("ruling") != "allow":
            return
        action = str(body.get("class", ""))
        if handed:
            self._last_calls[event.agent].append(handed)
        calls = self._calls[event.agent][action]
        calls.append(event.time)
        while len(calls) > LOOK_BACK:
            calls.popleft()
        if action not in ("read", "fetch"):
            approved = {*(body.get("approved") or ())}
            for key, trust in handed.items():
                if key in approved:  # a value that a person approved is theirs when a directory lists it
                    continue
                before = self._handed_out.pop(key, (event.time, 1.0))
                self._handed_out[key] = (before[0], min(before[1], trust))
            while len(self._handed_out) > 10 * LOOK_BACK:
                del self._handed_out[next(iter(self._handed_out))]


@dataclass(frozen=True, slots=True)
class AgentView:
    """The state of one agent while a call is judged."""

    mind: Mind
    task: Task | None
    calls: Mapping[str, deque[float]]
    handed_out: Mapping[str, tuple[float, float]]
    """Fingerprint of a value that the crew wrote, sent or shared -> when first, and the lowest trust it had then."""
    answers: Mapping[str, Mapping[str, float]]
    """Item that was read after calls -> the values those calls had, with their trust: a tool may echo them."""

    def repeated(self, fingerprint: str, item: str, since: float) -> float:
        """The trust of a value that a tool's answer only repeats; 1 where it is the tool's own word."""
        known = [self.answers.get(item, {}).get(fingerprint, 1.0)]
        if fingerprint in self.handed_out and self.handed_out[fingerprint][0] <= since:
            known.append(self.handed_out[fingerprint][1])
        return min(known)

    def calls_in_last_hour(self, action: str) -> int:
        """How many calls of a class were allowed lately."""
        start = time.time() - 3600
        return sum(moment >= start for moment in self.calls.get(action, ()))


def _task(event: Event) -> Task | None:
    body = event.body or {}
    return Task(str(body["item"]), event.time, tuple(body.get("tools") or ())) if "item" in body else None


def _listed(event: Event) -> tuple[str, frozenset[str], frozenset[str]]:
    body = event.body or {}
    values, spoken_of = (frozenset(map(str, body.get(key) or ())) for key in ("values", "spoken_of"))
    return str(body.get("item", "")), values, spoken_of
