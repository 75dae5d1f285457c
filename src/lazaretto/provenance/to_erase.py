"""The items to erase with a person's data: an item or all of an agent's, and those that others made from them."""

from __future__ import annotations

from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import EventKind

HOLDING = (EventKind.SEEN, EventKind.REPORTED)
"""Events that hold an item's or a reported decision's content."""
MOST_MADE = 1_000_000
"""Items made from one item that are looked for."""


def to_erase(
    ledger: Ledger, graph: ProvenanceGraph, item: str = "", *, agent: str = "", descendants: bool = False
) -> tuple[str, ...]:
    """Ids that still hold content: an item, or all items and reported decisions of an agent; with ``descendants`` also
    those whose writers named one of these as a parent. Items that only came after these were read are not listed."""
    if bool(item) == bool(agent):
        problem = "is missing, and so is agent" if not item else "is given beside item"
        raise InputError("agent" if item else "item", problem, "Give one of them")
    if item:
        starts = [item]
    else:
        starts = [seen.id for seen in ledger.items(agent=agent, any_state=True, limit=None)][::-1]
        starts += [e.subject for e in ledger.events(kinds=HOLDING[1:]) if e.agent == agent]
        if not starts:
            raise InputError("agent", f"{agent!r} wrote nothing in namespace {ledger.namespace!r}", "Check the name")
    if item and not ledger.events_about([item], HOLDING):
        raise UnknownItem(item, ledger.namespace)
    found = dict.fromkeys(starts)
    if descendants:
        for start in starts:
            found |= dict.fromkeys(step.id for step in graph.stated(start, back=False, limit=MOST_MADE))
    full = {event.subject for event in ledger.events_about(found, HOLDING) if event.body is not None}
    return tuple(subject for subject in found if subject in full)
