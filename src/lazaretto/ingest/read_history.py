"""The items that each agent has read lately, and since it last took a decision.

It follows the ledger, so it is right when several processes serve one crew. An item that was read stays in mind for the
policy's window of time. Items that the agent's last item is linked to are reached through that item, so a busy agent
needs few links; a chain that goes back further than two windows begins anew. A key that is used under several names has
a log of its own beside those of the names.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazaretto.ledger.reader import Tail
from lazaretto.types import PROCESS, Channel, Event, EventKind, Observation, SourceClass, is_author, key_behind

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger

WINDOW = 10_000
"""How many events a newly opened guard looks back, and how many items it keeps per agent."""
_SWEEP_AFTER = 1_000
"""Number of events after which old entries are looked for."""
_KINDS = (EventKind.RETRIEVED, EventKind.SENT, EventKind.REPORTED, EventKind.INFLUENCED)
Readings = dict[str, tuple[float, int]]
"""Item id -> when it was last read, and the number of that event; oldest first."""


@dataclass(frozen=True, slots=True)
class RecentReads:
    """The items that an agent may have had in mind."""

    read: tuple[str, ...] = ()
    """Everything it read within the window, oldest first."""
    links: tuple[str, ...] = ()
    """The items to link its next item to, so that all of these are reached."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The newest item of an agent that was linked to its reads."""

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


_MOST_PRINCIPALS = 8
"""Principals that are remembered of one name, the latest of them."""


def principal_body(principal: str | None) -> dict[str, str]:
    """The part of an event's body that names the principal: the key, which may be used under several names."""
    behind = key_behind(principal or "")
    return {"principal": behind} if behind.startswith("key:") else {}


def _log_of(principal: str) -> str:
    """The place of a principal's log among those of the names, none of which can hold a NUL."""
    return f"\0{principal}"


def met_by(principal: str, agent: str, items: Sequence[str], ledger: Ledger) -> tuple[str, ...]:
    """The given items that an agent, or the key it writes with, wrote, read or was sent. A key that only uses the name
    of another agent did not read what that one read."""
    if principal.startswith((PROCESS, "operator:")):
        return tuple(items)
    kinds = (EventKind.SEEN, EventKind.RETRIEVED, EventKind.SENT)

    def is_reader(event: Event) -> bool:
        body = event.body or {}
        if event.kind is EventKind.SENT:
            return bool(body.get("to") == agent)
        behind = str(body.get("principal") or f"{PROCESS}{event.agent}")
        return is_author(agent, principal, event.agent, behind) or event.agent == agent == key_behind(
            principal
        ).removeprefix("key:")

    return tuple(item for item in items if any(map(is_reader, ledger.events(subject=item, kinds=kinds))))


class ReadHistory:
    """Per agent, the items it may have had in mind. Safe to share between threads."""

    def __init__(self, ledger: Ledger, *, messages: bool, window_s: float, max_sources: int = 100) -> None:
        """``max_sources``: how many of the items that an agent read before a decision are kept, the latest."""
        self._messages, self._max_sources = messages, max_sources
        self._window_s = window_s
        self._tail = Tail(ledger, _KINDS, back=WINDOW)
        self._lock = threading.Lock()
        self._read: defaultdict[str, Readings] = defaultdict(dict)
        self._since_decision: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._since_sweep = 0
        self._written: dict[tuple[str, str], _Written] = {}
        """By log, and by the key behind the item."""
        self._principals: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Agent's name -> the principals that used it and may use others."""

    def lately(self, agent: str, principal: str = "") -> RecentReads:
        """The items that the agent read within the window, under this name or with the key that writes now."""
        with self._lock:
            self._follow()
            behind = principal_body(principal).get("principal", "")
            mine, key = self._in_mind(agent, behind), _log_of(behind)
            if key not in self._read:
                return mine
            also = self._in_mind(key, behind)
            read, linked = dict.fromkeys((*mine.read, *also.read)), dict.fromkeys((*mine.links, *also.links))
            return RecentReads(tuple(read), tuple(linked))

    def _in_mind(self, reader: str, behind: str) -> RecentReads:
        """The reads of one log. Its last item stands for those before it only to the same key: another one may have
        used the name."""
        log, now = self._read[reader], time.time()
        start = now - self._window_s
        while log and next(iter(log.values()))[0] < start:
            del log[next(iter(log))]
        read = [(item, seq) for item, (moment, seq) in log.items() if moment >= start]
        items, last = tuple(item for item, _ in read), self._written.get((reader, behind))
        if last is None or last.time < start or last.since < start - self._window_s:
            return RecentReads(items, items)
        newer = tuple(item for item, seq in read if seq > last.seq)
        return RecentReads(items, newer if len(newer) == len(items) else (last.item, *newer))

    def before_decision(self, agent: str, principal: str = "") -> tuple[str, ...]:
        """The items that the agent read since its last reported decision, the most recent ``max_sources``. Those of a
        key are what that key read and was sent, under any name: what another read under its name is not its own."""
        behind = principal_body(principal).get("principal", "")
        with self._lock:
            self._follow()
            return tuple(self._since_decision.get(_log_of(behind) if behind else agent, ()))

    def _follow(self) -> None:
        for event in self._tail.new():
            self._follow_event(event)
            self._since_sweep += 1
        if self._since_sweep >= _SWEEP_AFTER:
            self._sweep()

    def _sweep(self) -> None:
        """Forget entries that faded long ago, also of agents that have not come back. The links of their last items
        matter for two windows more."""
        self._since_sweep, start = 0, time.time() - 4 * self._window_s
        for reader, log in list(self._read.items()):
            while log and next(iter(log.values()))[0] < start:
                del log[next(iter(log))]
            if not log:
                del self._read[reader]
        self._written = {writer: last for writer, last in self._written.items() if last.time >= start}

    def _follow_event(self, event: Event) -> None:
        body = event.body or {}
        principal = principal_body(body.get("principal")).get("principal", "")
        if principal:
            self._note_name(event.agent, principal)
        if event.kind is EventKind.RETRIEVED:
            for reader in (event.agent, *([_log_of(principal)] if principal else ())):
                self._add(reader, event)
        elif event.kind is EventKind.SENT and self._messages:
            to = str(body.get("to", ""))
            for reader in (to, *map(_log_of, self._principals.get(to, ()))):
                self._add(reader, event)
        elif event.kind is EventKind.REPORTED and "action" not in body:  # a call ends no decision
            self._since_decision.pop(_log_of(principal) if principal else event.agent, None)
        elif event.kind is EventKind.INFLUENCED and "sources" in body:
            for writer in (event.agent, *([_log_of(principal)] if principal else ())):
                self._note_written(writer, principal, event, body["sources"])

    def _note_name(self, agent: str, principal: str) -> None:
        used = self._principals[agent]
        used.pop(principal, None)
        used[principal] = None
        if len(used) > _MOST_PRINCIPALS:
            del used[next(iter(used))]

    def _note_written(self, writer: str, behind: str, event: Event, sources: list[str]) -> None:
        log, last = self._read[writer], self._written.get((writer, behind))
        moments = [log[item][0] for item in sources if item in log]
        if last is not None and last.item in sources:
            moments.append(last.since)
        since = min(moments, default=event.time)
        self._written[writer, behind] = _Written(event.subject, event.time, event.seq, since)

    def _add(self, agent: str, event: Event) -> None:
        log, since = self._read[agent], self._since_decision[agent]
        log.pop(event.subject, None)  # read again: it moves to the end
        log[event.subject] = (event.time, event.seq)
        if len(log) > WINDOW:
            del log[next(iter(log))]
        since.pop(event.subject, None)
        since[event.subject] = None
        if len(since) > self._max_sources:
            del since[next(iter(since))]
