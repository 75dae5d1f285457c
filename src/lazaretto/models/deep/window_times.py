"""About what a window takes to read, by the windows that were read last."""

from __future__ import annotations

import statistics
from collections import deque

KEPT = 7
"""Windows that are remembered, and texts in a row without time after which they are not."""
_EMPTY = 8
"""Tokens whose time a window takes that has none: a pass has a cost of its own, which a short window shows most."""


class WindowTimes:
    """The middle of the last few windows, so that a single slow one does not count; each scaled to the length asked
    for. Several texts in a row that are not read for want of time have all of it forgotten: a reader that was slow once
    would else never be tried again."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._not_read = 0

    def took(self, tokens: int, seconds: float) -> None:
        """A window of so many tokens was read."""
        self._rates.append(seconds / (tokens + _EMPTY))
        self._not_read = 0

    def seconds_for(self, tokens: int) -> float:
        """About what a window of so many tokens takes; 0 where none is remembered."""
        rates = tuple(self._rates)  # other threads read too
        return statistics.median(rates) * (tokens + _EMPTY) if rates else 0.0

    def not_read(self) -> None:
        """A window was not read because it would have taken too long."""
        self._not_read += 1
        if self._not_read >= KEPT:
            self._rates.clear()
            self._not_read = 0
