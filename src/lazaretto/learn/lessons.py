"""What people and repairs decided reaches the gates that learn, whatever happens in between.

Lessons are read from the ledger in order, and the place is kept beside the fingerprints they made. Whoever opens the
store next finishes what a dead process left; learning a lesson twice does no harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from lazaretto.gates.protocol import REPAIR, UNDONE, WITHDRAWN
from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.ledger.tail import Tail
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import COPY_OF, MACHINE, Channel, Event, EventKind, Evidence, Observation, Ruling, Verdict

_log = logging.getLogger(__name__)
LABELS = {"harmful": Ruling.BLOCK, "benign": Ruling.ALLOW}
"""What a person's label means as a ruling."""
UNDIRECTED = frozenset({"rollback"})
"""Repairs that take away what is new, not what was found: they say nothing about an item."""
MOST_ORIGINS = 100
"""How many of the items that a finding was derived from are traced back for contacts."""
CONTACT_WINDOW = 10_000
"""How many events a newly opened guard looks back for contacts."""
SCREENED = "screened"
"""What a NOTED event says that takes agents out of the queue."""
Tell = Callable[[Observation, Ruling, tuple[Verdict, ...]], None]
"""Tells every gate that learns what became of an item; verdicts say who found it."""
_KINDS = (EventKind.LABELLED, EventKind.REPAIRED, EventKind.UNDONE)
_TOLD = (*_KINDS, EventKind.WITHDRAWN)
_WORDS = (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)
_READ, _BOOK = ("lessons", "read"), "lessons"
_RENEW_AFTER = 1_000
"""Events past the last lesson after which the place is noted anew, so that opening a long ledger stays quick."""


class Lessons:
    """Follows one ledger and tells the learners. Safe to share between threads and processes."""

    def __init__(
        self, ledger: Ledger, tell: Tell, align: Callable[[Collection[str]], object] = lambda _items: None
    ) -> None:
        """``align`` brings what says the same as some items in step with what was said of them."""
        self._ledger, self._tell, self._align = ledger, tell, align
        self._lock = threading.Lock()
        self.current = False
        """Whether what other processes left untold was told; later ones tell what they decide themselves."""

    def look_up(self) -> None:
        """In a store that is only read: warn where something was decided that nobody was told yet."""
        with self._lock:
            if any(True for _ in self._ledger.events(after=self._start(), kinds=_TOLD)):
                _log.warning("judged without what was decided last: a process ended before it told the gates")
            self.current = True

    def _start(self) -> int:
        kept = self._ledger.find_fingerprints(_READ[0], [_READ[1]])
        return int(kept[0].label) if kept else 0

    def catch_up(self) -> None:
        """Tell everything that was decided since lessons were last told."""
        with self._lock:
            start, end = self._start(), self._ledger.head().seq
            told, spoken = start, dict[str, None]()
            for event in self._ledger.events(after=start, kinds=_TOLD):
                self._teach(event)
                spoken.update(dict.fromkeys(_spoken_of(event)))
                told = event.seq
            self._align(spoken)
            if told > start or end > start + _RENEW_AFTER:
                self._ledger.add_fingerprints([_READ], _BOOK, str(max(told, end)))
            self.current = True

    def _teach(self, event: Event) -> None:
        body = event.body
        if body is None:  # erased: there is nothing left to teach
            return
        if event.kind is EventKind.LABELLED:
            ruling = LABELS.get(str(body.get("label")))
            stands = standing_events(self._ledger, (EventKind.LABELLED,), subject=event.subject)
            if ruling is not None and COPY_OF not in body and any(one.seq == event.seq for one in stands):
                self._tell(self._ledger.item(event.subject), ruling, ())
        elif event.kind is EventKind.REPAIRED:
            for item, ruling, why in repair_lessons(body):
                self._tell(self._ledger.item(item), ruling, why)
        elif event.kind is EventKind.WITHDRAWN:  # what the block list had is recorded with it: learn/withdrawals.py
            told = (repair_verdict(event.subject, Ruling.ALLOW, WITHDRAWN),)
            self._tell(self._ledger.item(event.subject), Ruling.ALLOW, told)
        else:
            self._take_back(event.subject)

    def _take_back(self, receipt: str) -> None:
        """A repair was undone: what it taught is forgotten, and what was ruled before holds again."""
        for event in self._ledger.events(subject=receipt, kinds=(EventKind.REPAIRED,)):
            for item, _, _ in repair_lessons(event.body or {}):
                observation = self._ledger.item(item)
                self._tell(observation, Ruling.ALLOW, (repair_verdict(item, Ruling.ALLOW, UNDONE),))
                self._restore(observation, receipt)

    def _restore(self, observation: Observation, receipt: str) -> None:
        """Teach anew what was said of an item before a repair that was undone."""
        told = standing_events(self._ledger, _WORDS, subject=observation.id)
        said = [one for one in told if not _condemns(one) and (one.body or {}).get("receipt") != receipt]
        if said and said[-1].kind is not EventKind.RULED:  # it was cleared after it had been ruled on
            if (said[-1].body or {}).get("by") != MACHINE:
                self._tell(observation, Ruling.ALLOW, ())
            return
        body = (said[-1].body or {}) if said else {}
        recorded = (recorded_verdict(one) for one in body.get("verdicts", ()))
        verdicts = tuple(v for v in recorded if f"{v.gate}:{v.rule}" not in body.get("settled", ()))
        if verdicts:
            self._tell(observation, max(v.ruling for v in verdicts), verdicts)
        elif body and Ruling.from_label(body["ruling"]) is Ruling.BLOCK:  # a person's word has no verdicts
            self._tell(observation, Ruling.BLOCK, ())


def _spoken_of(event: Event) -> list[str]:
    """The items about which a word was given, taken back or undone by an event."""
    body = event.body or {}
    if event.kind is EventKind.UNDONE:
        return [str(item) for item in body.get("restored") or ()]
    if event.kind is EventKind.REPAIRED:
        return [str(step["item"]) for step in (body.get("plan") or {}).get("steps") or () if step["action"] == "show"]
    return [] if COPY_OF in body else [event.subject]


def _condemns(event: Event) -> bool:
    """Whether a person called the item harmful: that is recorded as a ruling, too."""
    return event.kind is EventKind.LABELLED and (event.body or {}).get("label") == "harmful"


def repair_lessons(receipt: Mapping[str, Any]) -> Iterator[tuple[str, Ruling, tuple[Verdict, ...]]]:
    """What a receipt says about the items it touched.

    What it started from and removed copies are condemned; what was only made from it is to be looked at when it comes
    again; what was shown is cleared.
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
    """How a repair speaks to the gates that learn: as a verdict of its own."""
    return Verdict(REPAIR, item, ruling, 1.0 if ruling > Ruling.WARN else 0.0, (0.0, 1.0), rule)


def recorded_verdict(body: Mapping[str, Any]) -> Verdict:
    """As much of a recorded verdict as learners look at."""
    low, high = body["interval"]
    ruling = Ruling.from_label(body["ruling"])
    told = tuple(Evidence(one["kind"], one["summary"], one["data"]) for one in body.get("evidence", ()))
    return Verdict(body["gate"], body["subject"], ruling, body["risk"], (low, high), body["rule"], told)


class ContactQueue:
    """Agents that held or read what was found since they were last screened: holders first, the newest first."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph) -> None:
        self._ledger, self._graph = ledger, graph
        self._due: dict[str, tuple[bool, int]] = {}
        self._tail = Tail(ledger, (*_KINDS, EventKind.NOTED), back=CONTACT_WINDOW, anew=self._due.clear)
        self._lock = threading.Lock()

    def due(self) -> tuple[str, ...]:
        """Whom to look at first."""
        with self._lock:
            for event in self._tail.new():
                self._follow(event)
            return tuple(sorted(self._due, key=lambda one: (not self._due[one][0], -self._due[one][1], one)))

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
    """Agents that met a finding, and whether they hold it: they wrote it, what it was derived from, or a memory made
    from it. The others have read it or something made from it.

    Back in time only derivation counts: everybody was influenced by something.
    """
    origins = [item]
    for one in origins:
        sources = [source for source, derived in graph.came_from(one).items() if derived and source not in origins]
        origins += sources[: MOST_ORIGINS - len(origins)]
    radius = graph.blast_radius(item, history=True)
    made = ledger.items(ids=[*origins, *(step.id for step in radius.items)], hidden=True, limit=None)
    holders = {one.agent: True for one in made if one.id in origins or one.channel is Channel.MEMORY}
    return {**{step.id: False for step in radius.agents}, **holders}
