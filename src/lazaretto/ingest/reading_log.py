"""What each agent has read lately, and since it last took a decision.

It follows the ledger instead of this process's own calls, so it is right when several processes serve one crew, and
when one command recalls and the next one remembers. Writing a memory takes nothing off it: what was read stays in mind
for the policy's window of time, whatever is written or read meanwhile. What the agent's last item is already linked to
is reached through that item, so that a busy agent's items need few links each; once such a chain goes back further than
two windows, it begins anew.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazaretto.ledger.tail import Tail
from lazaretto.types import Channel, Event, EventKind, Observation, SourceClass

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger

WINDOW = 10_000
"""How many events a newly opened guard looks back, and how many items it keeps per agent."""
_KINDS = (EventKind.RETRIEVED, EventKind.SENT, EventKind.REPORTED, EventKind.INFLUENCED)
Readings = dict[str, tuple[float, int]]
"""Item id -> when it was last read, and the number of that event; oldest first."""


@dataclass(frozen=True, slots=True)
class InMind:
    """What an agent may have had in mind."""

    read: tuple[str, ...] = ()
    """Everything it read within the window, oldest first."""
    links: tuple[str, ...] = ()
    """What to link its next item to, so that all of that is reached."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The newest item of an agent that was linked to what it had read."""

    item: str
    time: float
    seq: int
    since: float
    """The oldest reading that is reached through it."""


_READ_CHANNELS = (Channel.TOOL, Channel.DOCUMENT, Channel.IMAGE)
_OWN_SOURCES = (SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE)


def is_reading(observation: Observation) -> bool:
    """Whether an agent that has something checked is about to read it: a page, a tool's result, a picture, or anything
    that neither it nor another agent made.
    """
    if observation.channel is Channel.MEMORY:
        return False
    return observation.channel in _READ_CHANNELS or observation.source not in _OWN_SOURCES


class ReadingLog:
    """Per agent, the items it may have had in mind. Safe to share between threads."""

    def __init__(self, ledger: Ledger, *, messages: bool, window_s: float) -> None:
        self._messages = messages
        self._window_s = window_s
        self._tail = Tail(ledger, _KINDS, back=WINDOW)
        self._lock = threading.Lock()
        self._read: defaultdict[str, Readings] = defaultdict(dict)
        self._since_decision: defaultdict[str, Readings] = defaultdict(dict)
        self._written: dict[str, _Written] = {}

    def lately(self, agent: str) -> InMind:
        """What the agent read within the window."""
        with self._lock:
            self._follow()
            log, now = self._read[agent], time.time()
            start = now - self._window_s
            while log and next(iter(log.values()))[0] < start:
                del log[next(iter(log))]
            read = [(item, seq) for item, (moment, seq) in log.items() if moment >= start]
            items, last = tuple(item for item, _ in read), self._written.get(agent)
            if last is None or last.time < start or last.since < start - self._window_s:
                return InMind(items, items)
            newer = tuple(item for item, seq in read if seq > last.seq)
            return InMind(items, newer if len(newer) == len(items) else (last.item, *newer))

    def before_decision(self, agent: str, limit: int) -> tuple[str, ...]:
        """What the agent read since its last reported decision, the most recent ``limit`` of it."""
        with self._lock:
            self._follow()
            return tuple(self._since_decision[agent])[-limit:] if limit else ()

    def _follow(self) -> None:
        for event in self._tail.new():
            self._follow_event(event)

    def _follow_event(self, event: Event) -> None:
        if event.kind is EventKind.RETRIEVED:
            self._add(event.agent, event)
        elif event.kind is EventKind.SENT and self._messages:
            self._add(str((event.body or {}).get("to", "")), event)
        elif event.kind is EventKind.REPORTED and "action" not in (event.body or {}):  # a call ends no decision
            self._since_decision.pop(event.agent, None)
        elif event.kind is EventKind.INFLUENCED and "sources" in (event.body or {}):
            self._note_written(event, (event.body or {})["sources"])

    def _note_written(self, event: Event, sources: list[str]) -> None:
        log, last = self._read[event.agent], self._written.get(event.agent)
        moments = [log[item][0] for item in sources if item in log]
        if last is not None and last.item in sources:
            moments.append(last.since)
        since = min(moments, default=event.time)
        self._written[event.agent] = _Written(event.subject, event.time, event.seq, since)

    def _add(self, agent: str, event: Event) -> None:
        for log in (self._read[agent], self._since_decision[agent]):
            log.pop(event.subject, None)  # read again: it moves to the end
            log[event.subject] = (event.time, event.seq)
            if len(log) > WINDOW:
                del log[next(iter(log))]
