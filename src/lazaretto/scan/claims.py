"""The claims of a text as a scan keeps them, and when two of them oppose each other in form.

Without provenance a correction looks like a lie, and most notes that differ are about different things. So only pairs
count that say nearly the same words of the same names and cannot both hold: another account, address, amount or share,
or the opposite permission or polarity.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lazaretto.gates.memory.claims.comparison import FEATURES, compared, differences
from lazaretto.gates.memory.claims.extraction import Claim, claims_of
from lazaretto.gates.memory.claims.values import STRONG

_FEWEST_WORDS = 2
_EXACT = STRONG | {"money", "percent"}
_AMOUNTS = frozenset({"quantity", "time"})
"""Exact too where money, access or safety is concerned and every other word is the same: a dose, an opening hour."""
_TELLING = frozenset({"number", "quantity", "year", "date", "time", "reference"})
"""Kinds of values that distinguish occasions. A reference is a ticket, an order, a case."""


@dataclass(frozen=True, slots=True)
class ClaimMark:
    """A claim: its place, its words, and its subject."""

    start: int
    end: int
    words: tuple[str, ...]
    about: str
    """Stands for its names, and for the numbers, dates and references that always tell occasions apart: claims that
    differ in them are never opposed, so they are not even compared."""


def marks_of(text: str) -> tuple[ClaimMark, ...]:
    """The claims of a text, without questions and claims too short to be about one thing."""
    return tuple(
        ClaimMark(claim.start, claim.end, tuple(sorted(claim.subject)), _about(claim))
        for claim in claims_of(text)
        if len(claim.subject) >= _FEWEST_WORDS and not claim.text.rstrip().endswith("?")
    )


def opposed(old: Claim, new: Claim) -> bool:
    """Whether two claims of the same names oppose each other in a value of an exact kind, permission or polarity."""
    if _names(old) != _names(new):
        return False
    same_words = old.words == new.words
    exact = _EXACT | (_AMOUNTS if same_words and old.sensitive and new.sensitive else set())
    kinds = {difference.kind for difference in differences(old, new)}
    if kinds - exact or _occasions(old, exact) != _occasions(new, exact):
        return False  # another day, number or amount: another occasion
    if kinds:
        return same_words or len(old.words & new.words) >= 0.8 * len(old.words | new.words)
    features = dict(zip(FEATURES, compared(old, new), strict=True))
    return bool(features["permission_opposed"] or features["negation_differs"] or features["opposites"])


def _names(claim: Claim) -> frozenset[str]:
    return frozenset(v.norm for v in claim.values if v.kind == "name")


def _about(claim: Claim) -> str:
    """The same for two claims wherever ``opposed`` finds their names and occasions the same."""
    key = (sorted(_names(claim)), sorted(_occasions(claim, _EXACT | _AMOUNTS)))
    return hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _occasions(claim: Claim, exact: set[str] | frozenset[str]) -> set[tuple[str, str]]:
    """The numbers, dates and references of a claim that may tell occasions apart."""
    return {(v.kind, v.norm) for v in claim.values if v.kind in _TELLING and v.kind not in exact}


def differs_in(old: Claim, new: Claim) -> str:
    """The difference between two opposed claims."""
    kinds = [difference.kind for difference in differences(old, new)]
    if kinds:
        return ", ".join(kinds)
    return "permission" if old.permission != new.permission else "polarity"
