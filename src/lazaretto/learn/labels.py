"""People's decisions on items: labels, which settle an item's copies too, appeals, and choices between two items."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lazaretto.errors import InputError, NotYours, StaleState, StoreUnavailable
from lazaretto.gates.engine.decision import settled_by_word
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.gates.memory.claims.conflicts import contradicted_by, settling
from lazaretto.identity import Identity, is_own, require_not_own
from lazaretto.learn.alignment import Alignment, ItemHistories, condemned, flags
from lazaretto.learn.lessons import LABELS, Lessons, recorded_verdict
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.contents import Contents, content_of
from lazaretto.ledger.reader import Tail
from lazaretto.names import check_name
from lazaretto.policy import TrustPolicy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import FOR_DESCENT, of_clean_descent
from lazaretto.provenance.taint_rulings import TaintRulings, Teach, log_acts
from lazaretto.repair import engine
from lazaretto.repair.engine import STAYS, taking_back
from lazaretto.types import COPY_OF, Draft, Event, EventKind, Observation, Ruling, plain

_TRIES = 10
"""How often descendants of an item may change while it is called benign."""


class Labels:
    """Records people's decisions and their consequences. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        taints: TaintRulings,
        lessons: Lessons,
        teach: Teach,
        copies: Copies,
        alignment: Alignment,
        *,
        observes: bool = False,
        undone: Callable[[Sequence[str]], None] = lambda _receipts: None,
    ) -> None:
        """``teach`` passes the ruling on an item to the gates that learn; with ``observes`` no repair is asked for;
        ``undone`` gets the receipts of repairs that a label undoes."""
        self._undone = undone
        self._copies, self._alignment = copies, alignment
        self._ledger, self._taints, self._lessons, self._teach = ledger, taints, lessons, teach
        self._observes = observes

    def label(self, item: str, label: str, by: str, caller: Identity | None = None) -> Event:
        """Record a person's label: a harmful item is held with the items that came from it, a benign item is released.

        Copies of it that wait for a person get the same label (``Copies``); the event names them.
        The next recheck repairs the rest that came from a harmful item (``LateRepairs``).
        """
        if label not in LABELS:
            raise InputError("label", f"is {label!r}", f"Use {' or '.join(LABELS)}")
        seen = self._ledger.state(check_name(item, "item", printable=True))
        if LABELS[label] is Ruling.BLOCK:
            return self._harmful(item, by, caller)
        try:
            return self._fine(item, by, caller, with_copies=not seen.erased)
        except NotYours:  # the caller wrote the item, or an item that came from a copy
            return self._fine(item, by, caller, with_copies=False)

    def _refuse_own(self, item: str, by: str, caller: Identity | None) -> None:
        """``NotYours`` where the label of an item blocked a copy that the caller wrote."""
        require_not_own(caller, by, self._items(self._alignment.copies_condemned_with([item])))

    def _harmful(self, item: str, by: str, caller: Identity | None) -> Event:
        for _ in range(_TRIES):
            seq = self._ledger.head().seq
            self._refuse_own(item, by, caller)
            copies = self._copies_of(item, "harmful")
            states = {item: self._ledger.state(item), **copies}
            ruled = [Draft(EventKind.RULED, labelled_id, body=plain(condemned(labelled_id))) for labelled_id in states]
            labelled, tainted = _label_drafts(item, "harmful", by, copies), self._taints.holding(list(states))
            drafts = [draft for pair in zip(labelled, ruled, strict=True) for draft in pair] + tainted
            if not self._observes:  # items that were in use: a recheck repairs the rest
                used = [labelled_id for labelled_id, state in states.items() if state.visible]
                drafts += [Draft(EventKind.NOTED, TENDED, body={"origins": [labelled_id]}) for labelled_id in used]
            try:
                event = self._ledger.append(drafts, states=states, no_label_after=seq)[0]
            except StaleState:
                continue  # another person decided in between
            self._lessons.catch_up()
            log_acts(ruled)
            self._taints.teach(tainted)
            self._taints.hold_what_came_from(list(states), tainted)
            return event
        raise StoreUnavailable(f"copies of {item} keep changing; nothing was recorded, try again")

    def _fine(self, item: str, by: str, caller: Identity | None, *, with_copies: bool) -> Event:
        """Release an item, and take back the holds and repairs that started from it."""
        for _ in range(_TRIES):
            seq = self._ledger.head().seq
            self._refuse_own(item, by, caller)
            state, back = self._ledger.state(item), taking_back([item], self._ledger, by=by)
            copies = self._copies_of(item, "benign", without=back.states) if with_copies else {}
            own = {copy.id for copy in self._items(list(copies)) if is_own(caller, by, copy)} if copies else set()
            copies = {copy: stands for copy, stands in copies.items() if copy not in own}
            released = [
                draft
                for draft in self._taints.releases_with([item, *copies, *back.shown])
                if draft.subject not in back.states and draft.subject not in copies
            ]
            cleared = [item, *copies, *back.shown, *(draft.subject for draft in released)]
            require_not_own(caller, by, self._items(cleared))
            labelled, *on_copies = _label_drafts(item, "benign", by, copies)
            drafts = [labelled, *back.drafts, *released]
            if state.held if state.erased else not (state.visible or state.superseded_by):
                drafts.insert(1, Draft(EventKind.RELEASED, item, body={"by": by}))
            for draft in on_copies:
                drafts.append(draft)
                if copies[draft.subject].held:
                    drafts.append(Draft(EventKind.RELEASED, draft.subject, body={"by": by, COPY_OF: item}))
            try:
                states = {**back.states, **copies, item: state}
                event = self._ledger.append(drafts, states=states, no_label_after=seq)[0]
            except StaleState:
                continue  # an item changed in between: work out again which repairs are taken back
            self._lessons.catch_up()
            log_acts(drafts)
            self._taints.hold_returned(back.shown, [item])
            self._undone(back.receipts)
            return event
        raise StoreUnavailable(f"items that came from {item} keep changing; nothing was recorded, try again")

    def appeal(self, item: str, reason: str, by: str) -> Event:
        """Record that the ruling on an item is disputed."""
        event = self._ledger.append([Draft(EventKind.APPEALED, item, body={"by": by, "reason": reason})])[0]
        self._teach(self._ledger.item(item), Ruling.REVIEW, ())
        return event

    def settle(self, keep: str, over: str, by: str, caller: Identity | None = None) -> None:
        """Record that ``keep`` holds and ``over`` is replaced by it; the writer of either item may not decide."""
        ours, theirs = self._ledger.item(keep), self._ledger.item(over)
        for _ in range(_TRIES):
            seq = self._ledger.head().seq
            require_not_own(caller, by, (ours, theirs))
            self._refuse_own(keep, by, caller)
            states = self._ledger.states([keep, over])
            try:
                drafts = settling(self._ledger, ours, theirs, by)
                self._ledger.append(drafts, states=states, no_label_after=seq)
            except StaleState:
                continue  # one of them changed in between
            self._lessons.catch_up()
            self._alignment.align([keep, over])
            return
        raise StoreUnavailable(f"{keep} and {over} keep changing; nothing was recorded, try again")

    def _copies_of(self, item: str, label: str, without: Collection[str] = ()) -> dict[str, ItemState]:
        """The copies that get the same label, without origins of repairs: such a repair has to be undone first."""
        found = self._copies.settled_with(self._ledger.item(item), label)
        receipts = engine.receipts(self._ledger) if found else ()
        origins = {
            receipt.plan.origin for receipt in receipts if not receipt.restored and receipt.plan.repair not in STAYS
        }
        return {copy: state for copy, state in found.items() if copy not in without and copy not in origins}

    def _items(self, ids: Sequence[str]) -> list[Observation]:
        return self._ledger.items(ids=ids, any_state=True, limit=None)


def _label_drafts(item: str, label: str, by: str, copies: Collection[str]) -> list[Draft]:
    """The events of a label: on the item, then on its copies."""
    body = {"label": label, "by": by, **({"copies": list(copies)} if copies else {})}
    on_copies = [Draft(EventKind.LABELLED, copy, body={"label": label, "by": by, COPY_OF: item}) for copy in copies]
    return [Draft(EventKind.LABELLED, item, body=body), *on_copies]


# Copies of an item that wait for a person: one label settles all of them.
#
# A copy has exactly the same content. A label settles it under the same condition as an item that arrives later:
# *benign* releases copies from sources that are trusted as much or more, *harmful* blocks copies from sources that are
# trusted as little or less. So nobody gains by copying an honest text, and nobody is blocked because others repeat it.
# A copy that is held for more than its content (an item that it came from, the owner of a record it changes, another
# contradiction) still waits.

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
