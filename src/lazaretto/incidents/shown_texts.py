"""Texts as lists, traces, drawings and reports show them: without what a gate removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lazaretto.incidents.findings import without_secrets
from lazaretto.ledger import Ledger
from lazaretto.ledger.effects import ItemState
from lazaretto.types import EventKind


def texts_without_secrets(ledger: Ledger, states: Mapping[str, ItemState]) -> dict[str, str]:
    """Words in place of the texts of items in which a gate found a secret, by id. Items that may be used are left out:
    recall hands them out whole."""
    kept = [item for item, state in states.items() if not state.visible]
    found = {}
    for event in ledger.events_about(kept, (EventKind.RULED,)) if kept else ():
        instead = without_secrets(event.body or {})
        if instead is not None:
            found[event.subject] = instead
    return found


def shown_texts(ledger: Ledger, ids: Collection[str], picture: str = "a picture") -> dict[str, str]:
    """The texts of items in any state, for people; ``picture`` stands for an item that has none."""
    if not ids:
        return {}
    states = ledger.states(ids)
    instead = texts_without_secrets(ledger, states)
    return {
        item.id: "(erased)" if states[item.id].erased else instead.get(item.id, item.text) or picture
        for item in ledger.items(ids=list(ids), any_state=True, limit=None)
    }
