"""Copies of an item that wait for a person: one label settles all of them.

A copy has exactly the same content. A label settles it under the same condition as an item that arrives later: *benign*
releases copies from sources that are trusted as much or more, *harmful* blocks copies from sources that are trusted as
little or less. So nobody gains by copying an honest text, and nobody is blocked because others repeat it. A copy that
is held for more than its content (an item that it came from, the owner of a record it changes, another contradiction)
still waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lazaretto.gates.engine.decision import settled_by_word
from lazaretto.gates.memory.claims.consequences import contradicted_by
from lazaretto.learn.alignment import Alignment
from lazaretto.learn.item_history import ItemHistories, flags
from lazaretto.learn.lessons import recorded_verdict
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.contents import Contents, content_of
from lazaretto.ledger.tail import Tail
from lazaretto.policy import TrustPolicy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import FOR_DESCENT, of_clean_descent
from lazaretto.types import EventKind, Observation, Ruling

MOST = 1_000
"""Copies that are settled with one item; the others wait for the next label."""


class Copies:
    """Finds the copies in one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, trust: TrustPolicy, alignment: Alignment) -> None:
        """``alignment`` knows the copies that a decision was handed on to before."""
        self._ledger, self._graph, self._alignment = ledger, graph, alignment
        self._histories = ItemHistories(ledger)
        self._trust, self._lock = trust.table(), threading.Lock()
        self._contents = Contents(ledger)
        self._observed: dict[str, None] = {}
        """Items that would have been held; read only when one of them is labelled."""
        self._tail = Tail(ledger, (EventKind.RULED,), anew=self._observed.clear)

    def settled_with(self, item: Observation, label: str) -> dict[str, ItemState]:
        """The copies of an item that the same label settles, each with its state now."""
        if not (item.text or item.image or item.fields is not None or item.value is not None):
            return {}  # it was erased: its content is unknown
        with self._lock:
            known = {*self._ledger.held_items(), *self._would_be_held(item.id), *self._alignment.copies()}
            contents = self._contents.of(sorted(known))
            same = sorted(
                name for name, (content, _) in contents.items() if content == content_of(item) and name != item.id
            )
        found = self._ledger.items(ids=same, any_state=True, limit=None) if same else []
        found = [copy for copy in found if self._holds_for(copy, item, label)]
        states = self._ledger.states([copy.id for copy in found]) if found else {}
        histories = self._histories.of(states)
        over = contradicted_by(self._ledger, item.id) if found else set()
        settled: dict[str, ItemState] = {}
        for copy, state in states.items():
            history = histories[copy]
            if state.hidden or state.erased or state.superseded_by or history.decisions or not history.flagged:
                continue
            content_only = not history.tainted and _held_for_content_only(history.ruling or {}, over)
            if label == "harmful" or content_only:
                settled[copy] = state
            if len(settled) == MOST:
                break
        if label == "harmful":
            return settled
        clean = of_clean_descent(settled, {item.id}, self._ledger, self._graph)
        return {copy: state for copy, state in settled.items() if copy in clean}

    def _holds_for(self, copy: Observation, item: Observation, label: str) -> bool:
        mine, theirs = self._trust[copy.source], self._trust[item.source]
        return mine <= theirs if label == "harmful" else mine >= theirs

    def _would_be_held(self, item: str) -> list[str]:
        """Items that a policy in observe mode would have held; empty where the item itself is not one of them."""
        ruled = self._ledger.events(subject=item, kinds=(EventKind.RULED,))
        if not any((event.body or {}).get("would") for event in ruled):
            return []
        for event in self._tail.new():
            if (event.body or {}).get("would") and flags(event.body):
                self._observed[event.subject] = None
        return list(self._observed)


def _held_for_content_only(ruling: Mapping[str, Any], known: set[str]) -> bool:
    """Whether a person's label on the same content settles every verdict that holds a copy."""
    against = [
        verdict
        for verdict in map(recorded_verdict, ruling.get("verdicts") or ())
        if verdict.ruling > Ruling.WARN and f"{verdict.gate}:{verdict.rule}" not in (ruling.get("settled") or ())
    ]
    return all(not f"{v.gate}:{v.rule}".startswith(FOR_DESCENT) and settled_by_word(v, known) for v in against)
