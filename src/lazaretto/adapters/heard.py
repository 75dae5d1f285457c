"""Words of users and operators that were read when they were new. A history may come from anywhere: its words count as
theirs only where they were read as such before (decision 0146)."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence

from lazaretto.guard import Guard
from lazaretto.identity import ORDERS
from lazaretto.ledger.reader import Tail
from lazaretto.types import Channel, EventKind, SourceClass

_KEPT = 10_000


class PeoplesWords:
    """The words of people that one guard's adapters read, by their digests, and words of histories that nobody had
    read."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._stored: OrderedDict[str, None] = OrderedDict()
        self._tail: Tail | None = None
        """Follows the ledger, once it was searched for earlier words of people."""
        self._lock, self._following = threading.Lock(), threading.Lock()

    def note(self, text: str) -> None:
        """Remember a new text of the user or operator."""
        self._add(self._heard, text)

    def note_stored(self, text: str) -> None:
        """Remember a text that a history has, and that nobody read when it was new."""
        self._add(self._stored, text)

    def was_stored(self, text: str) -> bool:
        """Whether a history had a text that nobody read when it was new."""
        return self._has(self._stored, text)

    async def has(self, guard: Guard, text: str) -> bool:
        """Whether a text was the user's or operator's when it was new, also in an earlier or another process."""
        if not self._has(self._heard, text):
            await asyncio.to_thread(self._look, guard)
        return self._has(self._heard, text)

    def _look(self, guard: Guard) -> None:
        """Take in the words of people that the ledger has and this process did not read."""
        with self._following:
            if self._tail is None:
                self._tail = Tail(guard.ledger, (EventKind.SEEN,), back=0)
                list(self._tail.new())  # to the end; before that, what the items say
                recorded = guard.ledger.items(channel=Channel.MESSAGE, any_state=True, limit=_KEPT)
                words = [(item.source, item.text) for item in reversed(recorded)]  # the newest last
            else:
                bodies = [event.body or {} for event in self._tail.new()]
                found = [body for body in bodies if body.get("channel") == Channel.MESSAGE.value]
                words = [(SourceClass(body["source"]), str(body.get("text", ""))) for body in found]
            for source, text in words:
                if source in ORDERS:
                    self.note(text)

    def _has(self, known: OrderedDict[str, None], text: str) -> bool:
        """Whether a text is known; one that is asked for is in use, and forgotten last."""
        with self._lock:
            key = _digest(text)
            if key in known:
                known.move_to_end(key)
            return key in known

    def _add(self, known: OrderedDict[str, None], text: str) -> None:
        with self._lock:
            key = _digest(text)
            known[key] = None
            known.move_to_end(key)
            while len(known) > _KEPT:
                known.popitem(last=False)


_HEARD: weakref.WeakKeyDictionary[Guard, PeoplesWords] = weakref.WeakKeyDictionary()


def heard_by(guard: Guard) -> PeoplesWords:
    """The words of people that a guard's adapters read."""
    return _HEARD.setdefault(guard, PeoplesWords())


def earlier_turns(roles: Sequence[str]) -> frozenset[int]:
    """The places of messages of earlier turns: an answer of a model stands between them and the last words of the user.
    The instructions at the beginning are a program's own."""
    spoken = [place for place, role in enumerate(roles) if role == "user"]
    answers = [place for place, role in enumerate(roles) if role == "assistant"]
    start = max((place for place in answers if spoken and place < spoken[-1]), default=0)
    leading = next((place for place, role in enumerate(roles) if role not in ("system", "developer")), start)
    return frozenset(range(leading, start))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
