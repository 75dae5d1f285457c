"""Structured memories under watch: judged when written, and again as the evidence around them changes.

Half of a score is the score before: one odd look decides nothing. Judging changes nothing; rulings come in afterwards
(``take``, ``settle``), so that they can be recorded first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import EvidenceTable, Ints, WindowRows
from lazaretto.gates.memory.group_windows import GroupWindows, MemoryOrigins
from lazaretto.gates.memory.record_model import Scores
from lazaretto.models.record_embedding import Floats

MIN_MEMORIES = 50
MIN_SUPPORT = 0.02
"""Below these there is too little to compare with, and the verdict says so instead of guessing. A subject of which
nothing is known must be let in, or nothing would ever be known of it."""


@dataclass(frozen=True, slots=True)
class Records:
    """Structured memories, one row each."""

    ids: Ints
    """Numbers in the order of writing."""
    origin: MemoryOrigins
    memories: WindowRows
    success: NDArray[np.int8] | NDArray[np.bool_]
    """Their stated outcome: 1, 0, or -1 for none. A failed memory is no example to follow."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Ints) -> Records:
        return Records(self.ids[rows], self.origin[rows], self.memories[rows], self.success[rows])


def joined(parts: list[Records]) -> Records:
    """The rows of several as one."""

    def column(record: str, name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(getattr(p, record), name) for p in parts])

    return Records(
        np.concatenate([p.ids for p in parts]),
        MemoryOrigins(*(column("origin", n) for n in ("group", "writer", "parents"))),  # type: ignore[arg-type]
        WindowRows(*(column("memories", n) for n in ("situation", "action", "short"))),  # type: ignore[arg-type]
        np.concatenate([p.success for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at some memories."""

    evidence: EvidenceTable
    terms: Scores
    """The probability by this look alone, and its parts."""
    scores: NDArray[np.float64]
    """Running scores: half this look, half the looks before."""
    informed: NDArray[np.bool_]
    """Whether there was enough to compare with."""
    bad: NDArray[np.bool_]
    """Whether to hold it."""


class RecordReview:
    """Windows of evidence and the running score of every memory."""

    def __init__(self, score: Callable[[EvidenceTable], Scores], windows: GroupWindows, hold: float) -> None:
        self._score, self.windows, self._hold = score, windows, hold
        self._scores = np.full(1_024, np.nan)

    def look(self, records: Records, again: bool = False) -> Look:
        """Judge memories against the known ones; ``again`` when they may be among them. Nothing is changed."""
        evidence = self.windows.evidence_for(records.memories, records.origin, records.ids if again else None)
        terms = self._score(evidence)
        before = self._known(records.ids)
        scores = np.where(np.isnan(before), terms.fused, (before + terms.fused) / 2)
        informed = (self.windows.sizes(records.origin.group) >= MIN_MEMORIES) & (evidence.support >= MIN_SUPPORT)
        return Look(evidence, terms, scores, informed, np.asarray((scores >= self._hold) & informed))

    def remember(self, ids: Ints, scores: NDArray[np.float64]) -> None:
        """Keep the scores of a look."""
        while len(ids) and int(ids.max()) >= len(self._scores):
            self._scores = np.concatenate([self._scores, np.full(len(self._scores), np.nan)])
        self._scores[ids] = scores

    def take(self, records: Records, held: NDArray[np.bool_], trust: Floats) -> None:
        """Note memories that were written and ruled on; those that are not held count as evidence from now on."""
        stated = np.flatnonzero(records.success >= 0)
        if len(stated):
            self.windows.record_use(records.origin[stated], records.success[stated] > 0)
        self.keep(records, np.flatnonzero(~held), trust)

    def keep(self, records: Records, rows: Ints, trust: Floats) -> None:
        """Let some of the memories count as evidence, unless they are marked as failed."""
        speaking = rows[records.success[rows] != 0]
        if len(speaking):
            part = records[speaking]
            self.windows.add(part.memories, part.origin, part.ids, trust[speaking])

    def drop(self, records: Records) -> None:
        """Memories were held: they no longer count as evidence."""
        self.windows.forget(records.origin.group, records.ids)

    def _known(self, ids: Ints) -> NDArray[np.float64]:
        inside = ids < len(self._scores)
        return np.where(inside, self._scores[np.where(inside, ids, 0)], np.nan)
