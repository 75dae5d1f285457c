"""What people say of items: labels, appeals, and which of two contradicting items holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazaretto.errors import InputError, StaleState, StoreUnavailable
from lazaretto.gates.memory.claims.conflicts import settling
from lazaretto.gates.recheck_queue import TENDED
from lazaretto.identity import Identity, require_not_own
from lazaretto.learn.lessons import LABELS, Lessons
from lazaretto.ledger import Ledger
from lazaretto.names import check_name
from lazaretto.provenance.taint_rulings import TaintRulings, log_acts
from lazaretto.repair.taking_back import taking_back
from lazaretto.types import BY_PERSON, Decision, Draft, Event, EventKind, Observation, Ruling, plain

_TRIES = 10
"""How often what came from an item may change while it is called fine."""


class Labels:
    """Records what people decided and what follows from it. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        taints: TaintRulings,
        lessons: Lessons,
        tell: Callable[[Observation, Ruling], None],
        *,
        observes: bool = False,
    ) -> None:
        """``tell`` tells the gates that learn what became of an item; one that only ``observes`` repairs nothing."""
        self._ledger, self._taints, self._lessons, self._tell = ledger, taints, lessons, tell
        self._observes = observes

    def label(self, item: str, label: str, by: str, caller: Identity | None = None) -> Event:
        """Record what an item truly is, as a person says: harmful is held with what came from it, benign released.

        Repairs of the rest that came from a harmful item are the work of the next look (``LateRepairs``).
        """
        if label not in LABELS:
            raise InputError("label", f"is {label!r}", f"Use {' or '.join(LABELS)}")
        self._ledger.state(check_name(item, "item", printable=True))
        return self._harmful(item, by) if LABELS[label] is Ruling.BLOCK else self._fine(item, by, caller)

    def _harmful(self, item: str, by: str) -> Event:
        decision = Decision(item, Ruling.BLOCK, 1.0, (1.0, 1.0), f"{BY_PERSON}harmful")
        said = Draft(EventKind.LABELLED, item, body={"label": "harmful", "by": by})
        ruled, tainted = Draft(EventKind.RULED, item, body=plain(decision)), self._taints.holding([item])
        drafts = [said, ruled, *tainted]
        if self._ledger.state(item).visible and not self._observes:  # it was in use: looking again repairs the rest
            drafts.append(Draft(EventKind.NOTED, TENDED, body={"origins": [item]}))
        event = self._ledger.append(drafts)[0]
        self._lessons.catch_up()
        log_acts([ruled])
        self._taints.tell(tainted)
        self._taints.hold_what_came_from([item], tainted)
        return event

    def _fine(self, item: str, by: str, caller: Identity | None) -> Event:
        """Release an item, and with it what followed from the suspicion: holds, and repairs that started from it."""
        for _ in range(_TRIES):
            state, back = self._ledger.state(item), taking_back([item], self._ledger)
            released = [
                one for one in self._taints.releases_with([item, *back.shown]) if one.subject not in back.states
            ]
            cleared = [item, *back.shown, *(draft.subject for draft in released)]
            require_not_own(caller, by, self._items(cleared))
            drafts = [*back.drafts, *released]
            if not (state.visible or state.erased or state.superseded_by):
                drafts.insert(0, Draft(EventKind.RELEASED, item, body={"by": by}))
            said = Draft(EventKind.LABELLED, item, body={"label": "benign", "by": by})
            try:
                event = self._ledger.append([said, *drafts], states={**back.states, item: state})[0]
            except StaleState:
                continue  # something changed in between: what is taken back now?
            self._lessons.catch_up()
            log_acts(drafts)
            return event
        raise StoreUnavailable(f"what came from {item} keeps changing; nothing was recorded, try again")

    def appeal(self, item: str, reason: str, by: str) -> Event:
        """Record that the ruling on an item is disputed."""
        event = self._ledger.append([Draft(EventKind.APPEALED, item, body={"by": by, "reason": reason})])[0]
        self._tell(self._ledger.item(item), Ruling.REVIEW)
        return event

    def settle(self, keep: str, over: str, by: str, caller: Identity | None = None) -> None:
        """Record that ``keep`` holds and ``over`` is replaced by it; whoever wrote one of the two does not decide."""
        ours, theirs = self._ledger.item(keep), self._ledger.item(over)
        require_not_own(caller, by, (ours, theirs))
        self._ledger.append(settling(self._ledger, ours, theirs, by))
        self._lessons.catch_up()

    def _items(self, ids: Sequence[str]) -> list[Observation]:
        return self._ledger.items(ids=ids, hidden=True, limit=None)
