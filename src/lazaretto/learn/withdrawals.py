"""Taking back what a person decided: items and block list are as before the decision.

Nothing is removed: a ``WITHDRAWN`` event per item names the events that count no longer (``ledger/standing.py``), and
the block list is put back in the same transaction. What cannot be put back is left and named.
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
from lazaretto.ledger import ItemState, Ledger, changes_of, fingerprints, with_change
from lazaretto.ledger.history import states_before
from lazaretto.ledger.standing import standing_events, taken_back, withdrawn
from lazaretto.provenance import taint
from lazaretto.provenance.taint_rulings import TaintRulings, log_acts
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Draft, Event, EventKind

_TRIES = 10
_DECIDES = (EventKind.LABELLED, EventKind.RULED, EventKind.RELEASED, EventKind.SUPERSEDED)
JUDGED_BY_IT = "it was judged by this decision meanwhile; look at it again"
LISTED = 200


@dataclass(frozen=True, slots=True)
class LabelDecision:
    """A person's word on an item."""

    decision: int
    """The number of its event: by this it is taken back."""
    time: float
    item: str
    label: str
    by: str
    taken_back: bool
    copy_of: str = ""
    """The item with which it was settled, of which it is a copy; empty for an item that a person looked at."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What taking back a decision did, and what it left."""

    decision: int
    item: str
    label: str
    """What had been said."""
    restored: tuple[str, ...]
    """Items that stand as before the decision, the one it was about first."""
    released: tuple[str, ...] = ()
    """Items that came since, or whose cause came back with this one, and are held no longer."""
    held: tuple[str, ...] = ()
    """Items that were made from it since, or that a repair had hidden, and are held now because it is."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Items that stay as they are, each with the reason."""
    notes: tuple[str, ...] = ()
    """What else stays."""


@dataclass(slots=True)
class _Plan:
    drafts: list[Draft] = field(default_factory=list)
    states: dict[str, ItemState] = field(default_factory=dict)
    """How the items stand for which it was made."""
    restored: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    tainted: list[Draft] = field(default_factory=list)
    """The ruling on the item itself, where something that it was made from is held by now."""


class Withdrawals:
    """Takes back decisions of one ledger. Every call blocks."""

    def __init__(self, ledger: Ledger, taints: TaintRulings, lessons: Lessons, alignment: Alignment) -> None:
        self._ledger, self._taints, self._lessons, self._alignment = ledger, taints, lessons, alignment

    def decisions(self, limit: int = LISTED) -> tuple[LabelDecision, ...]:
        """What people decided, the newest first; what was erased is left out."""
        gone = withdrawn(self._ledger)
        told = [event for event in self._ledger.events(kinds=(EventKind.LABELLED,)) if event.body is not None]
        return tuple(_decision(event, gone) for event in reversed(told[-limit:] if limit else []))

    def withdraw(self, decision: int, by: str, caller: Identity | None = None) -> Withdrawal:
        """Put everything back as it was before a decision; then what was said of copies together with it.

        The word is taken back in one transaction; copies and what follows come after (``Alignment``). What cannot be
        put back is left and named.
        """
        said = self._said(decision)
        copies = self._alignment.given(said.subject, decision)
        if "harmful" in copies.values():  # whoever takes that back clears
            require_not_own(caller, by, self._ledger.items(ids=list(copies), hidden=True, limit=None))
        if said.body is None or self._ledger.state(said.subject).erased:
            return self._withdraw_of_erased(said, copies, by)
        return self._withdraw(decision, by, caller)

    def _withdraw_of_erased(self, said: Event, copies: Mapping[str, str], by: str) -> Withdrawal:
        """Take back a word whose item was erased: its copies are told anew."""
        item, seq = said.subject, self._ledger.head().seq
        if not copies:
            raise RepairRefused(f"{item} was erased, and what was said of it: there is nothing to go back to")
        beside = self._ledger.events(after=said.seq, subject=item, kinds=(EventKind.RULED, EventKind.RELEASED), limit=1)
        own = [said.seq, *(event.seq for event in beside if event.seq == said.seq + 1)]
        state, label = self._ledger.state(item), next(iter(copies.values()))
        self._refuse_later(item, own, as_left=True)
        was = {"hidden": state.hidden, "ruling": None}
        body = {"events": own, "was": was, "by": by, "decision": said.seq, "label": label}
        try:
            self._ledger.append([Draft(EventKind.WITHDRAWN, item, body=body)], states={item: state}, no_label_after=seq)
        except StaleState:
            raise StoreUnavailable(f"{item} changed meanwhile; nothing was recorded, try again") from None
        done = _together(Withdrawal(said.seq, item, label, ()), self._alignment.align([item]))
        self._lessons.catch_up()
        return done

    def _withdraw(self, decision: int, by: str, caller: Identity | None) -> Withdrawal:
        self._lessons.catch_up()  # what was learnt can only be taken back once it was learnt
        for _ in range(_TRIES):
            seq = self._ledger.head().seq
            said = self._said(decision)
            plan = self._plan(said, by)
            if said.body and said.body["label"] == "harmful":  # whoever takes that back clears
                cleared = [*plan.restored, *plan.released]
                require_not_own(caller, by, self._ledger.items(ids=cleared, hidden=True, limit=None))
            try:
                self._ledger.append([*plan.drafts, *plan.tainted], states=plan.states, no_label_after=seq)
            except StaleState:
                continue
            return self._followed(said, plan)
        raise StoreUnavailable(f"what came from decision {decision} keeps changing; nothing was recorded, try again")

    def _said(self, decision: int) -> Event:
        """The label that is to be taken back, if it can be."""
        if type(decision) is not int or decision < 1:
            raise InputError("decision", f"is {decision!r}", "Give the number that 'lazaretto labels' prints")
        found = self._ledger.events(after=decision - 1, kinds=(EventKind.LABELLED,), limit=1)
        event = next((one for one in found if one.seq == decision), None)
        if event is None:
            raise UnknownItem(str(decision), self._ledger.namespace, "decision")
        item = event.subject
        if decision in taken_back(self._ledger.events(subject=item, kinds=(EventKind.WITHDRAWN,))):
            raise RepairRefused(f"decision {decision} on {item} was taken back already")
        return event

    def _plan(self, said: Event, by: str) -> _Plan:
        item, body = said.subject, said.body or {}
        before = states_before(self._ledger, {item: said.seq})[item]
        own = [said, *self._own(said)]
        now, expected = self._ledger.state(item), before
        for event in own:
            for _, name, value in changes_of(event.kind, item, event.body):
                expected = with_change(expected, name, value)
        self._refuse_later(item, [event.seq for event in own], now == expected)
        plan = _Plan(states={item: now})
        gone = [*(event.seq for event in own), *self._noted(said)]
        told = {"by": by, "decision": said.seq, "label": body.get("label")}
        self._restore(plan, item, gone, before, told)
        plan.tainted = self._taints.on_return(item, gone) if before.visible else []
        if body.get("label") == "harmful":
            self._what_was_held(plan, said, before.visible and not plan.tainted, by)
        else:
            self._what_was_released(plan, said, own[-1].seq, by)
        plan.left.update({one: JUDGED_BY_IT for one in self._judged_by(item, said.seq) if one not in plan.restored})
        plan.drafts += self._as_listed_before(plan.restored, said)
        return plan

    def _own(self, said: Event) -> list[Event]:
        """The ruling or the release that was recorded with a label, about the same item."""
        after = self._ledger.events(
            after=said.seq, subject=said.subject, kinds=(EventKind.RULED, EventKind.RELEASED), limit=1
        )
        body = said.body or {}
        return [
            event
            for event in after
            if event.seq == said.seq + 1
            and (event.body or {}).get("rule" if event.kind is EventKind.RULED else "by")
            == (f"{BY_PERSON}harmful" if event.kind is EventKind.RULED else body.get("by"))
        ]

    def _noted(self, said: Event) -> list[int]:
        """The note that what came from it is to be repaired."""
        alone = {"origins": [said.subject]}
        notes = self._ledger.events(after=said.seq, subject=TENDED, kinds=(EventKind.NOTED,))
        return [event.seq for event in notes if event.body == alone][:1]

    def _refuse_later(self, item: str, own: Sequence[int], as_left: bool) -> None:
        """``RepairRefused`` where something else was decided about the item since."""
        told = standing_events(self._ledger, _DECIDES, subject=item, after=own[0])
        later = [event for event in told if event.seq not in own and not self._undone(event)]
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
        undone = self._ledger.events(subject=receipt, kinds=(EventKind.UNDONE,), limit=1) if receipt else ()
        return bool(list(undone))

    def _restore(self, plan: _Plan, item: str, gone: Sequence[int], was: ItemState, told: Mapping[str, Any]) -> None:
        stood = {"hidden": was.hidden, "ruling": None if was.ruling is None else was.ruling.label}
        plan.drafts.append(Draft(EventKind.WITHDRAWN, item, body={"events": list(gone), "was": stood, **told}))
        plan.restored.append(item)

    def _what_was_held(self, plan: _Plan, said: Event, returns: bool, by: str) -> None:
        """What was held because an item was called harmful: as before, where nothing else holds it."""
        held = self._held_since(said)
        if not returns:
            plan.left.update(dict.fromkeys(held, "it was made from it, which is held still"))
            return
        was = states_before(self._ledger, dict.fromkeys(held, said.seq)) if held else {}
        for draft in self._taints.releases_with([said.subject]):
            item = draft.subject
            plan.states[item] = self._ledger.state(item)
            if item in was and was[item].visible and self._last(item) in held[item]:
                told = {"by": by, "decision": said.seq, taint.BECAUSE: [said.subject]}
                self._restore(plan, item, held[item], was[item], told)
            else:
                plan.drafts.append(draft)
                plan.released.append(item)
        done = {*plan.restored, *plan.released}
        states = self._ledger.states([item for item in held if item not in done])
        plan.left.update({item: "something else holds it by now" for item, state in states.items() if state.held})

    def _held_since(self, said: Event) -> dict[str, list[int]]:
        """Items that were held for what they were made from, back to a labelled item; each with the rulings."""
        found: dict[str, list[int]] = {}
        for event in standing_events(self._ledger, (EventKind.RULED,), after=said.seq):
            body = event.body or {}
            if body.get("runs") or not str(body.get("rule", "")).startswith(taint.FOR_DESCENT):
                continue
            causes = {
                e["data"].get("held") for v in body.get("verdicts", ()) for e in v["evidence"] if e["kind"] == "path"
            }
            if causes & {said.subject, *found}:
                found.setdefault(event.subject, []).append(event.seq)
        return found

    def _what_was_released(self, plan: _Plan, said: Event, last: int, by: str) -> None:
        """What was released with an item that was called benign: held again, where nobody decided since."""
        released: dict[str, int] = {}
        for event in self._ledger.events(after=last, kinds=(EventKind.RELEASED, EventKind.UNDONE)):
            last += 1
            if event.seq != last:  # recorded with something else
                break
            body = event.body or {}
            if event.kind is EventKind.UNDONE:
                why = f"the repair {event.subject} was taken back with the decision, and stays so: do it again"
                plan.left.update(dict.fromkeys(body.get("restored", {}), why))
            elif body.get("by") == MACHINE and said.subject in body.get(taint.BECAUSE, ()):
                released[event.subject] = event.seq
            else:
                break
        was = states_before(self._ledger, dict.fromkeys(released, said.seq)) if released else {}
        for item, seq in released.items():
            if self._last(item) != seq or not self._ledger.state(item).visible:
                plan.left[item] = "it was decided on or changed since"
                continue
            plan.states[item] = self._ledger.state(item)
            told = {"by": by, "decision": said.seq, taint.BECAUSE: [said.subject]}
            self._restore(plan, item, [seq], was[item], told)

    def _last(self, item: str) -> int:
        """The last event that decided about an item."""
        return max((event.seq for event in standing_events(self._ledger, _DECIDES, subject=item)), default=0)

    def _judged_by(self, item: str, after: int) -> list[str]:
        """Items whose ruling since then names this one as what they equal or resemble."""
        found = []
        for event in standing_events(self._ledger, (EventKind.RULED,), after=after):
            verdicts = (event.body or {}).get("verdicts", ())
            named = {
                e["data"].get("item") for v in verdicts for e in v["evidence"] if e["kind"] in ("match", "precedent")
            }
            if item in named:
                found.append(event.subject)
        return found

    # what was learnt

    def _as_listed_before(self, restored: Sequence[str], said: Event) -> list[Draft]:
        """The fingerprints of these items as they were, and of others that the label's lesson took off the list."""
        drafts: list[Draft] = []
        for item in restored:
            if item != said.subject or not self._listed_anew(item, said.seq):
                drafts += self._known_before(item, said.seq)
        return [*drafts, *(draft for item in self._dropped(said) for draft in self._known_before(item, said.seq))]

    def _changes(self, item: str) -> list[tuple[int, fingerprints.FingerprintChange]]:
        events = self._ledger.events(subject=fingerprints.ABOUT + item, kinds=(EventKind.NOTED,))
        told = ((event.seq, fingerprints.change_of(event.subject, event.body)) for event in events)
        return [(seq, change) for seq, change in told if change is not None]

    def _known_before(self, item: str, seq: int) -> list[Draft]:
        changes = self._changes(item)
        before, now = _known([c for at, c in changes if at < seq]), _known([c for _, c in changes])
        if before == now:
            return []
        labels = dict.fromkeys(before.values())
        return [
            fingerprints.forgotten(item),
            *(fingerprints.marked([key for key, word in before.items() if word == one], item, one) for one in labels),
        ]

    def _listed_anew(self, item: str, seq: int) -> bool:
        """Whether a later decision on its like took an item's entries off the list: that stays."""
        labels = [change.label for at, change in self._changes(item) if at > seq]
        first = next((place for place, label in enumerate(labels) if label is not None), len(labels))
        return None in labels[first:]

    def _dropped(self, said: Event) -> list[str]:
        """Items equal to the labelled one whose entries its lesson took off the list, and nobody put back."""
        keys: Collection[tuple[str, str]] = ()
        dropped: dict[str, int] = {}
        for event in self._ledger.events(after=said.seq, kinds=(EventKind.NOTED,)):
            change = fingerprints.change_of(event.subject, event.body)
            if change is not None and change.label is None:
                dropped.setdefault(change.item, event.seq)
            elif change is not None and change.item == said.subject:
                keys = set(change.keys)
                break
        dropped.pop(said.subject, None)
        found = []
        for item, seq in dropped.items() if keys else ():
            changes = self._changes(item)
            if changes[-1][0] == seq and keys & _known([c for at, c in changes if at < said.seq]).keys():
                found.append(item)
        return found

    # afterwards

    def _followed(self, said: Event, plan: _Plan) -> Withdrawal:
        """What follows once everything is as it was: what is held or released because of it by now."""
        aligned = self._alignment.align([said.subject])
        self._lessons.catch_up()
        log_acts(plan.drafts)
        self._taints.tell(plan.tainted)
        item, label = said.subject, str((said.body or {}).get("label"))
        held: tuple[str, ...] = tuple(draft.subject for draft in plan.tainted)
        if label == "harmful":
            freed = self._taints.without_cause([item])
            plan.released += freed
        elif self._ledger.state(item).held:
            held += self._taints.hold_what_came_from([item], plan.tainted)
        left = {one: why for one, why in plan.left.items() if one not in held and one not in plan.released}
        done = Withdrawal(
            said.seq, item, label, tuple(plan.restored), tuple(plan.released), held, left, tuple(self._notes(said.seq))
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
    """What taking back a word did, with what became of its copies."""
    held, released = (*done.held, *aligned.held), (*done.released, *aligned.released)
    left = {item: why for item, why in {**done.left, **aligned.left}.items() if item not in (*held, *released)}
    return replace(
        done,
        restored=tuple(dict.fromkeys((*done.restored, *aligned.changed))),
        released=tuple(dict.fromkeys(released)),
        held=tuple(dict.fromkeys(held)),
        left={item: why for item, why in left.items() if item not in aligned.changed},
    )


def _known(changes: Sequence[fingerprints.FingerprintChange]) -> dict[tuple[str, str], str]:
    """The fingerprints of an item after some changes, each with its label."""
    known: dict[tuple[str, str], str] = {}
    for change in changes:
        if change.label is None:
            known.clear()
        known.update(dict.fromkeys(change.keys, change.label or ""))
    return known
