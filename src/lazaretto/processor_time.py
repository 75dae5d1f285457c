"""Processor time that all gates together may spend on one item, so that no text costs more than the policy gives it.

The guard gives an item its time; whoever works on it in a thread counts what that thread takes, asks how much is left
before the next step, and says what was left out. Waiting does not count: a busy machine cuts nothing off. Nor does
collecting garbage. Where nothing was given (a scan, a training run), there is no limit.
"""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from lazaretto.types import Observation

P = ParamSpec("P")
T = TypeVar("T")
SHORT, WHOLE_FROM = 0.2, 8_000
"""Share of the time that even the shortest text gets, and the characters from which on a text gets all of it."""
HUGE, HUGE_SHARE = 120_000, 0.5
"""Characters of which no gate reads more, and what a longer text gets: it waits for a person in any case."""


_garbage = threading.local()


def _collecting(phase: str, _: object, clock: Callable[[], float] = time.thread_time) -> None:
    now = clock()
    if phase == "start":
        _garbage.began = now
    else:
        _garbage.took = getattr(_garbage, "took", 0.0) + now - getattr(_garbage, "began", now)


gc.callbacks.append(_collecting)


def worked() -> float:
    """Processor time of this thread but for collecting garbage, which falls on whoever comes by: in a large process it
    takes longer than a short text may."""
    return time.thread_time() - getattr(_garbage, "took", 0.0)


class ProcessorTime:
    """The time of one item. Several threads may count at once."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = seconds
        self._lock = threading.Lock()
        self._here = threading.local()

    def left(self) -> float:
        """Seconds that are left, what this thread worked until now taken off; never negative."""
        began = getattr(self._here, "began", None)
        if began is not None:
            now = worked()
            self._here.began = now
            with self._lock:
                self._left -= now - began
        return max(0.0, self._left)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """What this thread works meanwhile counts."""
        if getattr(self._here, "began", None) is not None:  # it is counted already
            yield
            return
        self._here.began = worked()
        try:
            yield
        finally:
            self.left()
            self._here.began = None

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What this thread works meanwhile does not count."""
        counting = getattr(self._here, "began", None) is not None
        self.left()
        self._here.began = None
        try:
            yield
        finally:
            self._here.began = worked() if counting else None


_given: ContextVar[ProcessorTime | None] = ContextVar("processor_time", default=None)


def time_for(item: Observation, most: float) -> ProcessorTime:
    """The time of an item: a short text needs little, and gets less than ``most``; what a picture says nobody knows."""
    share = min(1.0, SHORT + (1 - SHORT) * len(item.text) / WHOLE_FROM) if len(item.text) <= HUGE else HUGE_SHARE
    return ProcessorTime(most * (share if item.image is None and item.fields is None else 1.0))


@contextmanager
def given(whole: ProcessorTime) -> Iterator[None]:
    """What is done inside, in threads begun there too, is done in this time."""
    token = _given.set(whole)
    try:
        yield
    finally:
        _given.reset(token)


def left(most: float = math.inf) -> float:
    """Seconds that may still be spent on the item in hand, ``most`` at most."""
    whole = _given.get()
    return most if whole is None else min(most, whole.left())


def until(most: float = math.inf) -> float:
    """The moment of this thread's ``worked`` at which it has to end."""
    return worked() + left(most)


def is_over(end: float, needed: float = 0.0) -> bool:
    """Whether that moment comes before so many seconds more were worked, or what is left of the item's time does not
    last so long; others may have spent it meanwhile."""
    return worked() + needed > end or left() <= needed


@contextmanager
def counted() -> Iterator[None]:
    """What this thread works meanwhile is taken off the time of the item in hand."""
    whole = _given.get()
    if whole is None:
        yield
        return
    with whole.counted():
        yield


@contextmanager
def apart() -> Iterator[None]:
    """What this thread works meanwhile is not for the item in hand: it neither counts nor ends with its time."""
    whole = _given.get()
    if whole is None:
        yield
        return
    token = _given.set(None)
    try:
        with whole.uncounted():
            yield
    finally:
        _given.reset(token)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``work`` in a thread of its own, counted."""

    def doing() -> T:
        try:
            with counted():
                return work(*args, **kwargs)
        except StopIteration as error:  # no future can carry it: whoever waits would wait for ever
            raise RuntimeError("a generator came to its end") from error

    return await asyncio.to_thread(doing)
