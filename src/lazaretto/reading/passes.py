"""One pass per window: whoever asks for a window that was read finds it, and whoever asks while it is read waits.

What is kept is bounded in bytes, keyed by a digest of the namespace and the window's ids, and forgotten when something
is erased (``kept_texts``). A window that was being read meanwhile is not kept either.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache

import numpy as np

from lazaretto.kept_texts import KeptTexts, namespace
from lazaretto.reading.trunk import Trunk, WindowReading

MOST_BYTES = 32 << 20
"""Of windows that were read last: about 150 full ones, more than the longest text has."""


class OneReading:
    """A trunk that reads each window once. Safe to share between threads."""

    def __init__(self, trunk: Trunk, most_bytes: int = MOST_BYTES) -> None:
        self.trunk = trunk
        self.passes = 0
        """Windows that the trunk has read."""
        self.tokens = 0
        """Their tokens."""
        self._kept: KeptTexts[WindowReading] = KeptTexts(most_bytes, WindowReading.size)
        self._in_hand: dict[bytes, Future[WindowReading]] = {}
        self._lock = threading.Lock()

    def window(self, ids: Sequence[int]) -> WindowReading:
        """What the trunk says of a window; a pass only where it was not read a moment ago."""
        key = _key(ids)
        known = self._kept.get(key)
        if known is not None:
            return known
        with self._lock:
            known = self._kept.get(key)  # whoever had it in hand may have kept it since
            if known is not None:
                return known
            others = self._in_hand.get(key)
            if others is None:
                mine: Future[WindowReading] = Future()
                self._in_hand[key] = mine
        return others.result() if others is not None else self._read(key, ids, mine)

    def _read(self, key: bytes, ids: Sequence[int], mine: Future[WindowReading]) -> WindowReading:
        age = self._kept.age
        try:
            made = self.trunk.read(ids)
        except BaseException as error:
            with self._lock:
                del self._in_hand[key]
            mine.set_exception(error)
            raise
        with self._lock:
            self.passes += 1
            self.tokens += len(ids)
            self._kept.put(key, made, age)
            del self._in_hand[key]
        mine.set_result(made)
        return made

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether a window was read a moment ago, and costs nothing."""
        return self._kept.get(_key(ids)) is not None

    @property
    def bytes(self) -> int:
        """About how much is kept."""
        return self._kept.bytes


def _key(ids: Sequence[int]) -> bytes:
    made = hashlib.blake2b(np.asarray(ids, "<i4").tobytes(), digest_size=16)
    made.update(namespace().encode())
    return made.digest()


_loading = threading.Lock()
"""Gates warm up side by side: without it each would load a trunk of its own."""


def shared_reading() -> OneReading:
    """One per process."""
    with _loading:
        return _shared()


@cache
def _shared() -> OneReading:
    return OneReading(Trunk())
