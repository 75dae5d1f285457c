"""A circuit breaker: stops asking an endpoint that keeps failing."""

from __future__ import annotations

import time


class CircuitBreaker:
    """Opens after so many failures in a row, and lets one request try again after a pause."""

    def __init__(self, faults: int, pause_s: float) -> None:
        self._limit, self._pause = faults, pause_s
        self._failed = 0
        self._opened: float | None = None
        self._trying = False

    def refuses(self) -> bool:
        """Whether to fail at once. After the pause one caller is let through to find out."""
        if self._opened is None:
            return False
        if time.monotonic() - self._opened < self._pause or self._trying:
            return True
        self._trying = True
        return False

    def report(self, worked: bool) -> None:
        """What became of an attempt."""
        self._trying = False
        if worked:
            self._failed, self._opened = 0, None
            return
        self._failed += 1
        if self._failed >= self._limit:
            self._opened = time.monotonic()
