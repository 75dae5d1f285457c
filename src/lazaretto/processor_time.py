"""Processor time that all gates together may spend on one item, so that no text costs more than the policy gives it.

Work on an item counts its thread's time, asks how much is left before the next step, and says what was left out.
Waiting and garbage collection do not count. Without a given time (a scan, a training run) there is no limit.

Seconds are those of a quiet machine: beside busy neighbours, or on a slow processor, an honest text would run out of
time. So each run of a network compares its time with that of a quiet machine, and seconds count for less while the
machine is slower.
"""

from __future__ import annotations

import asyncio
import gc
import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from lazaretto.types import Observation

P = ParamSpec("P")
T = TypeVar("T")
SHORT, WHOLE_FROM = 0.2, 4_000
"""Share of the time that even the shortest text gets, and the characters from which on a text gets all of it."""
HUGE, HUGE_SHARE = 120_000, 0.5
"""Characters of which no gate reads more, and what a longer text gets: it waits for a person in any case."""
NOT_WHOLE = (
    f"Not all of the text was read: it is past {HUGE:,} characters, or took more processor time than the policy gives "
    "one item (processor_s of its channel). Split it, raise that, or let a person read it."
)
"""The sentence of every gate on a text that it did not read whole: the same, so that people read it once."""

MOST_PACE = 3.0
"""How many times slower than a quiet machine this one may be without reading less."""

_thread = threading.local()
"""Per thread: the time it took to collect garbage, and its clock."""


def _collecting(phase: str, _: object, clock: Callable[[], float] = time.thread_time) -> None:
    now = clock()
    if phase == "start":
        _thread.began = now
    else:
        _thread.took = getattr(_thread, "took", 0.0) + now - getattr(_thread, "began", now)


gc.callbacks.append(_collecting)


class Pace:
    """How many times longer than on a quiet machine networks took of late; never less than 1."""

    def __init__(self) -> None:
        self._passes: deque[float] = deque(maxlen=31)
        self.now = 1.0

    def passed(self, seconds: float, quiet: float) -> None:
        """A pass took so many seconds of its thread; on a quiet machine it takes ``quiet``."""
        self._passes.append(seconds / quiet)
        self.now = min(MOST_PACE, max(1.0, statistics.median(tuple(self._passes))))


pace = Pace()
"""The pace of this process."""


def worked() -> float:
    """Processor time of this thread, in seconds of a quiet machine, without garbage collection, which falls on any
    thread: in a large process it takes longer than a short text may."""
    now = time.thread_time() - getattr(_thread, "took", 0.0)
    last, clock = getattr(_thread, "clock", (now, now))
    clock += max(0.0, now - last) / pace.now
    _thread.clock = now, clock
    return clock


class ProcessorTime:
    """The time of one item. Several threads may count at once."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.given = self._left = seconds
        self._lock = threading.Lock()
        self._here = threading.local()

    def left(self) -> float:
        """Seconds that are left, what this thread worked until now taken off; never negative."""
        return max(0.0, self.balance())

    def balance(self) -> float:
        """The same, negative where more was spent than given."""
        began = getattr(self._here, "began", None)
        if began is not None:
            now = worked()
            self._here.began = now
            with self._lock:
                self._left -= now - began
        return self._left

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Work of this thread inside counts."""
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
        """Work of this thread inside does not count."""
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
    """Work inside, in threads begun there too, is done in this time."""
    token = _given.set(whole)
    try:
        yield
    finally:
        _given.reset(token)


def left(most: float = math.inf) -> float:
    """Seconds that may still be spent on the item in hand, ``most`` at most."""
    whole = _given.get()
    return most if whole is None else min(most, whole.left())


def spare(share: float) -> float:
    """Seconds that may still be spent on the item in hand if a share of its time is kept for others; a negative share
    is what may be spent beyond it."""
    whole = _given.get()
    return math.inf if whole is None else whole.balance() - share * whole.given


def until(most: float = math.inf) -> float:
    """The moment of this thread's ``worked`` at which it has to end."""
    return worked() + left(most)


def is_over(end: float, needed: float = 0.0) -> bool:
    """Whether that moment comes before so many seconds more were worked, or the rest of the item's time does not
    last so long; others may have spent it meanwhile."""
    return worked() + needed > end or left() <= needed


@contextmanager
def counted() -> Iterator[None]:
    """Work of this thread inside is taken off the time of the item in hand."""
    whole = _given.get()
    if whole is None:
        yield
        return
    with whole.counted():
        yield


@contextmanager
def apart() -> Iterator[None]:
    """Work of this thread inside is not for the item in hand: it neither counts nor ends with its time."""
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
        except StopIteration as error:  # no future can carry it: a waiting caller would wait for ever
            raise RuntimeError("a generator came to its end") from error

    return await asyncio.to_thread(doing)
