"""The words of a ruling: which rule, which phrases, which precedent, how near, and what would change it.

Each is a fact of the debate that a reader can check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.gates.content.arbitration import CONFIRMED, EXONERATED, IN_DOUBT, RULES
from lazaretto.gates.content.records import Precedent
from lazaretto.types import Evidence

_MOST_WORDS = 2
"""Phrases that a reason names; the report lists all."""
_SUMMARY = 120


@dataclass(frozen=True, slots=True)
class Bars:
    """The risks below which content is allowed, and from which on it is unsafe."""

    allow: float
    unsafe: float


@dataclass(frozen=True, slots=True)
class Grounds:
    """The grounds of a ruling."""

    rule: str
    risk: float
    bars: Bars | None
    against: Sequence[Evidence] = ()
    """Phrases that speak for risk."""
    excusing: Sequence[Evidence] = ()
    """Phrases that speak for a benign reading."""
    context: str = ""
    """The benign context, in words; empty where none is firm."""
    precedents: Sequence[Precedent] = ()
    """Precedents that bear on the content."""
    undecided: str = ""
    heard: str = ""
    """A second reader's answer; empty where it was not asked."""


def reason(grounds: Grounds) -> str:
    """One paragraph that says all of it."""
    parts = [
        RULES[grounds.rule],
        _risk(grounds),
        grounds.heard,
        *_words(grounds),
        _case(grounds.precedents),
        _change(grounds),
    ]
    if grounds.undecided:
        parts.append(f"Not settled: {grounds.undecided}.")
    return " ".join(part for part in parts if part)


def _risk(grounds: Grounds) -> str:
    if grounds.bars is None:
        return f"Risk {grounds.risk:.2f}."
    return f"Risk {grounds.risk:.2f}; allowed below {grounds.bars.allow:.2f}, unsafe from {grounds.bars.unsafe:.2f}."


def _words(grounds: Grounds) -> list[str]:
    sentences = []
    if grounds.rule in (CONFIRMED, IN_DOUBT):
        shown = _quoted(grounds.against)
        sentences.append(f"It rests on {shown}." if shown else "No phrase stands out: it rests on the text as a whole.")
    elif shown := _quoted(grounds.against):
        sentences.append(f"What could speak against it, {shown}, is not enough.")
    if grounds.rule == EXONERATED and grounds.context:
        sentences.append(f"Benign context: {grounds.context}.")
    if grounds.rule != CONFIRMED and (shown := _quoted(grounds.excusing)):
        sentences.append(f"For a benign reading: {shown}.")
    return sentences


def _quoted(quotes: Sequence[Evidence]) -> str:
    words = [str(quote.data["quote"]).strip(" .,;:") for quote in quotes[:_MOST_WORDS]]
    return " and ".join(f"“{phrase[:160]}”" for phrase in words if phrase)


def _case(precedents: Sequence[Precedent]) -> str:
    if not precedents:
        return "No case of the library bears on it."
    nearest = precedents[0]
    what = (nearest.case.summary or nearest.case.words)[:_SUMMARY].strip().rstrip(".")
    more = f" ({len(precedents) - 1} more)" if len(precedents) > 1 else ""
    return f"Nearest precedent {nearest.case.id}, ruled {nearest.case.label.value}: {what}. {nearest.why}{more}".strip()


def _change(grounds: Grounds) -> str:
    if grounds.bars is None or grounds.undecided:
        return "What would change it: a person's decision, or judges that can read it."
    low, high = f"{grounds.bars.allow:.2f}", f"{grounds.bars.unsafe:.2f}"
    needed = {
        CONFIRMED: f"a risk below {high}, by other words in the place of those that it rests on",
        IN_DOUBT: f"a risk below {low}, which is allowed, or from {high} on, which is unsafe",
    }.get(grounds.rule, f"words that bring the risk to {low} or more")
    return f"What would change it: {needed}; or a person's decision, which goes before it."
