"""What a runner receives and what a unit of work leaves behind: the whole interface between experiments and the
bench."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

Progress = Callable[[float, str], None]
"""``progress(share, note)``: share of the unit that is done, in [0, 1], and a few words for the person who waits."""


def silent(share: float, note: str = "") -> None:
    """A progress callback for runs that nobody watches."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Where a runner may keep files, and how it says how far it is."""

    workdir: Path
    """A folder of this unit alone. It survives an interruption: checkpoints and ledgers found here are the unit's
    own."""
    progress: Progress = silent


class Runner(Protocol):
    """One unit of an experiment: the same settings and seed must give the same measures."""

    def __call__(self, settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
        """Measures by name: numbers, booleans, None (did not happen), words, or lists of numbers (curves)."""
        ...


class Outcome(StrEnum):
    """How a unit of work ended."""

    HELD = "held"  # it ran to its end and no criterion of the experiment was broken
    BREACHED = "breached"  # it ran to its end and a criterion was broken
    VOID = "void"  # it did not run to its end; the reason is kept and the unit is counted, never dropped


@dataclass(frozen=True, slots=True)
class UnitResult:
    """What one finished unit left behind; one JSON file on disk."""

    unit: str
    """Content hash of runner, version, settings and seed."""
    experiment: str
    row: str
    seed: int
    settings: Mapping[str, Any]
    outcome: Outcome
    reason: str = ""
    """Why it is breached or void."""
    measures: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    made_with: Mapping[str, str] = field(default_factory=dict)
    """What made it (``made_with`` in ``unit.py``). Results from before it was kept say less; a ``manifest.json`` beside
    them says the rest."""
