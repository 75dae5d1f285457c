"""The evidence of a conflict between claims, in words and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.gates.memory.claims.comparison import differences
from lazaretto.gates.memory.claims.pairs import ComparedPair
from lazaretto.gates.memory.claims.relation import Related, Relation
from lazaretto.gates.memory.claims.update_rule import Witness
from lazaretto.types import Evidence

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
