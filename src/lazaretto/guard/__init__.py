"""The guard: the object users hold (``guard.py``), what it is made of, and its face for synchronous code."""

from lazaretto.guard.guard import Guard

__all__ = ["Guard"]
