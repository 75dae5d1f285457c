"""One pass per window: whoever asks for a window that was read finds it, and whoever asks while it is read waits.

What is kept is bounded in bytes, keyed by a digest of the namespace and the window's ids, and forgotten when something
is erased (``kept_texts``). A window that was being read meanwhile is not kept either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from lazaretto.kept_texts import KeptTexts, digest, namespace
from lazaretto.processor_time import apart
from lazaretto.reading.trunk import Trunk, WindowScores

MOST_BYTES = 8 << 20
"""Of windows that were read last: about 240 full ones, more than the longest text has."""


class Reads(Protocol):
    """Whoever reads windows, as of ``Trunk``."""

    def read(self, ids: Sequence[int]) -> WindowScores:
        """One pass."""
        ...


class OneReading:
    """A trunk that reads each window once; loaded when it is first asked. Safe to share between threads."""

    def __init__(self, load: Callable[[], Reads] = Trunk, most_bytes: int = MOST_BYTES) -> None:
        self._load = load
        self._trunk: Reads | None = None
        self.passes = 0
        """Windows that the trunk has read."""
        self._kept: KeptTexts[WindowScores] = KeptTexts(most_bytes, WindowScores.size)
        self._in_hand: dict[bytes, Future[WindowScores]] = {}
        self._lock, self._loading = threading.Lock(), threading.Lock()

    def warm_up(self) -> Reads:
        """The trunk, loaded once; no item's time is spent on it."""
        with self._loading:
            if self._trunk is None:
                with apart():
                    self._trunk = self._load()
            return self._trunk

    def window(self, ids: Sequence[int]) -> WindowScores:
        """What the trunk says of a window; a pass only where it was not read a moment ago."""
        key = _key(ids)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                return known
            others = self._in_hand.get(key)
            if others is None:
                mine: Future[WindowScores] = Future()
                self._in_hand[key] = mine
        return others.result() if others is not None else self._read(key, ids, mine)

    def _read(self, key: bytes, ids: Sequence[int], mine: Future[WindowScores]) -> WindowScores:
        age = self._kept.age
        try:
            made = self.warm_up().read(ids)
        except BaseException as error:
            with self._lock:
                del self._in_hand[key]
            mine.set_exception(error)
            raise
        with self._lock:
            self.passes += 1
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
    return digest(namespace(), " ".join(map(str, ids)))


_shared = OneReading()
"""Made here and not when first asked: gates warm up side by side, and must not have one each."""


def shared_reading() -> OneReading:
    """The one of this process."""
    return _shared
