"""Caches of texts and pictures that a process read: bounded in bytes, by digest.

``forget`` empties all of it: the ledger calls it when content is erased, and so do followers of the ledger for content
that another process erased.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

Value = TypeVar("Value")
Texts = ParamSpec("Texts")
_kept: weakref.WeakSet[Clears] = weakref.WeakSet()
_also: list[Callable[[], object]] = []
_lock = threading.Lock()
_erasures = [0]
"""The number of calls of ``forget``."""
_begun: ContextVar[int | None] = ContextVar("erasures_before_reading", default=None)
"""The number of erasures when the reading in hand began."""
_MOST_MISSED = 10_000
"""Keys that are remembered as missed: one for each content that is being read."""


class Clears(Protocol):
    """A cache that holds something of texts."""

    def clear(self) -> None:
        """Forget everything."""
        ...


class KeptTexts(Generic[Value]):
    """Results for the contents that were read last. Safe to share between threads.

    ``put`` keeps a result only if ``get`` missed it since the last ``clear``, and nothing was erased since the reading
    in hand began: a content that is erased during its reading does not return to the cache, however long it takes.
    """

    def __init__(self, most_bytes: int, size: Callable[[Value], int]) -> None:
        """``size``: about how many bytes a value takes."""
        self._most, self._size = most_bytes, size
        self._values: OrderedDict[bytes, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._missed: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        clear_when_forgotten(self)

    def get(self, key: bytes) -> Value | None:
        """The result for this content, if it is cached."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                self._missed[key] = None
                if len(self._missed) > _MOST_MISSED:
                    self._missed.popitem(last=False)
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: bytes, value: Value) -> None:
        """Keep a result, and drop the least recently used ones where there are too many bytes."""
        size = self._size(value) + len(key)
        with self._lock:
            if is_stale() or (key not in self._missed and key not in self._values):
                return
            self._missed.pop(key, None)
            old = self._values.pop(key, None)
            self._bytes -= old[1] if old else 0
            if size > self._most:
                return
            self._values[key] = (value, size)
            self._bytes += size
            while self._bytes > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._missed.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def bytes(self) -> int:
        """The approximate size of the content."""
        return self._bytes


def digest(*parts: str) -> bytes:
    """A key that does not tell what it was made from."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        made.update(len(data).to_bytes(8, "big") + data)
    return made.digest()


def remembered(
    most_bytes: int, size: Callable[[Any], int]
) -> Callable[[Callable[Texts, Value]], Callable[Texts, Value]]:
    """A function of texts that remembers what it made of them, in so many bytes, until something is erased."""

    def made(work: Callable[Texts, Value]) -> Callable[Texts, Value]:
        kept: KeptTexts[Value] = KeptTexts(most_bytes, size)

        @functools.wraps(work)
        def known(*parts: Texts.args, **named: Texts.kwargs) -> Value:
            key = digest(*map(str, (*parts, *named.items())))
            value = kept.get(key)
            if value is None:
                value = work(*parts, **named)
                kept.put(key, value)
            return value

        return known

    return made


def clear_when_forgotten(cache: Clears) -> None:
    """Clear this too when everything is forgotten, as long as it is in use."""
    with _lock:
        _kept.add(cache)


def also_forget(clear: Callable[[], object]) -> None:
    """Call this too when everything is forgotten."""
    _also.append(clear)


@contextmanager
def reading() -> Iterator[None]:
    """Around the reading of content, by threads begun inside too: if content is erased meanwhile, nothing is kept of
    anything read from then on, also by a gate that goes on past its time, and all caches are cleared at the end."""
    outer = _begun.get()
    begun = _erasures[0] if outer is None else outer
    token = _begun.set(begun)
    try:
        yield
    finally:
        _begun.reset(token)
        if _erasures[0] != begun:
            _clear_all()


def is_stale() -> bool:
    """Whether content was erased since the reading in hand began."""
    begun = _begun.get()
    return begun is not None and begun != _erasures[0]


def forget() -> None:
    """Forget what was made of any content, in this process."""
    with _lock:
        _erasures[0] += 1
    _clear_all()


def _clear_all() -> None:
    with _lock:
        several = list(_kept)
    for cache in several:
        cache.clear()
    for clear in _also:
        clear()
