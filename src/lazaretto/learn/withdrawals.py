"""Taking back a person's decision: items and block list return to their state before it.

Nothing is removed: a ``WITHDRAWN`` event per item names the events that count no longer (``ledger/reader.py``), and
the block list is put back in the same transaction. Items that cannot be put back stay, and the result names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lazaretto.errors import InputError, RepairRefused, StaleState, StoreUnavailable, UnknownItem
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.gates.engine.thresholds import SUBJECT as THRESHOLDS
from lazaretto.identity import Identity, require_not_own
from lazaretto.learn.alignment import Aligned, Alignment
from lazaretto.learn.lessons import Lessons
from lazaretto.ledger import ItemState, Ledger, changes_of, refs, with_change
from lazaretto.ledger.effects import restored_by
from lazaretto.ledger.history import states_before
from lazaretto.ledger.reader import standing_events, taken_back, withdrawn
from lazaretto.provenance import taint
from lazaretto.provenance.taint_rulings import TaintRulings, log_acts
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Draft, Event, EventKind

_TRIES = 10
_DECIDES = (EventKind.LABELLED, EventKind.RULED, EventKind.RELEASED, EventKind.SUPERSEDED)
JUDGED_BY_IT = "it was judged by this decision meanwhile; look at it again"
LISTED = 200


@dataclass(frozen=True, slots=True)
class LabelDecision:
    """A person's label of an item."""

    decision: int
    """The number of its event; ``withdraw`` takes it."""
    time: float
    item: str
    label: str
    by: str
    taken_back: bool
    copy_of: str = ""
    """The labelled original that this item is a copy of; empty for an item that a person looked at."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The effect of taking back a decision."""

    decision: int
    item: str
    label: str
    """The label that was taken back."""
    restored: tuple[str, ...]
    """Items that have their state from before the decision, the labelled item first."""
    released: tuple[str, ...] = ()
    """Items that arrived since, or whose reason for a hold is gone, and are held no longer."""
    held: tuple[str, ...] = ()
    """Items that came from it since, or that a repair had hidden, and are held now because it is held."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Items that stay as they are, each with the reason."""
    notes: tuple[str, ...] = ()
    """Other effects that stay."""


@dataclass(slots=True)
class _Plan:
    drafts: list[Draft] = field(default_factory=list)
    states: dict[str, ItemState] = field(default_factory=dict)
    """The states of the items that the plan was made for."""
    restored: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    tainted: list[Draft] = field(default_factory=list)
    """The ruling on the item itself, where an item that it came from is held by now."""


class Withdrawals:
    """Takes back decisions of one ledger. Every call blocks."""

    def __init__(self, ledger: Ledger, taints: TaintRulings, lessons: Lessons, alignment: Alignment) -> None:
        self._ledger, self._taints, self._lessons, self._alignment = ledger, taints, lessons, alignment

    def decisions(self, limit: int = LISTED) -> tuple[LabelDecision, ...]:
        """People's labels, the newest first; erased ones are left out."""
        gone = withdrawn(self._ledger)
        labels = [event for event in self._ledger.events(kinds=(EventKind.LABELLED,)) if event.body is not None]
        return tuple(_decision(event, gone) for event in reversed(labels[-limit:] if limit else []))

    def withdraw(self, decision: int, by: str, caller: Identity | None = None) -> Withdrawal:
        """Put everything back as it was before a decision, then take the decision back from copies.

        The label is taken back in one transaction; copies and consequences follow (``Alignment``). Items that cannot be
        put back stay, and the result names them.
        """
        labelled = self._label_event(decision)
        copies = self._alignment.given(labelled.subject, decision)
        if "harmful" in copies.values():  # taking it back clears the copies
            require_not_own(caller, by, self._ledger.items(ids=list(copies), any_state=True, limit=None))
        if labelled.body is None or self._ledger.state(labelled.subject).erased:
            return self._withdraw_of_erased(labelled, copies, by)
        return self._withdraw(decision, by, caller)

    def _withdraw_of_erased(self, labelled: Event, copies: Mapping[str, str], by: str) -> Withdrawal:
        """Take back a label whose item was erased; its copies are updated."""
        item, seq = labelled.subject, self._ledger.head().seq
        if not copies:
            raise RepairRefused(f"{item} and its label were erased: there is nothing to take back")
        beside = self._ledger.events(
            after=labelled.seq, subject=item, kinds=(EventKind.RULED, EventKind.RELEASED), limit=1
        )
        own = [labelled.seq, *(event.seq for event in beside if event.seq == labelled.seq + 1)]
        state, label = self._ledger.state(item), next(iter(copies.values()))
        self._refuse_later(item, own, as_left=True)
        was = {"hidden": state.hidden, "ruling": None}
        body = {"events": own, "was": was, "by": by, "decision": labelled.seq, "label": label}
        try:
            self._ledger.append([Draft(EventKind.WITHDRAWN, item, body=body)], states={item: state}, no_label_after=seq)
        except StaleState:
            raise StoreUnavailable(f"{item} changed meanwhile; nothing was recorded, try again") from None
        done = _together(Withdrawal(labelled.seq, item, label, ()), self._alignment.align([item]))
        self._lessons.catch_up()
        return done

    def _withdraw(self, decision: int, by: str, caller: Identity | None) -> Withdrawal:
        self._lessons.catch_up()  # a lesson can only be taken back once it was learnt
        for _ in range(_TRIES):
            seq = self._ledger.head().seq
            labelled = self._label_event(decision)
            plan = self._plan(labelled, by)
            if labelled.body and labelled.body["label"] == "harmful":  # taking it back clears the item
                cleared = [*plan.restored, *plan.released]
                require_not_own(caller, by, self._ledger.items(ids=cleared, any_state=True, limit=None))
            try:
                self._ledger.append([*plan.drafts, *plan.tainted], states=plan.states, no_label_after=seq)
            except StaleState:
                continue
            return self._followed(labelled, plan)
        raise StoreUnavailable(f"items that decision {decision} changed keep changing; nothing was recorded, try again")

    def _label_event(self, decision: int) -> Event:
        """The event of the label; raises where it cannot be taken back."""
        if type(decision) is not int or decision < 1:
            raise InputError("decision", f"is {decision!r}", "Give the number that 'lazaretto labels' prints")
        found = self._ledger.events(after=decision - 1, kinds=(EventKind.LABELLED,), limit=1)
        event = next((label for label in found if label.seq == decision), None)
        if event is None:
            raise UnknownItem(str(decision), self._ledger.namespace, "decision")
        item = event.subject
        if decision in taken_back(self._ledger.events(subject=item, kinds=(EventKind.WITHDRAWN,))):
            raise RepairRefused(f"decision {decision} on {item} was taken back already")
        return event

    def _plan(self, labelled: Event, by: str) -> _Plan:
        item, body = labelled.subject, labelled.body or {}
        before = states_before(self._ledger, {item: labelled.seq})[item]
        own = [labelled, *self._own(labelled)]
        now, expected = self._ledger.state(item), before
        for event in own:
            for _, name, value in changes_of(event.kind, item, event.body):
                expected = with_change(expected, name, value)
        self._refuse_later(item, [event.seq for event in own], now == expected)
        plan = _Plan(states={item: now})
        gone = [*(event.seq for event in own), *self._noted(labelled)]
        cause = {"by": by, "decision": labelled.seq, "label": body.get("label")}
        self._restore(plan, item, gone, before, cause)
        plan.tainted = self._taints.on_return(item, gone) if before.visible else []
        if body.get("label") == "harmful":
            self._restore_held(plan, labelled, before.visible and not plan.tainted, by)
        else:
            self._hold_again(plan, labelled, own[-1].seq, by)
        plan.left.update(
            {other: JUDGED_BY_IT for other in self._judged_by(item, labelled.seq) if other not in plan.restored}
        )
        plan.drafts += self._as_listed_before(plan.restored, labelled)
        return plan

    def _own(self, labelled: Event) -> list[Event]:
        """The ruling or the release that was recorded with a label, about the same item."""
        after = self._ledger.events(
            after=labelled.seq, subject=labelled.subject, kinds=(EventKind.RULED, EventKind.RELEASED), limit=1
        )
        body = labelled.body or {}
        return [
            event
            for event in after
            if event.seq == labelled.seq + 1
            and (event.body or {}).get("rule" if event.kind is EventKind.RULED else "by")
            == (f"{BY_PERSON}harmful" if event.kind is EventKind.RULED else body.get("by"))
        ]

    def _noted(self, labelled: Event) -> list[int]:
        """The note that asks to repair the items that came from the labelled one."""
        alone = {"origins": [labelled.subject]}
        notes = self._ledger.events(after=labelled.seq, subject=TENDED, kinds=(EventKind.NOTED,))
        return [event.seq for event in notes if event.body == alone][:1]

    def _refuse_later(self, item: str, own: Sequence[int], as_left: bool) -> None:
        """``RepairRefused`` where the item was decided on or changed again since."""
        decided = standing_events(self._ledger, _DECIDES, subject=item, after=own[0])
        later = [event for event in decided if event.seq not in own and not self._undone(event)]
        if later:
            how = f"{later[-1].kind.value}, event {later[-1].seq}"
            raise RepairRefused(f"{item} was decided on again since ({how}): take that back first")
        if not as_left:
            repairs = [
                event.subject
                for event in self._ledger.events(after=own[0], kinds=(EventKind.REPAIRED,))
                if any(step["item"] == item for step in ((event.body or {}).get("plan") or {}).get("steps") or ())
            ]
            by = f" by {repairs[-1]}: lazaretto repair undo {repairs[-1]}" if repairs else ""
            raise RepairRefused(f"{item} was changed since{by}; take that back first")

    def _undone(self, event: Event) -> bool:
        """Whether an event is the release of a repair that was undone since."""
        receipt = (event.body or {}).get("receipt")
        undone = self._ledger.events(subject=receipt, kinds=(EventKind.UNDONE,)) if receipt else ()
        return any(event.subject in restored_by(undoing) for undoing in undone)

    def _restore(self, plan: _Plan, item: str, gone: Sequence[int], was: ItemState, cause: Mapping[str, Any]) -> None:
        stood = {"hidden": was.hidden, "ruling": None if was.ruling is None else was.ruling.label}
        plan.drafts.append(Draft(EventKind.WITHDRAWN, item, body={"events": list(gone), "was": stood, **cause}))
        plan.restored.append(item)

    def _restore_held(self, plan: _Plan, labelled: Event, returns: bool, by: str) -> None:
        """Put back items that were held because an item was called harmful, where nothing else holds them."""
        held = self._held_since(labelled)
        if not returns:
            plan.left.update(dict.fromkeys(held, "it came from this item, which is still held"))
            return
        was = states_before(self._ledger, dict.fromkeys(held, labelled.seq)) if held else {}
        for draft in self._taints.releases_with([labelled.subject]):
            item = draft.subject
            plan.states[item] = self._ledger.state(item)
            if item in was and was[item].visible and self._last(item) in held[item]:
                cause = {"by": by, "decision": labelled.seq, taint.BECAUSE: [labelled.subject]}
                self._restore(plan, item, held[item], was[item], cause)
            else:
                plan.drafts.append(draft)
                plan.released.append(item)
        done = {*plan.restored, *plan.released}
        states = self._ledger.states([item for item in held if item not in done])
        plan.left.update({item: "something else holds it by now" for item, state in states.items() if state.held})

    def _held_since(self, labelled: Event) -> dict[str, list[int]]:
        """Items that were held because they came from a labelled item, each with the rulings."""
        found: dict[str, list[int]] = {}
        for event in standing_events(self._ledger, (EventKind.RULED,), after=labelled.seq):
            body = event.body or {}
            if body.get("runs") or not str(body.get("rule", "")).startswith(taint.FOR_DESCENT):
                continue
            causes = {
                e["data"].get("held") for v in body.get("verdicts", ()) for e in v["evidence"] if e["kind"] == "path"
            }
            if causes & {labelled.subject, *found}:
                found.setdefault(event.subject, []).append(event.seq)
        return found

    def _hold_again(self, plan: _Plan, labelled: Event, last: int, by: str) -> None:
        """Hold again items that were released with an item called benign, where nobody decided since."""
        released: dict[str, int] = {}
        for event in self._ledger.events(after=last, kinds=(EventKind.RELEASED, EventKind.UNDONE)):
            last += 1
            if event.seq != last:  # recorded with another decision
                break
            body = event.body or {}
            if event.kind is EventKind.UNDONE:
                why = f"the repair {event.subject} was taken back with the decision, and stays so: do it again"
                plan.left.update(dict.fromkeys(body.get("restored", {}), why))
            elif body.get("by") == MACHINE and labelled.subject in body.get(taint.BECAUSE, ()):
                released[event.subject] = event.seq
            else:
                break
        was = states_before(self._ledger, dict.fromkeys(released, labelled.seq)) if released else {}
        for item, seq in released.items():
            if self._last(item) != seq or not self._ledger.state(item).visible:
                plan.left[item] = "it was decided on or changed since"
                continue
            plan.states[item] = self._ledger.state(item)
            cause = {"by": by, "decision": labelled.seq, taint.BECAUSE: [labelled.subject]}
            self._restore(plan, item, [seq], was[item], cause)

    def _last(self, item: str) -> int:
        """The last event that decided about an item."""
        return max((event.seq for event in standing_events(self._ledger, _DECIDES, subject=item)), default=0)

    def _judged_by(self, item: str, after: int) -> list[str]:
        """Items whose ruling since then names this one as equal or similar."""
        found = []
        for event in standing_events(self._ledger, (EventKind.RULED,), after=after):
            verdicts = (event.body or {}).get("verdicts", ())
            named = {
                e["data"].get("item") for v in verdicts for e in v["evidence"] if e["kind"] in ("match", "precedent")
            }
            if item in named:
                found.append(event.subject)
        return found

    # the block list

    def _as_listed_before(self, restored: Sequence[str], labelled: Event) -> list[Draft]:
        """The fingerprints of these items as they were, and of others that the label's lesson took off the list."""
        drafts: list[Draft] = []
        for item in restored:
            if item != labelled.subject or not self._listed_anew(item, labelled.seq):
                drafts += self._known_before(item, labelled.seq)
        return [
            *drafts,
            *(draft for item in self._dropped(labelled) for draft in self._known_before(item, labelled.seq)),
        ]

    def _changes(self, item: str) -> list[tuple[int, refs.FingerprintChange]]:
        events = self._ledger.events(subject=refs.FINGERPRINTS_ABOUT + item, kinds=(EventKind.NOTED,))
        changes = ((event.seq, refs.change_of(event.subject, event.body)) for event in events)
        return [(seq, change) for seq, change in changes if change is not None]

    def _known_before(self, item: str, seq: int) -> list[Draft]:
        changes = self._changes(item)
        before, now = _known([c for at, c in changes if at < seq]), _known([c for _, c in changes])
        if before == now:
            return []
        labels = dict.fromkeys(before.values())
        return [
            refs.forgotten(item),
            *(
                refs.marked([key for key, known_label in before.items() if known_label == label], item, label)
                for label in labels
            ),
        ]

    def _listed_anew(self, item: str, seq: int) -> bool:
        """Whether a later decision on its like took an item's entries off the list: that stays."""
        labels = [change.label for at, change in self._changes(item) if at > seq]
        first = next((place for place, label in enumerate(labels) if label is not None), len(labels))
        return None in labels[first:]

    def _dropped(self, labelled: Event) -> list[str]:
        """Items equal to the labelled one whose entries its lesson took off the list, and nobody put back."""
        keys: Collection[tuple[str, str]] = ()
        dropped: dict[str, int] = {}
        for event in self._ledger.events(after=labelled.seq, kinds=(EventKind.NOTED,)):
            change = refs.change_of(event.subject, event.body)
            if change is not None and change.label is None:
                dropped.setdefault(change.item, event.seq)
            elif change is not None and change.item == labelled.subject:
                keys = set(change.keys)
                break
        dropped.pop(labelled.subject, None)
        found = []
        for item, seq in dropped.items() if keys else ():
            changes = self._changes(item)
            if changes[-1][0] == seq and keys & _known([c for at, c in changes if at < labelled.seq]).keys():
                found.append(item)
        return found

    # afterwards

    def _followed(self, labelled: Event, plan: _Plan) -> Withdrawal:
        """Update copies, lessons and descendants once the states are back; the result of the withdrawal."""
        aligned = self._alignment.align([labelled.subject])
        self._lessons.catch_up()
        log_acts(plan.drafts)
        self._taints.teach(plan.tainted)
        item, label = labelled.subject, str((labelled.body or {}).get("label"))
        held: tuple[str, ...] = tuple(draft.subject for draft in plan.tainted)
        if label == "harmful":
            freed = self._taints.release_without_cause([item])
            plan.released += freed
        elif self._ledger.state(item).held:
            held += self._taints.hold_what_came_from([item], plan.tainted)
        left = {
            left_item: why
            for left_item, why in plan.left.items()
            if left_item not in held and left_item not in plan.released
        }
        done = Withdrawal(
            labelled.seq,
            item,
            label,
            tuple(plan.restored),
            tuple(plan.released),
            held,
            left,
            tuple(self._notes(labelled.seq)),
        )
        return _together(done, aligned)

    def _notes(self, seq: int) -> list[str]:
        moved = list(self._ledger.events(after=seq, subject=THRESHOLDS, kinds=(EventKind.NOTED,)))
        if not moved:
            return []
        version = (moved[0].body or {}).get("version", 1)
        return [
            f"thresholds {version} were put in force since and may have counted it; they stay "
            f"(lazaretto learn thresholds --revert {int(version) - 1})"
        ]


def _decision(event: Event, gone: Collection[int]) -> LabelDecision:
    body = event.body or {}
    label, by = str(body.get("label")), str(body.get("by", ""))
    return LabelDecision(event.seq, event.time, event.subject, label, by, event.seq in gone, str(body.get(COPY_OF, "")))


def _together(done: Withdrawal, aligned: Aligned) -> Withdrawal:
    """The effect of taking back a label, with the effect on its copies."""
    held, released = (*done.held, *aligned.held), (*done.released, *aligned.released)
    left = {item: why for item, why in {**done.left, **aligned.left}.items() if item not in (*held, *released)}
    return replace(
        done,
        restored=tuple(dict.fromkeys((*done.restored, *aligned.changed))),
        released=tuple(dict.fromkeys(released)),
        held=tuple(dict.fromkeys(held)),
        left={item: why for item, why in left.items() if item not in aligned.changed},
    )


def _known(changes: Sequence[refs.FingerprintChange]) -> dict[tuple[str, str], str]:
    """The fingerprints of an item after some changes, each with its label."""
    known: dict[tuple[str, str], str] = {}
    for change in changes:
        if change.label is None:
            known.clear()
        known.update(dict.fromkeys(change.keys, change.label or ""))
    return known
