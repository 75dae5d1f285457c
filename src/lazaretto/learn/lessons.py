"""Lessons: labels and repairs reach the gates that learn, even when a process dies in between.

Lessons are read from the ledger in order, and the place is kept beside the fingerprints they made. The next process
that opens the store teaches the lessons that a dead one left; learning a lesson twice does no harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from lazaretto.gates.protocol import REPAIR, UNDONE, WITHDRAWN
from lazaretto.ledger import Ledger
from lazaretto.ledger.effects import restored_by
from lazaretto.ledger.reader import Tail, standing_events
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint_rulings import Teach
from lazaretto.types import COPY_OF, MACHINE, Channel, Event, EventKind, Evidence, Observation, Ruling, Verdict

_log = logging.getLogger(__name__)
LABELS = {"harmful": Ruling.BLOCK, "benign": Ruling.ALLOW}
"""Label -> ruling."""
UNDIRECTED = frozenset({"rollback"})
"""Repairs that remove recent items instead of findings: they are no evidence about an item."""
MOST_ORIGINS = 100
"""The most items that a finding was derived from which are traced back for contacts."""
CONTACT_WINDOW = 10_000
"""Events that a newly opened guard looks back for contacts."""
SCREENED = "screened"
"""``what`` of a NOTED event that takes agents out of the queue."""
"""Tells every gate that learns the ruling on an item; the verdicts name the gate or repair behind it."""
_KINDS = (EventKind.LABELLED, EventKind.REPAIRED, EventKind.UNDONE)
_DECISIONS = (*_KINDS, EventKind.WITHDRAWN)
_RULINGS = (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)
_READ, _BOOK = ("lessons", "read"), "lessons"
_RENEW_AFTER = 1_000
"""Events past the last lesson after which the place is noted anew, so that opening a long ledger stays quick."""


class Lessons:
    """Follows one ledger and tells the learners. Safe to share between threads and processes."""

    def __init__(
        self, ledger: Ledger, teach: Teach, align: Callable[[Collection[str]], object] = lambda _items: None
    ) -> None:
        """``align`` updates the copies of items after people's decisions (``Alignment.align``)."""
        self._ledger, self._teach, self._align = ledger, teach, align
        self._lock = threading.Lock()
        self.current = False
        """Whether the lessons that other processes left were taught; later processes teach their own."""

    def look_up(self) -> None:
        """For a read-only store: warn where the gates have not learnt a decision yet."""
        with self._lock:
            if any(True for _ in self._ledger.events(after=self._start(), kinds=_DECISIONS)):
                _log.warning("judged without the last labels or repairs: a process ended before the gates learnt them")
            self.current = True

    def _start(self) -> int:
        kept = self._ledger.find_fingerprints(_READ[0], [_READ[1]])
        return int(kept[0].label) if kept else 0

    def catch_up(self) -> None:
        """Teach every label, repair, undo and withdrawal since the last call."""
        with self._lock:
            start, end = self._start(), self._ledger.head().seq
            last, decided = start, dict[str, None]()
            for event in self._ledger.events(after=start, kinds=_DECISIONS):
                self._teach_event(event)
                decided.update(dict.fromkeys(_decided_items(event)))
                last = event.seq
            self._align(decided)
            if last > start or end > start + _RENEW_AFTER:
                self._ledger.add_fingerprints([_READ], _BOOK, str(max(last, end)))
            self.current = True

    def _teach_event(self, event: Event) -> None:
        """Teach the outcome of an event's items."""
        body = event.body
        if body is None:  # erased: there is nothing left to teach
            return
        if event.kind is EventKind.LABELLED:
            ruling = LABELS.get(str(body.get("label")))
            stands = standing_events(self._ledger, (EventKind.LABELLED,), subject=event.subject)
            if ruling is not None and COPY_OF not in body and any(label.seq == event.seq for label in stands):
                self._teach(self._ledger.item(event.subject), ruling, ())
        elif event.kind is EventKind.REPAIRED:
            for item, ruling, why in repair_lessons(body):
                self._teach(self._ledger.item(item), ruling, why)
        elif event.kind is EventKind.WITHDRAWN:  # the block list was put back with it: learn/withdrawals.py
            verdicts = (repair_verdict(event.subject, Ruling.ALLOW, WITHDRAWN),)
            self._teach(self._ledger.item(event.subject), Ruling.ALLOW, verdicts)
        else:
            self._take_back(event.subject, restored_by(event))

    def _take_back(self, receipt: str, restored: Collection[str]) -> None:
        """Forget the lessons of a repair on the items for which it was undone, and teach earlier rulings again."""
        for event in self._ledger.events(subject=receipt, kinds=(EventKind.REPAIRED,)):
            for item, _, _ in repair_lessons(event.body or {}):
                if item not in restored:
                    continue  # this step stands
                observation = self._ledger.item(item)
                self._teach(observation, Ruling.ALLOW, (repair_verdict(item, Ruling.ALLOW, UNDONE),))
                self._restore(observation, receipt)

    def _restore(self, observation: Observation, receipt: str) -> None:
        """Teach the last ruling, label or release of an item from before a repair that was undone."""
        events = standing_events(self._ledger, _RULINGS, subject=observation.id)
        earlier = [e for e in events if not _condemns(e) and (e.body or {}).get("receipt") != receipt]
        if earlier and earlier[-1].kind is not EventKind.RULED:  # it was cleared after it had been ruled on
            if (earlier[-1].body or {}).get("by") != MACHINE:
                self._teach(observation, Ruling.ALLOW, ())
            return
        body = (earlier[-1].body or {}) if earlier else {}
        recorded = (recorded_verdict(verdict) for verdict in body.get("verdicts", ()))
        verdicts = tuple(v for v in recorded if f"{v.gate}:{v.rule}" not in body.get("settled", ()))
        if verdicts:
            self._teach(observation, max(v.ruling for v in verdicts), verdicts)
        elif body and Ruling.from_label(body["ruling"]) is Ruling.BLOCK:  # a person's label has no verdicts
            self._teach(observation, Ruling.BLOCK, ())


def _decided_items(event: Event) -> list[str]:
    """The items on which an event makes, takes back or undoes a decision."""
    body = event.body or {}
    if event.kind is EventKind.UNDONE:
        return sorted(restored_by(event))
    if event.kind is EventKind.REPAIRED:
        return [str(step["item"]) for step in (body.get("plan") or {}).get("steps") or () if step["action"] == "show"]
    return [] if COPY_OF in body else [event.subject]


def _condemns(event: Event) -> bool:
    """Whether a person called the item harmful: that is recorded as a ruling, too."""
    return event.kind is EventKind.LABELLED and (event.body or {}).get("label") == "harmful"


def repair_lessons(receipt: Mapping[str, Any]) -> Iterator[tuple[str, Ruling, tuple[Verdict, ...]]]:
    """The lessons of a receipt: a ruling for each item that the repair touched.

    The origin and removed copies are quarantined, items that only came from it are sent to review when they come again,
    shown items are cleared.
    """
    plan = receipt.get("plan") or {}
    repair, origin = str(plan.get("repair", "")), plan.get("origin")
    for step in plan.get("steps") or ():
        item, action = str(step["item"]), step["action"]
        if action == "show":
            yield item, Ruling.ALLOW, ()
        elif action in ("hide", "remove", "replace") and repair not in UNDIRECTED:
            found = item == origin or action == "remove"
            ruling = Ruling.QUARANTINE if found else Ruling.REVIEW
            yield item, ruling, (repair_verdict(item, ruling, repair),)


def repair_verdict(item: str, ruling: Ruling, rule: str) -> Verdict:
    """The verdict by which a repair teaches the gates that learn."""
    return Verdict(REPAIR, item, ruling, 1.0 if ruling > Ruling.WARN else 0.0, (0.0, 1.0), rule)


def recorded_verdict(body: Mapping[str, Any]) -> Verdict:
    """A verdict from its record, with the parts that learners use."""
    low, high = body["interval"]
    ruling = Ruling.from_label(body["ruling"])
    evidence = tuple(Evidence(part["kind"], part["summary"], part["data"]) for part in body.get("evidence", ()))
    return Verdict(body["gate"], body["subject"], ruling, body["risk"], (low, high), body["rule"], evidence)


class ContactQueue:
    """Agents that held or read a finding since they were last screened: holders first, the newest first."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph) -> None:
        self._ledger, self._graph = ledger, graph
        self._due: dict[str, tuple[bool, int]] = {}
        self._tail = Tail(ledger, (*_KINDS, EventKind.NOTED), back=CONTACT_WINDOW, anew=self._due.clear)
        self._lock = threading.Lock()

    def due(self) -> tuple[str, ...]:
        """The agents to screen, the most urgent first."""
        with self._lock:
            for event in self._tail.new():
                self._follow(event)
            return tuple(sorted(self._due, key=lambda agent: (not self._due[agent][0], -self._due[agent][1], agent)))

    def _follow(self, event: Event) -> None:
        body = event.body or {}
        found: list[str] = []
        agents: dict[str, bool] = {}
        if event.kind is EventKind.NOTED:
            for agent in body.get("agents", ()) if body.get("what") == SCREENED else ():
                self._due.pop(agent, None)
        elif event.kind is EventKind.LABELLED and body.get("label") == "harmful":
            found = [event.subject]
        elif event.kind is EventKind.REPAIRED:
            lessons = list(repair_lessons(body))
            found = [item for item, ruling, _ in lessons if ruling >= Ruling.QUARANTINE]
            if any(ruling > Ruling.WARN for _, ruling, _ in lessons):
                agents = dict.fromkeys((body.get("plan") or {}).get("agents") or (), True)
        for item in found:
            for agent, held in contacts_of(item, self._ledger, self._graph).items():
                agents[agent] = agents.get(agent, False) or held
        for agent, held in agents.items():
            self._due[agent] = (held or self._due.get(agent, (False, 0))[0], event.seq)


def contacts_of(item: str, ledger: Ledger, graph: ProvenanceGraph) -> dict[str, bool]:
    """Agents that met a finding, and whether they hold it: they wrote it, an item it was derived from, or a memory made
    from it. The others have read it or an item made from it.

    Back in time only derivation counts: every agent was influenced by something.
    """
    origins = [item]
    for origin in origins:
        sources = [source for source, derived in graph.came_from(origin).items() if derived and source not in origins]
        origins += sources[: MOST_ORIGINS - len(origins)]
    radius = graph.blast_radius(item, history=True)
    made = ledger.items(ids=[*origins, *(step.id for step in radius.items)], any_state=True, limit=None)
    holders = {held.agent: True for held in made if held.id in origins or held.channel is Channel.MEMORY}
    return {**{step.id: False for step in radius.agents}, **holders}
