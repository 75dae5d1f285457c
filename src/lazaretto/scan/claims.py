"""Contradictions within a store of which nothing but the texts is known.

Without provenance nobody can tell a correction from a lie, and most notes that differ are about different days or
things. So only pairs count that say nearly the same words of the same names and cannot both hold: another account,
address, amount or share, or the opposite permission or polarity; and the relation model must be sure of it too.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lazaretto.gates.memory.claims.comparison import FEATURES, compared, differences
from lazaretto.gates.memory.claims.extraction import Claim, claims_of, read_claim
from lazaretto.gates.memory.claims.relation import shared_relation_model
from lazaretto.gates.memory.claims.values import STRONG
from lazaretto.models.minilm import claim_minilm

ALIKE = 0.6
"""Share of their content words that two claims must have in common."""
SURE = 0.8
"""Least probability, by the relation model, that both cannot hold."""
_FEWEST_WORDS = 2
_MOST_PARTNERS = 8
"""Of one claim that are compared: templates fill stores with sentences that differ in a word."""
_MOST_IN_BLOCK = 400
"""Claims that share their rarest words, at most: beyond that they are a form, and no statement."""
_AT_ONCE = 256
_EXACT = STRONG | {"money", "percent"}
_AMOUNTS = frozenset({"quantity", "time"})
"""Exact too where money, access or safety is concerned and every other word is the same: a dose, an opening hour."""
_TELLING = frozenset({"number", "quantity", "year", "date", "time"})


@dataclass(frozen=True, slots=True)
class ClaimMark:
    """A claim: where it stands, its words, and what it is about."""

    start: int
    end: int
    words: tuple[str, ...]
    about: str
    """Stands for its names, and for the numbers and dates that always tell occasions apart: claims that differ in them
    are never opposed, so they are not even compared."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two claims that cannot both hold, by the numbers of their texts."""

    new: int
    old: int
    new_mark: ClaimMark
    old_mark: ClaimMark
    strength: float
    differs_in: str


def marks_of(text: str) -> tuple[ClaimMark, ...]:
    """The claims of a text, but for questions and what is too short to be about one thing."""
    return tuple(
        ClaimMark(claim.start, claim.end, tuple(sorted(claim.subject)), _about(claim))
        for claim in claims_of(text)
        if len(claim.subject) >= _FEWEST_WORDS and not claim.text.rstrip().endswith("?")
    )


def contradictions(
    texts: Sequence[str], marks: Sequence[tuple[int, ClaimMark]], step: Callable[[int], None] = lambda _: None
) -> list[Contradiction]:
    """The pairs of a store that contradict each other, strongest first; ``marks`` are (text number, claim)."""
    pairs = list(_candidates(texts, marks))
    found: list[Contradiction] = []
    for place in range(0, len(pairs), _AT_ONCE):
        part = pairs[place : place + _AT_ONCE]
        claims = [(_claim(texts, marks[a]), _claim(texts, marks[b])) for a, b in part]
        said = list(dict.fromkeys(claim.text for pair in claims for claim in pair))
        vectors = dict(zip(said, claim_minilm().embed_texts(said), strict=True))
        asked = [(old, new, float(vectors[old.text] @ vectors[new.text])) for old, new in claims]
        answers = shared_relation_model().compare(asked, [(SURE,)] * len(asked))
        for (a, b), (old, new, _), told in zip(part, asked, answers, strict=True):
            if told.conflict >= SURE:
                (i, first), (j, second) = marks[a], marks[b]
                found.append(Contradiction(j, i, second, first, round(told.conflict, 3), _differs(old, new)))
        step(len(part))
    return sorted(found, key=lambda one: (-one.strength, one.new, one.old))


def _claim(texts: Sequence[str], mark: tuple[int, ClaimMark]) -> Claim:
    number, at = mark
    return read_claim(texts[number][at.start : at.end].strip()[:600])


def _candidates(texts: Sequence[str], marks: Sequence[tuple[int, ClaimMark]]) -> Iterator[tuple[int, int]]:
    """Pairs (older, newer) that share enough words and oppose each other in form.

    Sets that share a part ``ALIKE`` of their words share one of their rarest (prefix filtering), so only those are
    looked at, and of those only what is about the same.
    """
    frequency = Counter(word for _, mark in marks for word in mark.words)
    blocks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, (_, mark) in enumerate(marks):
        ordered = sorted(mark.words, key=lambda word: (frequency[word], word))
        rarest = ordered[: len(ordered) - int(-(-ALIKE * len(ordered) // 1)) + 1]
        near: Counter[int] = Counter()
        for word in rarest:
            for other in blocks.get((mark.about, word), ())[-_MOST_IN_BLOCK:]:
                near[other] += 1
        partners = 0
        mine = frozenset(mark.words)
        for other in sorted(near, reverse=True):
            if marks[other][0] == marks[number][0]:
                continue
            theirs = marks[other][1].words
            shared = len(mine.intersection(theirs))
            if shared < ALIKE * (len(mine) + len(theirs) - shared):
                continue
            if opposed(_claim(texts, marks[other]), _claim(texts, marks[number])):
                yield other, number
                partners += 1
                if partners == _MOST_PARTNERS:
                    break
        for word in rarest:
            blocks[mark.about, word].append(number)


def opposed(old: Claim, new: Claim) -> bool:
    """Whether two claims of the same names oppose each other in a value of an exact kind, permission or polarity."""
    if _names(old) != _names(new):
        return False
    same_words = old.words == new.words
    exact = _EXACT | (_AMOUNTS if same_words and old.sensitive and new.sensitive else set())
    kinds = {one.kind for one in differences(old, new)}
    if kinds - exact or _occasions(old, exact) != _occasions(new, exact):
        return False  # another day, number or amount: another occasion
    if kinds:
        return same_words or len(old.words & new.words) >= 0.8 * len(old.words | new.words)
    told = dict(zip(FEATURES, compared(old, new), strict=True))
    return bool(told["permission_opposed"] or told["negation_differs"] or told["opposites"])


def _names(claim: Claim) -> frozenset[str]:
    return frozenset(v.norm for v in claim.values if v.kind == "name")


def _about(claim: Claim) -> str:
    """The same for two claims wherever ``opposed`` finds their names and occasions the same."""
    told = (sorted(_names(claim)), sorted(_occasions(claim, _EXACT | _AMOUNTS)))
    return hashlib.blake2b(repr(told).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _occasions(claim: Claim, exact: set[str] | frozenset[str]) -> set[tuple[str, str]]:
    """The numbers and dates of a claim that may tell occasions apart."""
    return {(v.kind, v.norm) for v in claim.values if v.kind in _TELLING and v.kind not in exact}


def _differs(old: Claim, new: Claim) -> str:
    kinds = [one.kind for one in differences(old, new)]
    if kinds:
        return ", ".join(kinds)
    return "permission" if old.permission != new.permission else "polarity"
