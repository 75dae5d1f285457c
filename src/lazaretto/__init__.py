"""Lazaretto: an immune system for multi-agent AI. This is the front door; ``lazaretto.testing`` is the other one.

>>> from lazaretto import Guard
>>> with Guard.open("sqlite:///crew.db") as guard:                                    # doctest: +SKIP
...     decision = guard.run(guard.remember("the door code is 4711", agent="ada"))
...     decision.allowed
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazaretto.errors import InputError, LazarettoError, RepairRefused, StoreUnavailable
    from lazaretto.guard import Guard, Recalled
    from lazaretto.policy import Policy
    from lazaretto.types import Channel, Decision, MemoryFields, Observation, Receipt, RepairPlan, Ruling, SourceClass

_HOMES = {
    "lazaretto.policy": ("Policy",),
    "lazaretto.errors": ("InputError", "LazarettoError", "RepairRefused", "StoreUnavailable"),
    "lazaretto.guard": ("Guard", "Recalled"),
    "lazaretto.types": (
        "Channel", "Decision", "MemoryFields", "Observation", "Receipt", "RepairPlan", "Ruling", "SourceClass",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Channel",
    "Decision",
    "Guard",
    "InputError",
    "LazarettoError",
    "MemoryFields",
    "Observation",
    "Policy",
    "Recalled",
    "Receipt",
    "RepairPlan",
    "RepairRefused",
    "Ruling",
    "SourceClass",
    "StoreUnavailable",
]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a command that only prints help should not load a database layer."""
    if name not in _HOME:
        raise AttributeError(f"module 'lazaretto' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
