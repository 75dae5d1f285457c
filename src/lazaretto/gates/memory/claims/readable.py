"""Conflicts in words for people: contradicts 'Brightwater is paid to DE-4410' (Ada, trust 0.9, Monday).

Rulings name items, never texts, so texts are read from the crew's store when a person looks; erased ones are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import SourceClass

_QUOTED = 120
_MOST = 4
_THIS_WEEK = 6
"""Days within which the name of the day says which one is meant."""


def in_words(
    evidence: Mapping[str, Any], ledger: Ledger, trust: Mapping[SourceClass, float], now: datetime | None = None
) -> tuple[str, ...]:
    """Recorded evidence of kind ``claim`` in words, with the texts of the items that it names; empty where it names
    none. For people who may see the items: ``ledger`` is that of their own crew."""
    if evidence.get("kind") != "claim":
        return ()
    data = evidence.get("data") or {}
    verb = {"contradicts": "contradicts", "updates": "changes"}.get(str(data.get("relation")), "")
    named = [str(item) for item in data.get("items") or () if isinstance(item, str)][:_MOST]
    return tuple(f"{verb} {quote}" for quote in quoted(named, ledger, trust, now)) if verb else ()


def quoted(
    items: Sequence[str], ledger: Ledger, trust: Mapping[SourceClass, float], now: datetime | None = None
) -> tuple[str, ...]:
    """Each item as 'its text' (agent, trust, day); an erased item, or one of another crew, is left out."""
    if not items:
        return ()
    graph, states = ProvenanceGraph(ledger), ledger.states(items)
    seen = {memory.id: memory for memory in ledger.items(ids=list(items), any_state=True, limit=None)}
    quotes = []
    for item in items:
        memory = seen.get(item)
        if memory is None or not memory.text or item not in states or states[item].erased:
            continue
        text = " ".join(memory.text.split())
        text = f"{text[: _QUOTED - 1]}…" if len(text) > _QUOTED else text
        quotes.append(
            f"'{text}' ({memory.agent}, trust {graph.trust(item, trust).value:.2g}, {_day(memory.time, now)})"
        )
    return tuple(quotes)


def _day(time: float, now: datetime | None) -> str:
    """The day of something: by its name within a week, else as a date."""
    then, today = datetime.fromtimestamp(time, UTC), now or datetime.now(UTC)
    days = (today.date() - then.date()).days
    if days == 0:
        return "today"
    return f"{then:%A}" if 0 < days <= _THIS_WEEK else f"{then:%Y-%m-%d}"
