"""Copies of an item that wait for a person beside it: one word settles them all.

A copy says exactly the same. It is settled with an item only where the word holds for it as it would for one that comes
later: benign clears copies from sources that are trusted as much or more, harmful condemns those that are trusted as
little or less. So nobody gains by copying an honest text, and nobody is condemned because somebody repeated it. What a
copy is held for besides what it says (what it was made from, whose record it changes, what else it contradicts) still
waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lazaretto.gates.decision import settled_by_word
from lazaretto.gates.memory.claims.consequences import contradicted_by
from lazaretto.learn.lessons import recorded_verdict
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.contents import Contents, content_of
from lazaretto.ledger.standing import standing_events
from lazaretto.ledger.tail import Tail
from lazaretto.policy import TrustPolicy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import FOR_DESCENT, tainted_still
from lazaretto.types import BY_PERSON, COPY_OF, Event, EventKind, Observation, Ruling

MOST = 100
"""Copies that are settled with one item; the others wait for the next word."""
_WORDS = (EventKind.LABELLED, EventKind.RELEASED)


class Copies:
    """Finds them in one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, trust: TrustPolicy) -> None:
        self._ledger, self._graph = ledger, graph
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
            said = self._contents.of([*self._ledger.held_items(), *self._would_be_held(item.id)])
            same = {one for one, (content, _) in said.items() if content == content_of(item)}
        found = self._ledger.items(
            ids=sorted({*same, *self._settled_before(item.id)} - {item.id}), hidden=True, limit=None
        )
        found = [one for one in found if content_of(one) == content_of(item) and self._holds_for(one, item, label)]
        states = self._ledger.states([one.id for one in found]) if found else {}
        known = contradicted_by(self._ledger, item.id) if found else set()
        settled: dict[str, ItemState] = {}
        for one in found:
            state = states[one.id]
            if state.hidden or state.erased or state.superseded_by or self._has_word(one.id, state, label):
                continue
            if label == "harmful" or self._only_for_what_it_says(one.id, known):
                settled[one.id] = state
            if len(settled) == MOST:
                break
        return settled if label == "harmful" else self._of_clean_descent(item.id, settled)

    def _of_clean_descent(self, item: str, settled: dict[str, ItemState]) -> dict[str, ItemState]:
        """Without copies that were made from something that stays held: it may be held since their ruling."""
        while True:
            fine = {item, *settled}
            tainted = {one for one in settled if tainted_still(one, fine, self._ledger, self._graph)}
            if not tainted:
                return settled
            settled = {one: state for one, state in settled.items() if one not in tainted}

    def _holds_for(self, copy: Observation, item: Observation, label: str) -> bool:
        mine, theirs = self._trust[copy.source], self._trust[item.source]
        return mine <= theirs if label == "harmful" else mine >= theirs

    def _has_word(self, copy: str, state: ItemState, label: str) -> bool:
        """Whether a copy has a word of its own, or this one with another; what was not flagged needs none."""
        told = list(standing_events(self._ledger, (*_WORDS, EventKind.RULED), subject=copy))
        decisive = (EventKind.LABELLED,) if state.held else _WORDS  # of what is held again the release was undone
        words = [event for event in told if event.kind in decisive]
        flagged = [one for one in told if one.kind is EventKind.RULED and _flags(one.body) and not _by_person(one.body)]
        if not words:
            return not flagged
        body = words[-1].body or {}
        if COPY_OF in body and flagged and flagged[-1].seq > words[-1].seq:
            return False
        return COPY_OF not in body or body.get("label", "benign") == label

    def _only_for_what_it_says(self, copy: str, known: set[str]) -> bool:
        """Whether a person's word on the same text answers everything that a copy is held for."""
        ruled = (event.body for event in standing_events(self._ledger, (EventKind.RULED,), subject=copy))
        gates = [body for body in ruled if body is not None and _flags(body) and not _by_person(body)]
        body: Mapping[str, Any] = gates[-1] if gates else {}
        against = [
            verdict
            for verdict in map(recorded_verdict, body.get("verdicts") or ())
            if verdict.ruling > Ruling.WARN and f"{verdict.gate}:{verdict.rule}" not in (body.get("settled") or ())
        ]
        return all(
            not f"{one.gate}:{one.rule}".startswith(FOR_DESCENT) and settled_by_word(one, known) for one in against
        )

    def _would_be_held(self, item: str) -> list[str]:
        """What a policy that only watched would have held; nothing where the item is not among it."""
        ruled = self._ledger.events(subject=item, kinds=(EventKind.RULED,))
        if not any((event.body or {}).get("would") for event in ruled):
            return []
        for event in self._tail.new():
            if (event.body or {}).get("would") and _flags(event.body):
                self._observed[event.subject] = None
        return list(self._observed)

    def _settled_before(self, item: str) -> set[str]:
        """What was given a word together with an item: the next word reaches it again."""
        first = item
        found: set[str] = set()
        for event in self._words_of(item):
            first = str((event.body or {}).get(COPY_OF, first))
        for event in (*self._words_of(item), *self._words_of(first)):
            body = event.body or {}
            found.update(map(str, body.get("copies") or ()))
            for repaired in self._ledger.events(subject=str(body.get("receipt", "")), kinds=(EventKind.REPAIRED,)):
                steps = ((repaired.body or {}).get("plan") or {}).get("steps") or ()
                found.update(str(step["item"]) for step in steps if COPY_OF in (step.get("detail") or {}))
        return {*found, first}

    def _words_of(self, item: str) -> list[Event]:
        return list(self._ledger.events(subject=item, kinds=_WORDS))


def _by_person(body: Mapping[str, Any] | None) -> bool:
    return str((body or {}).get("rule", "")).startswith(BY_PERSON)


def _flags(body: Mapping[str, Any] | None) -> bool:
    return body is not None and Ruling.from_label(str(body.get("would") or body["ruling"])) > Ruling.WARN
