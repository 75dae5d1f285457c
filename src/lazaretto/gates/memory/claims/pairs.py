"""Pairs of a new claim and a known one."""

from __future__ import annotations

from dataclasses import dataclass

from lazaretto.gates.memory.claims.comparison import Overlap
from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.relation import Related, RelationCalibration
from lazaretto.gates.memory.claims.stakes import at_stake
from lazaretto.types import Observation


@dataclass(frozen=True, slots=True)
class NearPair:
    """A new claim and a known one near to it."""

    new: Claim
    old: Claim
    item: Observation
    """The item that makes the old claim."""
    cosine: float
    partial: bool
    """Whether one of the two is a sentence of a longer text: on its own it says less than in its place."""
    meeting: Overlap
    """The overlap of the two claims."""

    @property
    def may_conflict(self) -> bool:
        """Whether the two could contradict each other at all; where not, a model may only find that they agree."""
        return self.meeting not in (Overlap.SAME, Overlap.TWO_THINGS)

    @property
    def at_stake(self) -> bool:
        """Whether changing the old one to the new one is weighty: see ``stakes``."""
        return at_stake(self.old, self.new)


@dataclass(frozen=True, slots=True)
class ComparedPair(NearPair):
    """One pair of claims and what it means."""

    related: Related


def conflict_bar(pair: NearPair, at: RelationCalibration) -> float:
    """The probability of a conflict from which on it counts in such a pair."""
    bar = {Overlap.OPPOSED: at.conflict_at, Overlap.ALIKE: at.alike_at, Overlap.APART: at.apart_at}[pair.meeting]
    return max(bar, at.partial_at) if pair.partial else bar


def is_gray_pair(pair: NearPair) -> bool:
    """Whether a person may be asked to look at a conflict that does not count by itself."""
    return pair.meeting is Overlap.OPPOSED and not pair.partial


def least_bar(pair: NearPair, at: RelationCalibration) -> float:
    """The lowest probability of a conflict at which anything is decided otherwise in such a pair."""
    bar = conflict_bar(pair, at)
    return min(bar, at.review_at) if is_gray_pair(pair) else bar
