"""Keeps copies in the state that people's decisions on their originals ask for.

When a person's decision is made, replaced or taken back, every copy that it was handed on to is updated: it gets the
last decision that counts and was handed on to it. Without any, it returns to the state that the gates left, and waits
for a person. A later ruling of gates on the copy overrules the decision. No event is removed: a ``WITHDRAWN`` event
sets aside the events that handed a decision on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lazaretto.errors import StaleState, StoreUnavailable
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.ledger import ItemState, Ledger, changes_of, with_change
from lazaretto.ledger.effects import restored_by
from lazaretto.ledger.history import states_before
from lazaretto.ledger.reader import taken_back
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import BECAUSE, FOR_DESCENT, of_clean_descent
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


# The recorded history of an item: people's decisions on it, decisions handed on to it as a copy, rulings of gates.
#
# A person's decision is a label or a release. It counts until it is taken back, its release is undone, or a person
# decides again on the same item. Events with ``copy_of`` hand it on to copies and count as long as it does, even after
# the original was erased: these events name the decision by its number.

WORD = "word"
"""Key in the body of an event that hands a decision on to a copy again: the number of that earlier decision."""
_KINDS = (EventKind.LABELLED, EventKind.RULED, EventKind.RELEASED, EventKind.WITHDRAWN)


class ItemHistory:
    """The events about one item, sorted by kind and by whether they still count."""

    def __init__(self, events: Iterable[Event], undone: Collection[str]) -> None:
        """``undone``: receipts of repairs that were undone for this item."""
        recorded = sorted(events, key=lambda event: event.seq)
        back = [event for event in recorded if event.kind is EventKind.WITHDRAWN]
        gone = taken_back(back)
        aside = taken_back(event for event in back if COPY_OF in (event.body or {}))
        stand = [
            event
            for event in recorded
            if event.kind is not EventKind.WITHDRAWN and event.seq not in gone and _receipt(event) not in undone
        ]
        labels = {event.seq for event in recorded if event.kind is EventKind.LABELLED}
        self.decisions = [event for event in stand if _is_own(event) and not _belongs_to(event, labels)]
        """People's decisions on the item itself; the last one counts. A release that belongs to a label is left out."""
        descent = [event for event in stand if _for_descent(event)]
        self.tainted = bool(descent) and descent[-1].kind is EventKind.RULED
        """Whether the item is held for an item that it came from, since it was judged."""
        gates = [event for event in stand if _by_gates(event)]
        self.ruling: Mapping[str, Any] | None = gates[-1].body if gates else None
        """The last ruling of gates on the content, or the release by a recheck."""
        self.ruled = gates[-1].seq if gates else 0
        received = [event for event in stand if event.seq > self.ruled and _is_handed_on(event)]
        self.received = received if any(map(hands_on_decision, received)) else []
        """Decisions handed on to the item as a copy since ``ruled``, with the rulings and releases beside them."""
        self._labels = [event.seq for event in recorded if event.kind is EventKind.LABELLED and _is_own(event)]
        since = self.received[0].seq if self.received else 0
        until = max((event.seq for event in descent if event.kind is EventKind.RELEASED), default=0)
        self.passed = [event.seq for event in descent if 0 < since < event.seq <= until]
        """Rulings since then for an item that it came from, and the releases that ended them."""
        handed_on = [event for event in recorded if hands_on_decision(event) and _receipt(event) not in undone]
        self.offered = [event for event in handed_on if event.seq not in gone or event.seq in aside]
        """Every decision ever handed on to the item as a copy, without those taken back from it alone."""
        self.refused = [event for event in handed_on if event.seq in gone - aside]
        """Decisions handed on to the item as a copy and taken back from it alone."""

    @property
    def flagged(self) -> bool:
        """Whether gates hold the item, or would hold it, for its content or for an item that it came from."""
        return self.tainted or flags(self.ruling)

    def counts(self, decision: int | str, since: int) -> bool:
        """Whether a decision on this item counts: a label by its number, a release by its receipt (from ``since``)."""
        if isinstance(decision, int):
            return bool(self.decisions) and self.decisions[-1].seq == decision
        return all(event.seq < since or _receipt(event) == decision for event in self.decisions)

    @property
    def newest_label(self) -> int:
        """The number of the last label of this item, taken back or not; 0: none."""
        return self._labels[-1] if self._labels else 0

    def last_label(self, before: int) -> int:
        """The number of the last label of this item before an event, taken back or not; 0: none."""
        return max((seq for seq in self._labels if seq < before), default=0)


class ItemHistories:
    """Reads the ``ItemHistory`` of many items at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of(self, items: Collection[str]) -> dict[str, ItemHistory]:
        """The history of each item."""
        events: dict[str, list[Event]] = {item: [] for item in items}
        for event in self._ledger.events_about(items, _KINDS) if items else ():
            events[event.subject].append(event)
        receipts = {name for about in events.values() for event in about if (name := _receipt(event))}
        undone = self._ledger.events_about(receipts, (EventKind.UNDONE,)) if receipts else ()
        return {
            item: ItemHistory(about, {event.subject for event in undone if item in restored_by(event)})
            for item, about in events.items()
        }


def flags(body: Mapping[str, Any] | None) -> bool:
    """Whether a recorded ruling holds its item, or would."""
    ruling = (body or {}).get("would") or (body or {}).get("ruling")
    return ruling is not None and Ruling.from_label(str(ruling)) > Ruling.WARN


def origin(event: Event) -> str:
    """The original: the item whose decision was handed on to a copy."""
    return str((event.body or {}).get(COPY_OF, ""))


def decision_of(event: Event, original: ItemHistory) -> int | str:
    """The decision that an event handed on: a label by its number, a release by its receipt.

    ``original`` is the history of the item that the person decided on.
    """
    number = (event.body or {}).get(WORD)
    return _receipt(event) or (int(number) if number is not None else original.last_label(event.seq))


def _receipt(event: Event) -> str:
    return str((event.body or {}).get("receipt", "")) if event.kind is EventKind.RELEASED else ""


def _is_own(event: Event) -> bool:
    """Whether an event is a person's decision on the item itself; assumed for an erased label."""
    body = event.body or {}
    if COPY_OF in body:
        return False
    return event.kind is EventKind.LABELLED or (event.kind is EventKind.RELEASED and body.get("by") != MACHINE)


def _belongs_to(event: Event, labels: Collection[int]) -> bool:
    """Whether an event is the release that was recorded with a label."""
    return event.kind is EventKind.RELEASED and not _receipt(event) and event.seq - 1 in labels


def _for_descent(event: Event) -> bool:
    """Whether an event held or released an item only for an item that it came from."""
    body = event.body or {}
    if event.kind is EventKind.RULED:
        return str(body.get("rule", "")).startswith(FOR_DESCENT) and not body.get("runs")
    return event.kind is EventKind.RELEASED and body.get("by") == MACHINE and BECAUSE in body


def _by_gates(event: Event) -> bool:
    body = event.body or {}
    if _for_descent(event):
        return False
    if event.kind is EventKind.RELEASED:
        return body.get("by") == MACHINE
    return event.kind is EventKind.RULED and not str(body.get("rule", "")).startswith(BY_PERSON)


def _is_handed_on(event: Event) -> bool:
    by_person = event.kind is EventKind.RULED and not _for_descent(event)
    return COPY_OF in (event.body or {}) or by_person


def hands_on_decision(event: Event) -> bool:
    """Whether an event hands a decision on to a copy; the release that belongs to a label does not."""
    return COPY_OF in (event.body or {}) and (event.kind is EventKind.LABELLED or bool(_receipt(event)))
