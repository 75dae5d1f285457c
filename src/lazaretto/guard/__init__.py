"""The guard: the object users hold (``guard.py``), its parts, and its face for synchronous code."""

from lazaretto.guard.guard import Guard

__all__ = ["Guard"]
