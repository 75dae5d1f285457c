"""What people say of items: labels, appeals, and which of two contradicting items holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazaretto.errors import InputError
from lazaretto.gates.memory.claims.conflicts import settling
from lazaretto.identity import Identity, require_not_own
from lazaretto.learn.lessons import LABELS, Lessons
from lazaretto.ledger import Ledger
from lazaretto.names import check_name
from lazaretto.provenance.taint_rulings import TaintRulings
from lazaretto.types import BY_PERSON, Decision, Draft, Event, EventKind, Observation, Ruling, plain


class Labels:
    """Records what people decided and what follows from it. Every call blocks."""

    def __init__(
        self, ledger: Ledger, taints: TaintRulings, lessons: Lessons, tell: Callable[[Observation, Ruling], None]
    ) -> None:
        """``tell`` tells the gates that learn what became of an item."""
        self._ledger, self._taints, self._lessons, self._tell = ledger, taints, lessons, tell

    def label(self, item: str, label: str, by: str, caller: Identity | None = None) -> Event:
        """Record what an item truly is, as a person says: harmful is held with what came from it, benign released."""
        if label not in LABELS:
            raise InputError("label", f"is {label!r}", f"Use {' or '.join(LABELS)}")
        ruling, state = LABELS[label], self._ledger.state(check_name(item, "item", printable=True))
        freed = self._taints.freeing([item]) if ruling is Ruling.ALLOW else []
        if ruling is Ruling.ALLOW:
            require_not_own(caller, by, self._items([item, *(draft.subject for draft in freed)]))
        drafts = [Draft(EventKind.LABELLED, item, body={"label": label, "by": by})]
        tainted: list[Draft] = []
        if ruling is Ruling.BLOCK:
            decision = Decision(item, ruling, 1.0, (1.0, 1.0), f"{BY_PERSON}harmful")
            drafts.append(Draft(EventKind.RULED, item, body=plain(decision)))
            tainted = self._taints.holding([item])
        elif not (state.visible or state.erased or state.superseded_by):
            drafts.append(Draft(EventKind.RELEASED, item, body={"by": by}))
            drafts += freed
        event = self._ledger.append([*drafts, *tainted])[0]
        self._lessons.catch_up()
        self._taints.tell(tainted)
        self._taints.hold_what_came_from([item], tainted)
        return event

    def appeal(self, item: str, reason: str, by: str) -> Event:
        """Record that somebody disputes the ruling on an item."""
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
