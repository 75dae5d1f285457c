"""Pairs of a new claim and a known one, read by both relation models, only as exactly as the decision needs.

A pair is read in eight bits first, by both models where the first finds a possible conflict. Full precision takes more
than twice as long, so it is left out where it could not bring the pair to a bar of its own (decision 0117). Pairs that
a rule takes for peaceful without a model are read, too, where they are near (``is_doubtful``, decision 0112).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lazaretto.gates.memory.claims.comparison import Overlap, gives_another_value
from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.relation import (
    Related,
    RelationCalibration,
    RelationModel,
    agrees_or_not,
    may_reach,
    shared_relation_model,
    shared_second_model,
    together,
)
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


LEAST_APART = 0.5
"""Claims with nothing in common are read like others from this cosine on (decision 0050: .6 for the first head)."""
LEAST_DOUBTED = 0.4
"""Such claims are doubted from this cosine on."""
MOST_DOUBTED = 6
"""Most doubted pairs of one text."""
DOUBT_FROM = 0.7
"""The conflict, by the first model, from which on the second reads such a pair."""


def is_doubtful(old: Claim, new: Claim, cosine: float, meets: Overlap) -> bool:
    """Whether two claims that no model would read are near enough to be read after all."""
    far = meets is Overlap.APART and LEAST_DOUBTED <= cosine < LEAST_APART
    return (far or meets is Overlap.SAME) and not gives_another_value(old, new)


_READ_TWICE = (0.2, 0.35, 0.5, 0.7, 0.85, 0.93)
"""Bars so near to each other that every answer above the first is one of full precision: it goes into a mean."""


class PairModels:
    """The model that reads every pair, and the one that reads possible conflicts too."""

    def __init__(self, given: RelationModel | None = None, *, exact: bool = False) -> None:
        """``given`` stands in for both models; ``exact``: possible conflicts are all read in full precision."""
        self._given, self._exact = given, exact

    @property
    def first(self) -> RelationModel:
        """Loaded when it is first needed."""
        return self._given or shared_relation_model()

    @property
    def _second(self) -> RelationModel:
        return shared_second_model()

    def bars_of(self, related: Related) -> RelationCalibration:
        """The bars for an answer."""
        return (self._second if related.twice else self.first).calibration

    def unheard(self, answers: Iterable[Related]) -> str:
        """Why a larger model that is set up did not read, where a second one was asked."""
        twice = self._given is None and any(related.twice for related in answers)
        return self._second.stands_in if twice else ""

    def answers(self, pairs: Sequence[NearPair], *, hidden: bool = False, agreement: bool = False) -> list[Related]:
        """The relation of each pair; of a possible conflict as both models have it.

        ``hidden``: of hidden ones only agreement counts. ``agreement``: whether pairs agree counts, too.
        """
        if hidden or self._given is not None:
            return self._first_alone(pairs, hidden=hidden)
        peaceful: list[Related | None] = [None] * len(pairs) if self._exact else self._peaceful(pairs, agreement)
        rest = iter(self._exactly([pair for pair, answer in zip(pairs, peaceful, strict=True) if answer is None]))
        return [answer or next(rest) for answer in peaceful]

    def doubted(self, near: Sequence[NearPair]) -> list[ComparedPair]:
        """Whole texts that are taken for peaceful without a model, and that both models are sure to be opposed. "From
        40 to 75 %" and "from 40 to 38 %" share a value."""
        some = [p for p in near if not p.partial and is_doubtful(p.old, p.new, p.cosine, p.meeting)][:MOST_DOUBTED]
        if self._given is not None or not some:
            return []
        some = [p for p, rough in zip(some, self._rough(some), strict=True) if may_reach(rough, DOUBT_FROM)]
        if not some:
            return []  # no second model need be loaded
        at = self._second.calibration.doubt_at
        some = [p for p, both in zip(some, self._rough_both(some), strict=True) if may_reach(both, at)]
        first = self.first.compare(list(map(_claims, some)), at_once=True)
        sure = [(p, answer) for p, answer in zip(some, first, strict=True) if answer.conflict >= DOUBT_FROM]
        second = self._second.compare([_claims(p) for p, _ in sure], at_once=True)
        both = [(p, together(answer, other)) for (p, answer), other in zip(sure, second, strict=True)]
        return [
            ComparedPair(p.new, p.old, p.item, p.cosine, p.partial, Overlap.OPPOSED, related)
            for p, related in both
            if related.conflict >= at
        ]

    def _first_alone(self, pairs: Sequence[NearPair], *, hidden: bool) -> list[Related]:
        bars = [_READ_TWICE if pair.may_conflict and not hidden else () for pair in pairs]
        return self.first.compare(list(map(_claims, pairs)), bars)

    def _exactly(self, pairs: Sequence[NearPair]) -> list[Related]:
        answers = self._first_alone(pairs, hidden=False)
        asked = [n for n, pair in enumerate(pairs) if _asks_second(pair, answers[n].conflict)]
        asked = [n for n in asked if answers[n].conflict >= self._second.calibration.ask_at]
        twice = self._second.compare([_claims(pairs[n]) for n in asked], at_once=True) if asked else []
        for n, second in zip(asked, twice, strict=True):
            answers[n] = together(answers[n], second)
        return answers

    def _peaceful(self, pairs: Sequence[NearPair], agreement: bool) -> list[Related | None]:
        """The answers in eight bits that full precision could not bring to a bar; None for all other pairs."""
        open_ = [n for n, p in enumerate(pairs) if p.may_conflict and not gives_another_value(p.old, p.new)]
        rough = dict(zip(open_, self._rough([pairs[n] for n in open_]), strict=True))
        asked = [n for n in open_ if may_reach(rough[n], _READ_TWICE[0])]  # else no second model need be loaded
        asked = [n for n in asked if may_reach(rough[n], self._second.calibration.ask_at)]
        rough.update(zip(asked, self._rough_both([pairs[n] for n in asked]), strict=True))
        found: list[Related | None] = [None] * len(pairs)
        for n, answer in rough.items():
            reaches = n in asked and may_reach(answer, least_bar(pairs[n], self._second.calibration))
            if not reaches and (not agreement or agrees_or_not(answer, self.bars_of(answer).agree_at)):
                found[n] = answer
        return found

    def _rough(self, pairs: Sequence[NearPair]) -> list[Related]:
        return self.first.compare(list(map(_claims, pairs)), rough=True)

    def _rough_both(self, pairs: Sequence[NearPair]) -> list[Related]:
        if not pairs:
            return []
        second = self._second.compare(list(map(_claims, pairs)), rough=True)
        return [together(*answers) for answers in zip(self._rough(pairs), second, strict=True)]


def _claims(pair: NearPair) -> tuple[Claim, Claim, float]:
    return pair.old, pair.new, pair.cosine


def _asks_second(pair: NearPair, conflict: float) -> bool:
    return pair.may_conflict and conflict >= _READ_TWICE[0] and not gives_another_value(pair.old, pair.new)
