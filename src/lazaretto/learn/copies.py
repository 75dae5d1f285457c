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
from lazaretto.provenance.taint import FOR_DESCENT
from lazaretto.types import BY_PERSON, COPY_OF, Event, EventKind, Observation, Ruling

MOST = 1_000
"""Copies that are settled with one item; the others wait for the next word."""
_KINDS = (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED, EventKind.UNDONE, EventKind.ERASED)


class Copies:
    """What was held, or would have been, and nobody has given a word of its own. Safe to share between threads."""

    def __init__(self, ledger: Ledger, trust: TrustPolicy) -> None:
        self._ledger, self._trust, self._lock = ledger, trust.table(), threading.Lock()
        self._waiting: dict[str, str] = {}
        """Item -> the label that it was given with another, of which it is a copy; empty: none."""
        self._contents = Contents(ledger)
        self._tail = Tail(ledger, _KINDS, anew=self._waiting.clear)

    def settled_with(self, item: Observation, label: str) -> dict[str, ItemState]:
        """The copies of an item that the same word settles, each as it stands now."""
        with self._lock:
            for event in self._tail.new():
                self._follow(event)
            content = content_of(item)
            said = self._contents.of(self._waiting)
            same = [
                one
                for one, (digest, _) in said.items()
                if digest == content and one != item.id and self._waiting[one] != label
            ]
        found = self._ledger.items(ids=same, hidden=True, limit=None) if same else []
        known = contradicted_by(self._ledger, item.id) if found else set()
        states = self._ledger.states([one.id for one in found]) if found else {}
        settled = {
            one.id: states[one.id]
            for one in found
            if not (states[one.id].hidden or states[one.id].erased or states[one.id].superseded_by)
            and self._holds_for(one, item, label)
            and (label == "harmful" or self._only_for_what_it_says(one.id, known))
        }
        return dict(list(settled.items())[:MOST])

    def _holds_for(self, copy: Observation, item: Observation, label: str) -> bool:
        mine, theirs = self._trust[copy.source], self._trust[item.source]
        return mine <= theirs if label == "harmful" else mine >= theirs

    def _only_for_what_it_says(self, copy: str, known: set[str]) -> bool:
        """Whether a person's word on the same text answers everything that a copy is held for."""
        ruled = [event.body or {} for event in standing_events(self._ledger, (EventKind.RULED,), subject=copy)]
        gates = [one for one in ruled if _flags(one) and not _by_person(one)]
        body: Mapping[str, Any] = gates[-1] if gates else {}
        against = [
            verdict
            for verdict in map(recorded_verdict, body.get("verdicts") or ())
            if verdict.ruling > Ruling.WARN and f"{verdict.gate}:{verdict.rule}" not in (body.get("settled") or ())
        ]
        return all(
            not f"{one.gate}:{one.rule}".startswith(FOR_DESCENT) and settled_by_word(one, known) for one in against
        )

    def _follow(self, event: Event) -> None:
        body = event.body or {}
        if event.kind is EventKind.RULED and _by_person(body):
            return
        if event.kind is EventKind.UNDONE:  # of a release, say: what was held waits again
            held = [item for item, was in body.get("restored", {}).items() if was.get("ruling") and _flags(was)]
            self._waiting.update(dict.fromkeys(held, ""))
        elif event.kind is EventKind.RULED and body and _flags(body):
            self._waiting[event.subject] = ""
        elif COPY_OF in body:
            self._waiting[event.subject] = str(body.get("label", "benign"))
        else:  # a person's word, a release, or a ruling that holds it no longer
            self._waiting.pop(event.subject, None)


def _by_person(body: Mapping[str, object]) -> bool:
    return str(body.get("rule", "")).startswith(BY_PERSON)


def _flags(body: Mapping[str, object]) -> bool:
    return Ruling.from_label(str(body.get("would") or body["ruling"])) > Ruling.WARN
