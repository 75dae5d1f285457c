"""People's decisions on items: labels, appeals, and the choice between two contradicting items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lazaretto.errors import InputError, NotYours, StaleState, StoreUnavailable
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.gates.memory.claims.conflicts import settling
from lazaretto.identity import Identity, is_own, require_not_own
from lazaretto.learn.alignment import Alignment, condemned
from lazaretto.learn.copies import Copies
from lazaretto.learn.lessons import LABELS, Lessons
from lazaretto.ledger import ItemState, Ledger
from lazaretto.names import check_name
from lazaretto.provenance.taint_rulings import TaintRulings, Teach, log_acts
from lazaretto.repair import engine
from lazaretto.repair.taking_back import STAYS, taking_back
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
            if not (state.visible or state.erased or state.superseded_by):
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
