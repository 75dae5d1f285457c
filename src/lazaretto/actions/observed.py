"""Answers of the last gate so far, or those it would have given in observe mode: by class and tool."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lazaretto.ledger import Ledger
from lazaretto.types import EventKind


@dataclass(frozen=True, slots=True)
class Observed:
    """The calls of one tool."""

    action: str
    tool: str
    allow: int
    ask: int
    block: int
    observed: int
    """Number of these calls that were only observed: none of them was stopped."""
    why: str
    """The newest reason for not simply allowing one; empty where all were allowed."""

    @property
    def calls(self) -> int:
        """All of them."""
        return self.allow + self.ask + self.block


def observed(ledger: Ledger, since: float = 0.0) -> tuple[Observed, ...]:
    """The calls since a moment, those that were stopped most often first. Calls that read are never asked about, and
    are left out."""
    counts, only, why = dict[tuple[str, str], Counter[str]](), Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for event in ledger.events(kinds=(EventKind.REPORTED,)):
        action = (event.body or {}).get("action")
        if not isinstance(action, dict) or event.time < since:
            continue
        key = (str(action.get("class", "")), str(action.get("tool", "")))
        would = action.get("would")
        answer = str(would or action.get("ruling"))
        counts.setdefault(key, Counter())[answer] += 1
        only[key] += would is not None
        reasons = action.get("why") or action.get("reasons") or ()
        if answer != "allow" and reasons:
            why[key] = str(reasons[0])
    found = [
        Observed(key[0], key[1], count["allow"], count["ask"], count["block"], only[key], why.get(key, ""))
        for key, count in counts.items()
    ]
    return tuple(sorted(found, key=lambda row: (-row.block - row.ask, -row.allow, row.action, row.tool)))
