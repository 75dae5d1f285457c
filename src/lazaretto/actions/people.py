"""What people answered: about one exact call, about a value for one purpose, about the values of one task.

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
"""What a call can lack besides the trust of values."""
_LESSER: Mapping[ActionClass, frozenset[ActionClass]] = {
    ActionClass.SHARE: frozenset({ActionClass.SEND, ActionClass.FETCH}),
    ActionClass.SEND: frozenset({ActionClass.FETCH}),
}
"""Who may have access may be written to, and whom one writes to may be read. Money, deletion and execution are purposes
of their own."""


def covers(said: ActionClass, wanted: ActionClass) -> bool:
    """Whether a yes to one class of actions is a yes to another, for the same destination."""
    return wanted is said or wanted in _LESSER.get(said, frozenset())


def word_subject(agent: str, task: str, mark: str) -> str:
    """Under which the ledger has what people said of a value in one task of one agent."""
    parts = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in (agent, task, mark))
    return f"actions:word:{hashlib.sha256(parts).hexdigest()}"


def endorsement_subject(fingerprint: str) -> str:
    """Under which the ledger has the endorsements of a value."""
    return f"actions:endorsed:{fingerprint}"


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a call lacked when it was asked about, as its note keeps it."""

    task: str
    """The item that the task began with; empty without a task, and then a word counts for one call alone."""
    marks: tuple[str, ...]
    """The values that lacked trust, by fingerprint, and ``CONTROL`` and ``LIMITS``."""
    destinations: Mapping[str, str]
    """Those of them that a yes speaks of: fingerprint -> value."""

    def note(self) -> dict[str, Any]:
        """For the ledger."""
        return {"task": self.task, "marks": [*self.marks], "there": dict(self.destinations)}

    @classmethod
    def of(cls, note: Any) -> Lacking:
        """From the ledger; questions of earlier versions have none."""
        told = note if isinstance(note, Mapping) else {}
        there = {str(key): str(value) for key, value in (told.get("there") or {}).items()}
        return cls(str(told.get("task", "")), tuple(map(str, told.get("marks") or ())), there)

    def words(self, asked: Asked, by: str, agreed: Collection[str] | None, call: str) -> list[Draft]:
        """What a person's answer says of the values: a yes to those that are ``agreed``, a no where that is None.
        ``call``: the subject of the exact call."""
        if not self.task:
            return []
        told: dict[str, dict[str, Any]] = {}
        if agreed is None:
            values = [mark for mark in self.marks if mark not in (CONTROL, LIMITS)]
            told = {mark: {"refused": [*self.marks], "class": asked.action, "by": by} for mark in values[:1]}
        else:
            for mark in [one for one in self.destinations if one in agreed]:
                told[mark] = {"agreed": new_id("en"), "class": asked.action, "by": by, "call": call}
        subjects = {mark: word_subject(asked.agent, self.task, mark) for mark in told}
        return [Draft(EventKind.NOTED, subjects[mark], by, body) for mark, body in told.items()]


@dataclass(frozen=True, slots=True)
class Agreed:
    """A yes in which a value stood."""

    receipt: str
    by: str


class Said:
    """What people said about one exact call and about its values: read at once, and only where it is asked for."""

    def __init__(
        self, ledger: Ledger, subject: str, marks: Sequence[str], tool: str, action: ActionClass, words: Sequence[str]
    ) -> None:
        """``subject``: of the exact call; ``words``: the subjects of what was said of its values in this task."""
        self._ledger, self._subject, self._action, self._purposes = ledger, subject, action, (tool, action.value)
        self._subjects = [subject, *map(endorsement_subject, marks), *words]
        self._words = dict(zip(marks, words, strict=True)) if words else {}
        self._notes: list[Event] | None = None

    def _read(self, again: bool = False) -> list[Event]:
        if self._notes is None or again:
            found = self._ledger.events_about(list(dict.fromkeys(self._subjects)), (EventKind.NOTED,))
            self._notes = sorted(found, key=lambda one: one.seq)
        return self._notes

    def endorsed(self, mark: str) -> bool:
        """Whether a value was endorsed for what the call does."""
        about = endorsement_subject(mark)
        return any(one.subject == about and (one.body or {}).get("purpose") in self._purposes for one in self._read())

    def agreed(self, mark: str) -> Agreed | None:
        """The newest yes of this task that a value stood in, to another call of this class or of a greater one. What is
        done twice is agreed to twice; a page may be read again."""
        for note in reversed(self._of_task(mark)):
            once = note.get("call") == self._subject and self._action is not ActionClass.FETCH
            if "agreed" in note and covers(_class(note), self._action) and not once:
                return Agreed(str(note["agreed"]), str(note.get("by", "")))
        return None

    def refused(self, lacking: Iterable[str]) -> str:
        """Who refused, in this task, a call of this class or of a lesser one that lacked no more than this does."""
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
        return [one.body or {} for one in self._read() if one.subject == about and one.time > since]

    def answered(self, again: bool = False) -> Answered:
        """What people answered about the exact call, the newest word."""
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
    """What people said about one exact call, the newest word."""

    token: str = ""
    waiting: bool = False
    approved: bool = False
    refused: bool = False
    by: str = ""


def _class(note: Mapping[str, Any]) -> ActionClass:
    """The class of the call that a word was about; what is no class covers nothing that is asked about."""
    told = str(note.get("class", ""))
    return ActionClass(told) if told in [*ActionClass] else ActionClass.READ
