"""How clean a repair was: what it took out of what should go, and what it left of what should stay."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Purification:
    """Counts over one or many repaired agents. Shares of nothing are NaN."""

    threats_before: int
    threats_after: int
    benign_before: int
    benign_after: int

    @property
    def elimination(self) -> float:
        """Threat elimination rate: share of threats that are gone."""
        return 1 - self.threats_after / self.threats_before if self.threats_before else math.nan

    @property
    def retention(self) -> float:
        """Benign retention rate: share of benign items that are still there."""
        return self.benign_after / self.benign_before if self.benign_before else math.nan

    @property
    def harmonic(self) -> float:
        """Harmonic mean of the two; 0 when either is 0."""
        total = self.elimination + self.retention
        return 2 * self.elimination * self.retention / total if total else 0.0

    def __add__(self, other: Purification) -> Purification:
        return Purification(
            self.threats_before + other.threats_before,
            self.threats_after + other.threats_after,
            self.benign_before + other.benign_before,
            self.benign_after + other.benign_after,
        )

    def figures(self) -> dict[str, float | None]:
        """All shares by name; None where there is none."""
        values = {"elimination": self.elimination, "retention": self.retention, "harmonic": self.harmonic}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def purification(before: Iterable[bool], after: Iterable[bool]) -> Purification:
    """Count a repair of one agent from its items before and after, each True where it is a threat."""
    was, now = list(before), list(after)
    return Purification(sum(was), sum(now), len(was) - sum(was), len(now) - sum(now))
