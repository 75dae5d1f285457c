"""What each agent has read since it last wrote a memory or took a decision.

It follows the ledger instead of this process's own calls, so it is right when several processes serve one crew, and
when one command recalls and the next one remembers.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from lazaretto.types import Channel, Event, EventKind

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger

WINDOW = 10_000
"""How many events a newly opened guard looks back."""
_KINDS = (EventKind.RETRIEVED, EventKind.SENT, EventKind.SEEN, EventKind.REPORTED)
ItemIds = dict[str, None]
"""Item ids, oldest first, each once."""


class ReadingLog:
    """Per agent, the items it may have had in mind. Safe to share between threads."""

    def __init__(self, ledger: Ledger, *, messages: bool) -> None:
        self._ledger = ledger
        self._messages = messages
        self._seq: int | None = None
        self._lock = threading.Lock()
        self._since_memory: defaultdict[str, ItemIds] = defaultdict(dict)
        self._since_decision: defaultdict[str, ItemIds] = defaultdict(dict)

    def before_memory(self, agent: str, limit: int) -> tuple[str, ...]:
        """What the agent read since its last memory, the most recent ``limit`` of it."""
        return self._newest(self._since_memory, agent, limit)

    def before_decision(self, agent: str, limit: int) -> tuple[str, ...]:
        """What the agent read since its last reported decision, the most recent ``limit`` of it."""
        return self._newest(self._since_decision, agent, limit)

    def _newest(self, logs: defaultdict[str, ItemIds], agent: str, limit: int) -> tuple[str, ...]:
        with self._lock:
            self._follow()
            return tuple(logs[agent])[-limit:] if limit else ()

    def _follow(self) -> None:
        if self._seq is None:
            self._seq = max(0, self._ledger.head().seq - WINDOW)
        for event in self._ledger.events(after=self._seq, kinds=_KINDS):
            self._follow_event(event)
            self._seq = event.seq

    def _follow_event(self, event: Event) -> None:
        body = event.body or {}
        if event.kind is EventKind.RETRIEVED:
            self._add(event.agent, event.subject)
        elif event.kind is EventKind.SENT and self._messages:
            self._add(str(body.get("to", "")), event.subject)
        elif event.kind is EventKind.SEEN and body.get("channel") == Channel.MEMORY.value:
            self._since_memory.pop(event.agent, None)
        elif event.kind is EventKind.REPORTED:
            self._since_decision.pop(event.agent, None)

    def _add(self, agent: str, item: str) -> None:
        for log in (self._since_memory[agent], self._since_decision[agent]):
            log.pop(item, None)  # read again: it moves to the end
            log[item] = None
            if len(log) > WINDOW:
                del log[next(iter(log))]
