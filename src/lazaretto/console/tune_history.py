"""Recent judgements, ready to be counted under other rates: read once, for all who move sliders."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from lazaretto.errors import InputError
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.guard import Guard
from lazaretto.learn.replay import judged_items
from lazaretto.learn.tuning import FEWEST, Counts, Make, Tuner, installed_gate

DAYS = 30
"""Items of the last days are counted."""
FRESH_S = 300.0
"""Seconds for which a count of the history serves; a newer one is a click away."""


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """Judged items, ready to be counted."""

    tuner: Tuner
    counts: dict[tuple[str, str], tuple[Counts, ...]]
    now: Counts
    honest: int
    findings: int
    made: float


class Histories:
    """Keeps the last count: reading a month takes a while, moving a slider must not."""

    def __init__(self, guard: Guard, make: Make = installed_gate) -> None:
        """``make``: gates with other settings than the guard's own."""
        self._guard, self._make, self._lock = guard, make, threading.Lock()
        self._kept: JudgedHistory | None = None

    def get(self, anew: bool = False) -> JudgedHistory:
        """The history of the last days; ``InputError`` where there is too little of it."""
        with self._lock:
            if anew or self._kept is None or time.time() - self._kept.made > FRESH_S:
                self._kept = self._read()
            return self._kept

    def _read(self) -> JudgedHistory:
        ledger, policy = self._guard.ledger, self._guard.policy
        items = judged_items(ledger, time.time() - DAYS * 86_400)
        if len(items) < FEWEST:
            words = f"only {len(items)} items were judged in {DAYS} days; {FEWEST} are needed"
            raise InputError("history", words, 'Let the crew work for a while, mode = "observe" if you like')
        tuner = Tuner(items, policy, Thresholds(ledger, policy.learn), self._make)
        counts = {
            (offered.gate, offered.setting): tuple(
                tuner.counted({(offered.gate, offered.setting): value}) for value in offered.values
            )
            for offered in tuner.offered()
        }
        honest = sum(not judged.harmful for judged in items)
        return JudgedHistory(tuner, counts, tuner.counted({}), honest, len(items) - honest, time.time())
