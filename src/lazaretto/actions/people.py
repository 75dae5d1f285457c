"""People's answers: about one exact call, about a value for one purpose, about the values of one task.

A yes lets one call through, once. In the same task it also vouches for the destinations of that call, for calls of the
same class or a lesser one whose other values are trusted. A no counts for every later call of the task that lacks all
that the refused one lacked. Names in the ledger are made of agent, task and value, so no other agent finds them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.actions.records import ActionClass, Asked
from lazaretto.ledger import Ledger
from lazaretto.types import Draft, Event, EventKind, new_id

APPROVAL_S = 86_400.0
"""How long an approval that was not used, and a word about a value, stays good."""
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
        about, since = self._words.get(mark), time.time() - APPROVAL_S
        if about is None:
            return []
        return [event.body or {} for event in self._read() if event.subject == about and event.time > since]

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
                fresh = event.time > now - APPROVAL_S
                state = Answered(body["approved"], approved=fresh, by=str(body.get("by", "")))
            elif "refused" in body:
                fresh = event.time > now - APPROVAL_S
                state = Answered(body["refused"], refused=fresh, by=str(body.get("by", "")))
            elif "used" in body:
                state = Answered()
        return state


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
