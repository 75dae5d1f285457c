"""Claims with their vectors, pairs of a new claim and a known one, and the evidence of a conflict between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from lazaretto.gates.memory.claims.comparison import Overlap, differences, gives_another_value
from lazaretto.gates.memory.claims.extraction import Claim, claims_of, weightiest_first
from lazaretto.gates.memory.claims.relation import (
    Related,
    Relation,
    RelationCalibration,
    RelationModel,
    agrees_or_not,
    may_reach,
    shared_relation_model,
    shared_second_model,
    together,
)
from lazaretto.gates.memory.claims.update_rule import Witness, at_stake
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import ClaimRow, Floats
from lazaretto.models.minilm import DIMENSION
from lazaretto.processor_time import apart, left, worked
from lazaretto.reading.text import reading_of
from lazaretto.types import Evidence, Observation

# Claims with their vectors: read from texts, kept beside the ledger, and made up for where they are missing.

_MOST_BYTES = 4 << 20
"""Memory for texts that were read last."""
_AT_ONCE = 32
_CATCHING_UP = 0.5
_BEFORE_CLOCK = 4
"""Claims that are read between two looks at the clock."""
_LOOKS = 16
"""Looks for missing claims between two questions where the ledger ends: each look begins where the last answer was."""
_CLAIM_BYTES = 1_000
"""Memory of a claim besides its text."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """The claims of a text and their unit vectors, row by row."""

    claims: tuple[Claim, ...]
    vectors: Floats
    whole: bool = True
    """False when there was no time for all of its claims: the weightiest were read."""

    def size(self) -> int:
        """About how many bytes it takes."""
        return self.vectors.nbytes + sum(_CLAIM_BYTES + 4 * len(claim.text) for claim in self.claims)

    def rows(self) -> list[ClaimRow]:
        """As the ledger keeps them."""
        return [ClaimRow(c.start, c.end, v) for c, v in zip(self.claims, self.vectors, strict=True)]


class ClaimReader:
    """Reads texts and keeps what it read last, since a text is judged first and kept a moment later."""

    def __init__(self) -> None:
        self._recent: KeptTexts[ReadText] = KeptTexts(_MOST_BYTES, ReadText.size)
        self._caught_up: dict[tuple[str, str], int] = {}
        self._looks: Counter[tuple[str, str]] = Counter()

    def read(self, texts: Sequence[str]) -> list[ReadText]:
        """The claims of each text, with vectors: as many as there is time for, the weightiest first."""
        found = {text: known for text in dict.fromkeys(texts) if (known := self._recent.get(digest(text))) is not None}
        for text in dict.fromkeys(texts):
            if text not in found:
                found[text] = _read(text)
                self._recent.put(digest(text), found[text])
        return [found[text] for text in texts]

    def vector(self, text: str) -> Floats:
        """The unit vector of a text as a whole."""
        return reading_of(text).vector

    def knows(self, text: str) -> bool:
        """Whether a text was read a moment ago."""
        return self._recent.get(digest(text)) is not None

    def keep(self, ledger: Ledger, item: str, text: str) -> None:
        """Keep the claims of an item that was just recorded."""
        read = self.read([text])[0]
        if read.claims:
            ledger.keep_claims(item, read.rows())

    def catch_up(self, ledger: Ledger, seconds: float = _CATCHING_UP) -> bool:
        """Keep the claims of memories that have none: written by others, restored, or before there was an index.

        At most so long of this thread's processor at a time; False when some are left for the next time.
        """
        with apart():
            return self._catch_up(ledger, worked() + seconds)

    def _catch_up(self, ledger: Ledger, until: float) -> bool:
        key = (ledger.url, ledger.namespace)
        moves = self._looks[key] % _LOOKS == 0
        self._looks[key] += 1
        while True:
            head = ledger.head().seq if moves else 0
            missing = ledger.without_claims(after=self._caught_up.get(key, 0), limit=_AT_ONCE)
            if not missing:  # none up to there: next time only later items are asked for
                self._caught_up[key] = max(head, self._caught_up.get(key, 0))
                return True
            if ledger.read_only:
                return False
            moves = True
            texts = {
                memory.id: memory.text
                for memory in ledger.items(ids=[item for _, item in missing], any_state=True, limit=None)
            }
            for seq, item in missing:
                if texts.get(item):
                    self.keep(ledger, item, texts[item])
                self._caught_up[key] = seq
                if worked() > until:
                    return False


def _read(text: str) -> ReadText:
    claims = weightiest_first(claims_of(text))
    sentences = list(dict.fromkeys(claim.text for claim in claims))  # a repeated claim is read once
    rows: dict[str, Floats] = {}
    for first in range(0, len(sentences), _BEFORE_CLOCK):
        if rows and left() <= 0:
            break
        rows.update((sentence, reading_of(sentence).vector) for sentence in sentences[first : first + _BEFORE_CLOCK])
    kept = sorted((claim for claim in claims if claim.text in rows), key=lambda claim: claim.start)
    vectors = np.array([rows[claim.text] for claim in kept], np.float32).reshape(len(kept), DIMENSION)
    return ReadText(tuple(kept), vectors, len(kept) == len(claims))


@cache
def shared_reader() -> ClaimReader:
    """One per process."""
    return ClaimReader()


# Pairs of a new claim and a known one, read by both relation models, only as exactly as the decision needs.
#
# A pair is read in eight bits first, by both models where the first finds a possible conflict. Full precision takes
# more than twice as long, so it is left out where it could not bring the pair to a bar of its own (decision 0117).
# Pairs that a rule takes for peaceful without a model are read, too, where they are near (``is_doubtful``, decision
# 0112).


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
    found: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Answers about the two, worked out once."""

    @property
    def may_conflict(self) -> bool:
        """Whether the two could contradict each other at all; where not, a model may only find that they agree."""
        return self.meeting not in (Overlap.SAME, Overlap.TWO_THINGS)

    @property
    def at_stake(self) -> bool:
        """Whether changing the old one to the new one is weighty: see ``update_rule``."""
        if "at_stake" not in self.found:
            self.found["at_stake"] = at_stake(self.old, self.new)
        return self.found["at_stake"]

    @property
    def gives_another_value(self) -> bool:
        """Whether it is plain without a model that the two give two values for one thing."""
        if "another_value" not in self.found:
            self.found["another_value"] = gives_another_value(self.old, self.new)
        return self.found["another_value"]


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
    """Whether two claims that no model would read are near enough to be read after all; the same words again are no
    other claim."""
    if _words(old) == _words(new):
        return False
    far = meets is Overlap.APART and LEAST_DOUBTED <= cosine < LEAST_APART
    return (far or meets is Overlap.SAME) and not gives_another_value(old, new)


def _words(claim: Claim) -> list[str]:
    return [word.lstrip(_OPENING).rstrip(_ENDING) for word in claim.text.casefold().split()]


_OPENING, _ENDING = "\"'(“„", ".,;:!?\"')”“"
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
            if related.conflict >= at and not self._opposes_itself(p.old, at)
        ]

    def _opposes_itself(self, known: Claim, at: float) -> bool:
        """Whether to both models a known claim contradicts itself ("open at nine and closed at noon"): their answer on
        another claim beside it then says nothing. The newcomer has no say in that."""
        alike = [(known, known, 1.0)]
        first, second = (model.compare(alike, at_once=True) for model in (self.first, self._second))
        return together(first[0], second[0]).conflict >= at

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
        open_ = [n for n, p in enumerate(pairs) if p.may_conflict and not p.gives_another_value]
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
    return pair.may_conflict and conflict >= _READ_TWICE[0] and not pair.gives_another_value


# The evidence of a conflict between claims, in words and as data.

NAMED = 4
"""So many items are named in a sentence."""


def share(related: Related) -> dict[str, float]:
    """The two parts of a conflict, as the words have it."""
    return {"contradicts": round(related.contradicts, 3), "updates": round(related.updates, 3)}


def listed(items: Sequence[str]) -> str:
    """The first of several in a sentence."""
    shown = [*items[:NAMED], *(["others"] if len(items) > NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def conflict_evidence(
    opposed: Sequence[ComparedPair], seen: Mapping[str, Witness], against: Sequence[Witness], new: Witness,
    why: Mapping[str, str], believed: float, sensitive: bool,
) -> tuple[Evidence, ...]:  # fmt: skip
    """Evidence of the claims that a text contradicts or changes; ``why`` gives the reason why it may, by item, or is
    empty where it may not."""
    refused = not all(why.values())
    items = [f.item.id for f in opposed]
    count = len(against)
    roots = f"{_NUMBERS[count] if count < len(_NUMBERS) else count} independent root{'s' * (count != 1)}"
    trusts = [f"{seen[item].trust:.2g}" for item in items[:NAMED]]
    verb = "Contradicts" if refused else "Changes"
    words = f"{verb} {listed(items)} ({roots}, trust {listed(trusts)})"
    if refused:
        words += f"; its own source has trust {new.trust:.2g} and may not change that."
    else:
        words += f"; it may: {_REASONS[next(iter(why.values()))]}."
    kinds = list(dict.fromkeys(d.kind for f in opposed for d in differences(f.old, f.new)))
    data: dict[str, Any] = {
        "relation": (Relation.CONTRADICTS if refused else Relation.UPDATES).value,
        "items": items,
        "start": opposed[0].new.start,
        "end": opposed[0].new.end,
        "words": share(opposed[0].related),
        "differs_in": kinds,
        "sensitive": sensitive,
        "trust": round(new.trust, 2),
        "credibility": round(believed, 3),
        "by": dict(why),
    }
    return (Evidence("claim", words, data),)


_REASONS = {
    "maker": "the maker of the claim changes it",
    "trust": "its source is trusted at least as much",
    "voices": "enough independent voices say the same",
    "progress": "a piece of work went on",
    "": "",
}
