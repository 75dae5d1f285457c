"""Making very many records at once without Python's garbage collector walking them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 500
"""Fewer records than this are not worth it."""


@contextmanager
def gc_paused(count: int) -> Iterator[None]:
    """Pause the collector while ``count`` records are made: they hold no rings, and it would cost up to half of them.

    Only around work that never waits, so that the pause is short for the threads beside.
    """
    if count < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
