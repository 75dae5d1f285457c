"""Copies of an item that wait for a person beside it: one word settles them all.

A copy says exactly the same. It is settled with an item only where the word holds for it as it would for one that comes
later: benign clears copies from sources that are trusted as much or more, harmful condemns those that are trusted as
little or less. So nobody gains by copying an honest text, and nobody is condemned because others repeat it. What a
copy is held for besides what it says (what it was made from, whose record it changes, what else it contradicts) still
waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lazaretto.gates.engine.decision import settled_by_word
from lazaretto.gates.memory.claims.consequences import contradicted_by
from lazaretto.learn.alignment import Alignment
from lazaretto.learn.lessons import recorded_verdict
from lazaretto.learn.spoken import Spoke, flags
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.contents import Contents, content_of
from lazaretto.ledger.tail import Tail
from lazaretto.policy import TrustPolicy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import FOR_DESCENT, of_clean_descent
from lazaretto.types import EventKind, Observation, Ruling

MOST = 1_000
"""Copies that are settled with one item; the others wait for the next word."""


class Copies:
    """Finds them in one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, trust: TrustPolicy, alignment: Alignment) -> None:
        """``alignment`` knows what was given a word before."""
        self._ledger, self._graph, self._alignment = ledger, graph, alignment
        self._spoke = Spoke(ledger)
        self._trust, self._lock = trust.table(), threading.Lock()
        self._contents = Contents(ledger)
        self._observed: dict[str, None] = {}
        """What would have been held, as far as it was read: only where one of them is given a word."""
        self._tail = Tail(ledger, (EventKind.RULED,), anew=self._observed.clear)

    def settled_with(self, item: Observation, label: str) -> dict[str, ItemState]:
        """The copies of an item that the same word settles, each as it stands now."""
        if not (item.text or item.image or item.fields is not None or item.value is not None):
            return {}  # it was erased: nobody knows what it said
        with self._lock:
            known = {*self._ledger.held_items(), *self._would_be_held(item.id), *self._alignment.copies()}
            said = self._contents.of(sorted(known))
            same = sorted(one for one, (content, _) in said.items() if content == content_of(item) and one != item.id)
        found = self._ledger.items(ids=same, hidden=True, limit=None) if same else []
        found = [one for one in found if self._holds_for(one, item, label)]
        states = self._ledger.states([one.id for one in found]) if found else {}
        told = self._spoke.of(states)
        over = contradicted_by(self._ledger, item.id) if found else set()
        settled: dict[str, ItemState] = {}
        for one, state in states.items():
            if state.hidden or state.erased or state.superseded_by or told[one].words or not told[one].flagged:
                continue
            only_said = not told[one].tainted and _only_for_what_it_says(told[one].ruling or {}, over)
            if label == "harmful" or only_said:
                settled[one] = state
            if len(settled) == MOST:
                break
        if label == "harmful":
            return settled
        clean = of_clean_descent(settled, {item.id}, self._ledger, self._graph)
        return {one: state for one, state in settled.items() if one in clean}

    def _holds_for(self, copy: Observation, item: Observation, label: str) -> bool:
        mine, theirs = self._trust[copy.source], self._trust[item.source]
        return mine <= theirs if label == "harmful" else mine >= theirs

    def _would_be_held(self, item: str) -> list[str]:
        """What a policy that only watched would have held; nothing where the item is not among it."""
        ruled = self._ledger.events(subject=item, kinds=(EventKind.RULED,))
        if not any((event.body or {}).get("would") for event in ruled):
            return []
        for event in self._tail.new():
            if (event.body or {}).get("would") and flags(event.body):
                self._observed[event.subject] = None
        return list(self._observed)


def _only_for_what_it_says(ruling: Mapping[str, Any], known: set[str]) -> bool:
    """Whether a person's word on the same text answers everything that a copy is held for."""
    against = [
        verdict
        for verdict in map(recorded_verdict, ruling.get("verdicts") or ())
        if verdict.ruling > Ruling.WARN and f"{verdict.gate}:{verdict.rule}" not in (ruling.get("settled") or ())
    ]
    return all(not f"{one.gate}:{one.rule}".startswith(FOR_DESCENT) and settled_by_word(one, known) for one in against)
