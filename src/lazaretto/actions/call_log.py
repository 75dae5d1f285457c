"""The past as the last gate needs it, read from the ledger: reads, calls, people's answers, its own answers.

Approvals and endorsements have names of their own in the ledger, so they are found however old they are. Rates and
values that the crew handed out are followed from ``LOOK_BACK`` events before the guard opened.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lazaretto.actions.mind import Mind
from lazaretto.actions.records import ActionClass, ActionSettings, Asked
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import Tail
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import PROCESS, Draft, Event, EventKind, Ruling, new_id

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


def call_subject(agent: str, tool: str, arguments: bytes, principal: str = "") -> str:
    """Subject of the ledger's notes of people's answers about one exact call of one caller."""
    parts = [agent.encode(), tool.encode(), arguments]
    if principal and principal != f"{PROCESS}{agent}":
        parts.append(principal.encode())
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
                named = self._opened(agent, task)  # any other item is no task: nobody sheds what it read by naming it
                known = known if named.task is None else named
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


# People's answers: about one exact call, about a value for one purpose, about the values of one task.
#
# A yes lets one call through, once. In the same task it also vouches for the destinations of that call, for calls of
# the same class or a lesser one whose other values are trusted. A no counts for every later call of the task that lacks
# all that the refused one lacked. Names in the ledger are made of agent, task and value, so no other agent finds them.

APPROVAL_S = 86_400.0
"""How long an approval that was not used, and a word about a value, stays good."""
_AHEAD_S = 600.0
"""A yes dated later than this from now is none: the clock ran ahead, and nobody knows how old it is."""
MOST_AGREED = 32
"""Destinations of one call that a yes speaks of."""
CONTROL, LIMITS = "control", "limits"
"""Requirements of a call besides the trust of values."""
_LESSER: Mapping[ActionClass, frozenset[ActionClass]] = {
    ActionClass.SHARE: frozenset({ActionClass.SEND, ActionClass.FETCH}),
    ActionClass.SEND: frozenset({ActionClass.FETCH}),
}
"""A person with access may be written to, and a person who is written to may be read. Money, deletion and execution
are purposes of their own."""


def covers(agreed: ActionClass, wanted: ActionClass) -> bool:
    """Whether a yes to one class of actions is a yes to another, for the same destination."""
    return wanted is agreed or wanted in _LESSER.get(agreed, frozenset())


def word_subject(agent: str, task: str, mark: str) -> str:
    """Subject of the ledger's events with people's answers about a value in one task of one agent."""
    parts = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in (agent, task, mark))
    return f"actions:word:{hashlib.sha256(parts).hexdigest()}"


def endorsement_subject(fingerprint: str) -> str:
    """Subject of the ledger's notes of a value's endorsements."""
    return f"actions:endorsed:{fingerprint}"


@dataclass(frozen=True, slots=True)
class Lacking:
    """The requirements that a call lacked when a person was asked, as its note keeps them."""

    task: str
    """The item that the task began with; empty without a task, and then a word counts for one call alone."""
    marks: tuple[str, ...]
    """The values that lacked trust, by fingerprint, and ``CONTROL`` and ``LIMITS``."""
    destinations: Mapping[str, str]
    """The marks that a yes speaks of: fingerprint -> value."""

    def note(self) -> dict[str, Any]:
        """The note for the ledger."""
        return {"task": self.task, "marks": [*self.marks], "there": dict(self.destinations)}

    @classmethod
    def of(cls, note: Any) -> Lacking:
        """Read the note from the ledger; questions of earlier versions have none."""
        body = note if isinstance(note, Mapping) else {}
        there = {str(key): str(value) for key, value in (body.get("there") or {}).items()}
        return cls(str(body.get("task", "")), tuple(map(str, body.get("marks") or ())), there)

    def words(self, asked: Asked, by: str, agreed: Collection[str] | None, call: str) -> list[Draft]:
        """Events for a person's answer about the values: a yes to those that are ``agreed``, a no if that is None.
        ``call``: the subject of the exact call."""
        if not self.task:
            return []
        bodies: dict[str, dict[str, Any]] = {}
        if agreed is None:
            values = [mark for mark in self.marks if mark not in (CONTROL, LIMITS)]
            bodies = {mark: {"refused": [*self.marks], "class": asked.action, "by": by} for mark in values[:1]}
        else:
            for mark in [destination for destination in self.destinations if destination in agreed]:
                bodies[mark] = {"agreed": new_id("en"), "class": asked.action, "by": by, "call": call}
        subjects = {mark: word_subject(asked.agent, self.task, mark) for mark in bodies}
        return [Draft(EventKind.NOTED, subjects[mark], by, body) for mark, body in bodies.items()]


@dataclass(frozen=True, slots=True)
class Agreed:
    """A yes in which a value stood."""

    receipt: str
    by: str


class PeopleAnswers:
    """People's answers about one exact call and about its values: read together, and only when needed."""

    def __init__(
        self, ledger: Ledger, subject: str, marks: Sequence[str], tool: str, action: ActionClass, words: Sequence[str]
    ) -> None:
        """``subject``: of the exact call; ``words``: the subjects of answers about its values in this task."""
        self._ledger, self._subject, self._action, self._purposes = ledger, subject, action, (tool, action.value)
        self._subjects = [subject, *map(endorsement_subject, marks), *words]
        self._words = dict(zip(marks, words, strict=True)) if words else {}
        self._notes: list[Event] | None = None

    def _read(self, again: bool = False) -> list[Event]:
        if self._notes is None or again:
            found = self._ledger.events_about(list(dict.fromkeys(self._subjects)), (EventKind.NOTED,))
            self._notes = sorted(found, key=lambda event: event.seq)
        return self._notes

    def endorsed(self, mark: str) -> bool:
        """Whether a value was endorsed for the call's tool or class."""
        about = endorsement_subject(mark)
        return any(
            event.subject == about and (event.body or {}).get("purpose") in self._purposes for event in self._read()
        )

    def agreed(self, mark: str) -> Agreed | None:
        """The newest yes of this task with this value, to another call of this class or of a greater one. An
        action done twice is agreed to twice; a page may be read again."""
        for note in reversed(self._of_task(mark)):
            once = note.get("call") == self._subject and self._action is not ActionClass.FETCH
            if "agreed" in note and covers(_class(note), self._action) and not once:
                return Agreed(str(note["agreed"]), str(note.get("by", "")))
        return None

    def refused(self, lacking: Iterable[str]) -> str:
        """The person who refused a call of this task, of this class or a lesser one, that lacked no more than this."""
        now = {*lacking}
        for mark in now - {CONTROL, LIMITS}:
            for note in self._of_task(mark):
                if "refused" in note and covers(self._action, _class(note)) and {*map(str, note["refused"])} <= now:
                    return str(note.get("by", ""))
        return ""

    def _of_task(self, mark: str) -> list[Mapping[str, Any]]:
        about, now = self._words.get(mark), time.time()
        if about is None:
            return []
        notes = [event for event in self._read() if event.subject == about and event.time > now - APPROVAL_S]
        return [event.body or {} for event in notes if "agreed" not in (event.body or {}) or _is_past(event, now)]

    def answered(self, again: bool = False) -> Answered:
        """People's newest answer about the exact call."""
        state, now = Answered(), time.time()
        for event in self._read(again):
            body = event.body or {}
            if event.subject != self._subject:
                continue
            if "asked" in body:
                state = Answered(body["asked"], waiting=True)
            elif "approved" in body:
                fresh = event.time > now - APPROVAL_S and _is_past(event, now)
                state = Answered(body["approved"], approved=fresh, by=str(body.get("by", "")))
            elif "refused" in body:
                fresh = event.time > now - APPROVAL_S
                state = Answered(body["refused"], refused=fresh, by=str(body.get("by", "")))
            elif "used" in body:
                state = Answered()
        return state


def _is_past(event: Event, now: float) -> bool:
    return event.time <= now + _AHEAD_S


@dataclass(frozen=True, slots=True)
class Answered:
    """People's newest answer about one exact call."""

    token: str = ""
    waiting: bool = False
    approved: bool = False
    refused: bool = False
    by: str = ""


def _class(note: Mapping[str, Any]) -> ActionClass:
    """The class of the call that an answer was about; an unknown class covers nothing that is asked about."""
    name = str(note.get("class", ""))
    return ActionClass(name) if name in [*ActionClass] else ActionClass.READ


# Answers of the last gate so far, or those it would have given in observe mode: by class and tool.


@dataclass(frozen=True, slots=True)
class Observed:
    """The calls of one tool."""

    action: str
    tool: str
    allow: int
    ask: int
    block: int
    observed: int
    """Number of these calls that were only observed: none of them was stopped."""
    why: str
    """The newest reason for not simply allowing one; empty where all were allowed."""

    @property
    def calls(self) -> int:
        """All of them."""
        return self.allow + self.ask + self.block


def observed(ledger: Ledger, since: float = 0.0) -> tuple[Observed, ...]:
    """The calls since a moment, those that were stopped most often first. Calls that read are never asked about, and
    are left out."""
    counts, only, why = dict[tuple[str, str], Counter[str]](), Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for event in ledger.events(kinds=(EventKind.REPORTED,)):
        action = (event.body or {}).get("action")
        if not isinstance(action, dict) or event.time < since:
            continue
        key = (str(action.get("class", "")), str(action.get("tool", "")))
        would = action.get("would")
        answer = str(would or action.get("ruling"))
        counts.setdefault(key, Counter())[answer] += 1
        only[key] += would is not None
        reasons = action.get("why") or action.get("reasons") or ()
        if answer != "allow" and reasons:
            why[key] = str(reasons[0])
    found = [
        Observed(key[0], key[1], count["allow"], count["ask"], count["block"], only[key], why.get(key, ""))
        for key, count in counts.items()
    ]
    return tuple(sorted(found, key=lambda row: (-row.block - row.ask, -row.allow, row.action, row.tool)))
