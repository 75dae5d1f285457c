"""Keeps copies in the state that people's decisions on their originals ask for.

When a person's decision is made, replaced or taken back, every copy that it was handed on to is updated: it gets the
last decision that counts and was handed on to it. Without any, it returns to the state that the gates left, and waits
for a person. A later ruling of gates on the copy overrules the decision. No event is removed: a ``WITHDRAWN`` event
sets aside the events that handed a decision on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lazaretto.errors import StaleState, StoreUnavailable
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.learn.item_history import (
    WORD,
    ItemHistories,
    ItemHistory,
    decision_of,
    hands_on_decision,
    origin,
)
from lazaretto.ledger import ItemState, Ledger, changes_of, with_change
from lazaretto.ledger.history import states_before
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import of_clean_descent
from lazaretto.provenance.taint_rulings import TaintRulings, log_acts
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Decision, Draft, Event, EventKind, Ruling, plain

_TRIES = 10
CHANGED = "it was changed since by something else"
LEFT = "it is blocked by a decision that an older version did not take back from it; label it by itself"
Key = int | str
"""A person's decision: a label by its number, a release by its receipt."""


@dataclass(slots=True)
class Aligned:
    """The effect of an alignment on copies."""

    changed: list[str] = field(default_factory=list)
    """Copies whose state, or the reason for it, changed."""
    held: tuple[str, ...] = ()
    """Items that came from these copies and are held now because the copies are."""
    released: tuple[str, ...] = ()
    """Items that came from these copies and are held no longer."""
    left: dict[str, str] = field(default_factory=dict)
    """Copies that stay as they are, with the reason."""


@dataclass(slots=True)
class _Copy:
    """A copy: its state now, and the state it should have."""

    item: str
    received: list[Event]
    """Events that handed decisions on to it and still count."""
    now: ItemState
    before: ItemState
    """The state that the gates left."""
    decision: Event | None
    """The event that handed on the decision that counts; None: no decision counts."""
    key: Key = 0
    tainted: bool = False
    """Whether it is held for an item that it came from, since a decision was handed on to it."""
    passed: Sequence[int] = ()
    """Events that held it for such an item, and released it again."""

    @property
    def returns(self) -> bool:
        """Whether it is in use once it has the state it should have."""
        return self.before.visible if self.decision is None else _label(self.decision) == "benign"

    @property
    def shows(self) -> bool:
        """Whether it would come into use because no decision counts for it any more."""
        return self.decision is None and self.before.visible and not self.now.visible

    @property
    def as_expected(self) -> bool:
        """Whether its state follows from the events in ``received``, apart from holds for items that it came from."""
        expected = self.before
        for event in self.received:
            for _, name, value in changes_of(event.kind, event.subject, event.body):
                expected = with_change(expected, name, value)
        return self.now == (replace(expected, ruling=self.now.ruling) if self.tainted else expected)


class Alignment:
    """Keeps the copies of one ledger in step with people's decisions. Safe to share between threads; calls block."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, taints: TaintRulings) -> None:
        self._ledger, self._graph, self._taints = ledger, graph, taints
        self._histories, self._lock = ItemHistories(ledger), threading.RLock()
        self._read = 0
        self._copies: dict[str, dict[str, None]] = {}
        """Item -> copies that a decision on it was ever handed on to."""

    def copies(self) -> list[str]:
        """Every copy that a decision was ever handed on to."""
        with self._lock:
            self._follow()
            return list(dict.fromkeys(copy for found in self._copies.values() for copy in found))

    def given(self, item: str, decision: Key) -> dict[str, str]:
        """The copies that a decision on an item was handed on to, each with the label, even if replaced since."""
        return {copy: _label(event) for copy, event in self._handed_on(item, decision).items()}

    def copies_condemned_with(self, items: Collection[str]) -> list[str]:
        """Copies that are blocked by a decision on one of these items. Their writers may not change that decision."""
        found = [self._handed_on(item, None) for item in items]
        return [copy for by_copy in found for copy, event in by_copy.items() if _label(event) == "harmful"]

    def _handed_on(self, item: str, decision: Key | None) -> dict[str, Event]:
        """Copy -> event that handed on a decision on an item; without ``decision`` the one that counts."""
        with self._lock:
            self._follow()
            histories = self._histories.of([item, *self._copies.get(item, ())])
        found: dict[str, Event] = {}
        for copy, history in histories.items():
            for event in history.offered:
                key = decision_of(event, histories[item]) if origin(event) == item else None
                counts = decision is None and key is not None and histories[item].counts(key, event.seq)
                if key is not None and (key == decision or counts):
                    found.setdefault(copy, event)
        return found

    def align(self, items: Collection[str]) -> Aligned:
        """Update these items, and the copies that decisions on them were handed on to."""
        with self._lock:
            self._follow()
            concerned = dict.fromkeys((*items, *(copy for item in items for copy in self._copies.get(item, ()))))
            for _ in range(_TRIES):
                seq, done = self._ledger.head().seq, Aligned()
                copies = self._copies_of(list(concerned), done)
                notes = self._noted(copies)
                drafts = [draft for copy in copies for draft in _drafts(copy, notes.get(copy.item, ()))]
                if not drafts:
                    return done
                tainted = self._tainted(copies)
                try:
                    self._ledger.append(
                        [*drafts, *tainted], states={copy.item: copy.now for copy in copies}, no_label_after=seq
                    )
                except StaleState:
                    continue
                log_acts(drafts)
                self._follow()
                return self._followed(copies, tainted, done)
        raise StoreUnavailable("copies of an item keep changing; the decision on the item itself is recorded")

    def _follow(self) -> None:
        head = self._ledger.head().seq
        for event in self._ledger.events(after=self._read, kinds=(EventKind.LABELLED, EventKind.RELEASED)):
            if original := origin(event):
                self._copies.setdefault(original, {})[event.subject] = None
        self._read = max(self._read, head)

    def _copies_of(self, items: Sequence[str], done: Aligned) -> list[_Copy]:
        """The copies among some items whose state is not the one they should have."""
        states = {item: state for item, state in self._ledger.states(items).items() if not state.erased}
        histories = self._histories.of(states)
        histories = {item: h for item, h in histories.items() if (h.offered or h.received) and not h.decisions}
        names = {origin(event) for h in histories.values() for event in (*h.offered, *h.refused)}
        originals = {**self._histories.of(names - histories.keys()), **histories}
        found: dict[str, _Copy] = {}
        for item, history in histories.items():
            key, decision = _decision_that_counts(history, originals)
            last = _last_handed_on(history.received)
            if key != (0 if last is None else decision_of(last, originals[origin(last)])):
                found[item] = _Copy(
                    item, history.received, states[item], states[item], decision, key, history.tainted, history.passed
                )
        since = {item: copy.received[0].seq for item, copy in found.items() if copy.received}
        for item, before in (states_before(self._ledger, since) if since else {}).items():
            found[item].before = before
        done.left = {item: CHANGED for item, copy in found.items() if not copy.as_expected}
        done.left |= {item: LEFT for item, copy in found.items() if copy.shows and _was_left(copy.received, originals)}
        return self._without_tainted([copy for item, copy in found.items() if item not in done.left])

    def _without_tainted(self, copies: list[_Copy]) -> list[_Copy]:
        """Drop benign decisions on copies that came from an item which is held by now: such a copy waits."""
        shown = [copy.item for copy in copies if copy.decision is not None and _label(copy.decision) == "benign"]
        fine = of_clean_descent(shown, shown, self._ledger, self._graph)
        for copy in copies:
            if copy.item in shown and copy.item not in fine:
                copy.decision = None
        return [copy for copy in copies if copy.decision is not None or copy.received]

    def _noted(self, copies: Sequence[_Copy]) -> dict[str, list[int]]:
        """Notes that ask to repair items that came from these copies; they count no longer."""
        since = {copy.item: copy.received[0].seq for copy in copies if copy.received}
        found: dict[str, list[int]] = {}
        first = min(since.values(), default=0)
        for event in self._ledger.events(after=first, subject=TENDED, kinds=(EventKind.NOTED,)) if since else ():
            origins = (event.body or {}).get("origins") or ("",)
            if event.body == {"origins": origins} and event.seq > since.get(origins[0], event.seq):
                found.setdefault(origins[0], []).append(event.seq)
        return found

    def _tainted(self, copies: Sequence[_Copy]) -> list[Draft]:
        """Rulings on items that came from copies in use, and on copies that return but came from a held item."""
        held = [copy.item for copy in copies if copy.now.visible and not copy.returns]
        drafts = self._taints.holding(held)
        for copy in copies:
            if copy.returns and copy.decision is None and all(draft.subject != copy.item for draft in drafts):
                drafts += self._taints.on_return(copy.item, [event.seq for event in copy.received])
        return drafts

    def _followed(self, copies: Sequence[_Copy], tainted: Sequence[Draft], done: Aligned) -> Aligned:
        self._taints.teach(tainted)
        done.changed = [copy.item for copy in copies]
        states = self._ledger.states(done.changed)
        held = [copy.item for copy in copies if copy.now.visible and not states[copy.item].visible]
        shown = [copy.item for copy in copies if not copy.now.visible and states[copy.item].visible]
        more = self._taints.hold_what_came_from(held, tainted) if held or tainted else ()
        done.held = (*(draft.subject for draft in tainted), *more)
        done.released = self._taints.release_what_came_from(shown) if shown else ()
        return done


def _decision_that_counts(history: ItemHistory, originals: Mapping[str, ItemHistory]) -> tuple[Key, Event | None]:
    """The last decision that counts and was handed on to a copy since gates ruled on it."""
    refused = {(origin(event), decision_of(event, originals[origin(event)])) for event in history.refused}
    events: dict[tuple[str, Key], Event] = {}
    for event in history.offered:
        events.setdefault((origin(event), decision_of(event, originals[origin(event)])), event)
    for (original, key), event in sorted(events.items(), key=lambda row: -row[1].seq):
        if (original, key) not in refused and event.seq > history.ruled and originals[original].counts(key, event.seq):
            return key, event
    return 0, None


def _was_left(received: Sequence[Event], originals: Mapping[str, ItemHistory]) -> bool:
    """Whether a copy stayed blocked by a decision that was replaced before the last one was made or taken back.

    Today a replaced decision is taken back from copies at once; older versions left it. The last change is then not
    the reason why nothing blocks the copy any more, so the copy is not shown because of it.
    """
    handed_on = [event for event in received if hands_on_decision(event)]
    for event, after in itertools.zip_longest(handed_on, handed_on[1:]):
        original = originals[origin(event)]
        decision = decision_of(event, original)
        if _label(event) != "harmful" or not isinstance(decision, int):
            continue
        replaced = next((later.seq for later in original.decisions if later.seq > decision), None)
        if replaced is None or (after is not None and decision_of(after, originals[origin(after)]) == replaced):
            continue
        if (original.newest_label > replaced) if after is None else (replaced < after.seq):
            return True
    return False


def _last_handed_on(received: Sequence[Event]) -> Event | None:
    """The last of some events that handed a decision on."""
    return next((event for event in reversed(received) if hands_on_decision(event)), None)


def _label(event: Event) -> str:
    return str((event.body or {}).get("label", "benign"))


def _drafts(copy: _Copy, notes: Sequence[int]) -> list[Draft]:
    drafts, last = [], _last_handed_on(copy.received)
    if last is not None:
        ruling = copy.before.ruling
        body = {
            "events": [*(event.seq for event in copy.received), *copy.passed, *notes],
            "was": {"hidden": copy.before.hidden, "ruling": None if ruling is None else ruling.label},
            "by": MACHINE,
            "label": _label(last),
            "decision": last.seq,
            COPY_OF: origin(last),
        }
        drafts.append(Draft(EventKind.WITHDRAWN, copy.item, body=body))
    if copy.decision is not None:
        drafts += _handed_on_again(copy.item, copy.decision, copy.key, copy.before)
        if _label(copy.decision) == "harmful" and copy.now.visible:  # it was in use: a recheck repairs the rest
            drafts.append(Draft(EventKind.NOTED, TENDED, body={"origins": [copy.item]}))
    return drafts


def _handed_on_again(item: str, decision: Event, key: Key, before: ItemState) -> list[Draft]:
    body = {**(decision.body or {}), **({WORD: key} if isinstance(key, int) else {})}
    drafts = [Draft(decision.kind, item, body=body)]
    if _label(decision) == "harmful":
        drafts.append(Draft(EventKind.RULED, item, body=plain(condemned(item))))
    elif decision.kind is EventKind.LABELLED and before.held:
        drafts.append(Draft(EventKind.RELEASED, item, body={"by": body.get("by", ""), COPY_OF: origin(decision)}))
    return drafts


def condemned(item: str) -> Decision:
    """The ruling that goes with a person's label *harmful*."""
    return Decision(item, Ruling.BLOCK, 1.0, (1.0, 1.0), f"{BY_PERSON}harmful")
