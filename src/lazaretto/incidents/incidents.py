"""Incidents, derived from the ledger alone: there is no second truth that could disagree with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lazaretto.errors import InputError, UnknownItem
from lazaretto.identity import writer_of
from lazaretto.incidents.findings import Finding, FindingLog, alike, carries, same_content, why_ruled
from lazaretto.incidents.grouping import Group, Grouper
from lazaretto.incidents.records import (
    STATES,
    AgentReached,
    DecisionTouched,
    HeldItem,
    Incident,
    IncidentItem,
    RepairDone,
    Role,
    State,
    TimelineEntry,
)
from lazaretto.incidents.shown_texts import texts_without_secrets
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.contents import Contents
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.reader import standing_events
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.traces import OutbreakWindow, TraceStep
from lazaretto.types import Channel, EdgeKind, Event, EventKind, Observation, Ruling

PREFIX = "in_"
SHOWN = 400
"""Characters of a text that a report repeats."""
WINDOWS = 8
"""Number of time windows that the reproduction number is given for."""
TOGETHER = 50
"""Incidents whose items are read in one go."""
_MOST_REACHED = 1_000
_COMPARED = 8
_JUDGED = (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)
_MADE_FROM = (EdgeKind.DERIVED_FROM.value, EdgeKind.INFLUENCED.value)
_IN_TIMELINE = (EventKind.RULED, EventKind.LABELLED, EventKind.APPEALED, EventKind.RELEASED, EventKind.WITHDRAWN)


class Incidents:
    """The incidents of one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph) -> None:
        self._ledger, self._graph = ledger, graph
        self._log = FindingLog(ledger)
        self._grouper = Grouper(ledger, graph)
        self._contents = Contents(ledger)
        self._groups: tuple[int, list[Group]] = (-1, [])
        self._built: dict[Group, Incident] = {}
        """Incidents as last built, without those that an event has changed since."""
        self._watched: dict[str, set[Group]] = {}
        """Item -> the incidents above that name it."""
        self._log.watched = self._watched
        self._linked = 0
        self._screened: tuple[int, dict[str, int]] = (0, {})
        """Last event read, and when each agent was last looked at (see ``guard.incidents.note_screened``)."""

    def all(self, state: State | None = None, *, limit: int | None = None) -> tuple[Incident, ...]:
        """Every incident, the one with the newest finding first; ``state`` keeps those that stand so."""
        if state is not None and state not in STATES:
            raise InputError("state", f"is {state!r}", f"Use {', '.join(STATES)}")
        found: list[Incident] = []
        with self._log.lock:
            for made in self._made(list(reversed(self._grouped())), limit or TOGETHER):
                if state is None or made.state == state:
                    found.append(made)
                if limit is not None and len(found) >= limit:
                    break
        return tuple(found)

    def one(self, name: str) -> Incident:
        """An incident by its id, or by the id of any item that was found in it."""
        with self._log.lock:
            for group in self._grouped():
                known = {*group.findings, *group.carriers}
                if name in known or any(name == incident_id(item) for item in group.findings):
                    return next(self._made([group]))
        raise UnknownItem(name, self._ledger.namespace, "incident")

    def held(self, *, limit: int | None = None) -> tuple[HeldItem, ...]:
        """Items that wait for a person, copies in one row: disputed rulings first, then the newest."""
        with self._log.lock:
            self._log.follow()
            waiting = self._log.for_a_person()
            every = sorted(waiting, key=lambda item: (not waiting[item].appealed, -waiting[item].time, item))
            rows = alike({item: waiting[item].rule for item in every}, self._contents)
        order = list(rows)[:limit]
        seen = {observed.id: observed for observed in self._ledger.items(ids=order, any_state=True, limit=None)}
        return tuple(
            HeldItem(
                item, seen[item].agent, seen[item].channel.value, wait.time, wait.ruling, wait.rule, wait.risk,
                (seen[item].text if wait.shown is None else wait.shown)[:SHOWN], wait.reasons,
                any(waiting[same].appealed for same in (item, *rows[item])),
                rows[item],
            )
            for item in order
            if item in seen and (wait := waiting[item])
        )  # fmt: skip

    def _grouped(self) -> list[Group]:
        """Groups in the order of their newest finding."""
        log = self._log
        log.follow()
        self._drop_what_changed()
        if self._groups[0] != log.version:
            made = self._grouper.groups(log.findings)
            newest = {group.findings[0]: max(log.findings[i].seq for i in group.findings) for group in made}
            self._groups = log.version, sorted(made, key=lambda group: newest[group.findings[0]])
            for gone in self._built.keys() - set(made):
                self._drop(gone)
        return self._groups[1]

    def _drop_what_changed(self) -> None:
        """Forget the incidents with new events: they are made again when they are asked for."""
        log, head = self._log, self._ledger.head().seq
        touched, log.touched = log.touched, set()
        later: set[str] = set()
        if self._linked:  # at first nothing is known that could have changed
            for page in self._ledger.edge_columns(after=self._linked, until=head):
                touched.update(
                    name for names in (page.sources, page.targets) for name in names if name in self._watched
                )
                for source, target, word in zip(page.sources, page.targets, page.words, strict=True):
                    if word in _MADE_FROM:
                        later.add(source if word == EdgeKind.DERIVED_FROM.value else target)
        self._linked = head
        erased, log.erased = log.erased, set()
        if self._grouper.forget(erased | later):
            self._groups = (-1, [])
        self._note_screened()
        for item in touched:
            for group in tuple(self._watched.get(item, ())):
                self._drop(group)

    def _note_screened(self) -> None:
        seq, screened = self._screened
        for event in self._ledger.events(after=seq, subject="screened", kinds=(EventKind.NOTED,)):
            self._screened = event.seq, screened
            for agent in (event.body or {}).get("agents", ()):
                screened[agent] = event.seq
            for group in tuple(self._built):
                self._drop(group)

    def _drop(self, group: Group) -> None:
        made = self._built.pop(group, None)
        if made is None:
            return
        for item in _named(made):
            watching = self._watched.get(item, set())
            watching.discard(group)
            if not watching:
                self._watched.pop(item, None)

    def _made(self, groups: Sequence[Group], together: int = TOGETHER) -> Iterator[Incident]:
        """The incidents of groups, made again only when there were new events about them; some at a time."""
        for some in chunks(groups, min(together, TOGETHER)):
            fresh = [group for group in some if group not in self._built]
            for group, found in zip(fresh, self._build(fresh), strict=True):
                self._built[group] = found
                for item in _named(found):
                    self._watched.setdefault(item, set()).add(group)
            yield from [self._built[group] for group in some]

    def _build(self, groups: Sequence[Group]) -> list[Incident]:
        """Incidents, their items and events read together."""
        if not groups:
            return []
        reaches = [_Reach.of([*group.findings, *group.carriers], self._graph) for group in groups]
        named = [
            name
            for group, reach in zip(groups, reaches, strict=True)
            for name in (*group.findings, *group.carriers, *reach.items)
        ]
        seen = {observed.id: observed for observed in self._ledger.items(ids=named, any_state=True, limit=None)}
        states = self._ledger.states(list(seen))
        facts = _Facts(seen, states, self._judged(seen), texts_without_secrets(self._ledger, states))
        whole: list[Group] = []
        for group, reach in zip(groups, reaches, strict=True):
            # findings have an incident already
            fresh = [i for i in reach.items if i in seen and i not in self._log.findings]
            whole.append(replace(group, carriers=(*group.carriers, *_carrying(fresh, group.findings, seen))))
        infected = [name for group in whole for name in (*group.findings, *group.carriers)]
        for event in self._ledger.events_about(infected, _IN_TIMELINE):
            facts.events.setdefault(event.subject, []).append(event)
        decisions = [name for reach in reaches for name in reach.decisions]
        for event in self._ledger.events_about(decisions, (EventKind.REPORTED,)) if decisions else ():
            facts.events.setdefault(event.subject, []).append(event)
        return [self._incident(group, reach, facts) for group, reach in zip(whole, reaches, strict=True)]

    def _judged(self, items: Collection[str]) -> dict[str, int]:
        """The last event that judged each item, of those that count."""
        judged = dict(self._ledger.last_about(items, _JUDGED))
        for item in {event.subject for event in self._ledger.events_about(items, (EventKind.WITHDRAWN,))}:
            judged[item] = max((e.seq for e in standing_events(self._ledger, _JUDGED, subject=item)), default=0)
        return judged

    def _incident(self, group: Group, reach: _Reach, facts: _Facts) -> Incident:
        log, infected = self._log, [*group.findings, *group.carriers]
        first = log.findings[group.findings[0]]
        timeline = self._timeline(infected, facts)
        items = [self._item(facts, i, group) for i in infected if i in facts.seen]
        items.sort(key=lambda row: (row.role != "patient zero", row.time, row.id))
        inside = set(group.carriers)
        reached = [self._item(facts, i, group) for i in reach.items if i in facts.seen and i not in inside]
        last = max(log.findings[item].seq for item in group.findings)
        zero = next(row for row in items if row.id == group.patient_zero)
        writer = writer_of(facts.seen[zero.id])
        agents = self._agents(reach, items, zero, last)
        repairs = self._repairs({*infected, *reach.items})
        return Incident(
            id=incident_id(group.findings[0]),
            state=self._state(group, items, reached, (last, facts.judged)),
            false_alarm=all(log.findings[item].innocent for item in group.findings),
            title=_title(zero, writer, len(items), len(agents)),
            patient_zero=zero.id,
            brought_by=writer,
            opened=min(row.time for row in items),
            found=first.time,
            updated=max([first.time, *(entry.time for entry in timeline), *(repair.time for repair in repairs)]),
            items=tuple(items),
            reached=tuple(reached),
            agents=agents,
            decisions=_decisions(reach.decisions, facts),
            reproduction=self._reproduction(agents),
            repairs=repairs,
            timeline=timeline,
        )

    def _item(self, facts: _Facts, name: str, group: Group) -> IncidentItem:
        seen, state, finding = facts.seen[name], facts.states[name], self._log.findings.get(name)
        role: Role = "finding" if seen.id in group.findings else "carrier" if seen.id in group.carriers else "reached"
        if seen.id == group.patient_zero:
            role = "patient zero"
        return IncidentItem(
            id=seen.id,
            role=role,
            agent=seen.agent,
            time=seen.time,
            channel=seen.channel.value,
            source=seen.source.value,
            text=facts.without_secrets.get(name, seen.text)[:SHOWN],
            image=seen.image,
            shown=state.visible and seen.channel is Channel.MEMORY,
            standing=_standing(state, finding, seen.channel),
            rule=finding.rule if finding else "",
            risk=finding.risk if finding else None,
        )

    def _state(
        self,
        group: Group,
        items: Sequence[IncidentItem],
        reached: Sequence[IncidentItem],
        since: tuple[int, Mapping[str, int]],
    ) -> State:
        """The incident's state; ``since``: the last finding, and when each item was last judged."""
        findings = {item: self._log.findings[item] for item in group.findings}
        if all(finding.innocent for finding in findings.values()):
            return "cleared"
        fine = {item for item, finding in findings.items() if finding.innocent}
        if any(row.shown and row.id not in fine and not self._looked_at(row.id, *since) for row in items):
            return "open"
        unsettled = any(not finding.settled for finding in findings.values())
        unread = any(
            self._log.waits_for_a_person(row.id) or (row.shown and not self._looked_at(row.id, *since))
            for row in reached
        )
        return "contained" if unsettled or unread else "cleared"

    def _looked_at(self, item: str, since: int, judged: Mapping[str, int]) -> bool:
        """Whether an item was judged again, or cut loose, after the last finding."""
        return max(judged.get(item, 0), self._log.cut.get(item, 0)) > since

    def _agents(
        self, reach: _Reach, items: Sequence[IncidentItem], zero: IncidentItem, last: int
    ) -> tuple[AgentReached, ...]:
        met: dict[str, tuple[float, int]] = {}
        for item in items:
            if item.agent:
                _meet(met, item.agent, item.time, 0 if item.id == zero.id else 1)
        for step in reach.agents:
            _meet(met, step.id, step.time, step.hops)
        screened = self._screened[1]
        rows = [AgentReached(name, time, hops, screened.get(name, 0) <= last) for name, (time, hops) in met.items()]
        return tuple(sorted(rows, key=lambda row: (row.time, row.hops, row.agent)))

    def _reproduction(self, agents: Sequence[AgentReached]) -> tuple[OutbreakWindow, ...]:
        times = {row.agent: row.time for row in agents}
        span = max(times.values()) - min(times.values()) if times else 0.0
        return self._graph.reproduction_number(times, span / WINDOWS + 1e-9) if span > 0 else ()

    def _repairs(self, items: set[str]) -> tuple[RepairDone, ...]:
        found = []
        for receipt, event in self._repairs_of(items):
            plan = (event.body or {}).get("plan") or {}
            touched = _changed(plan, items)
            if touched:
                undone, why = self._is_undone(receipt, plan), str(plan.get("reason", ""))
                found.append(RepairDone(receipt, str(plan.get("repair")), event.time, touched, undone, why))
        return tuple(found)

    def _is_undone(self, receipt: str, plan: Mapping[str, Any]) -> bool:
        """Whether all steps of a repair were undone."""
        return {str(step["item"]) for step in plan.get("steps") or ()} <= self._log.restored.get(receipt, set())

    def _repairs_of(self, items: Iterable[str]) -> list[tuple[str, Event]]:
        """The receipts that name any of the items, oldest first."""
        log = self._log
        names = {receipt for item in items for receipt in log.repaired.get(item, ())}
        return sorted(((name, log.receipts[name]) for name in names), key=lambda named: named[1].seq)

    def _timeline(self, items: Sequence[str], facts: _Facts) -> tuple[TimelineEntry, ...]:
        entries = [_timeline_entry(event) for item in dict.fromkeys(items) for event in facts.events.get(item, ())]
        inside = set(items)
        for receipt, event in self._repairs_of(inside):
            plan = (event.body or {}).get("plan") or {}
            touched = _changed(plan, inside)
            if touched:
                says = f"{plan.get('repair')} of {touched} item{'s' * (touched != 1)}" + (
                    f": {plan['reason']}" if plan.get("reason") else ""
                )
                taken_back = " (undone since)" if self._is_undone(receipt, plan) else ""
                entries.append(TimelineEntry(event.seq, event.time, event.kind.value, receipt, "", says + taken_back))
        return tuple(sorted(entries, key=lambda entry: entry.seq))


@dataclass(frozen=True, slots=True)
class _Facts:
    """The records about the items of some incidents, read together."""

    seen: Mapping[str, Observation]
    states: Mapping[str, ItemState]
    judged: Mapping[str, int]
    """The last event that judged each."""
    without_secrets: Mapping[str, str]
    """Shown instead of texts with a secret."""
    events: dict[str, list[Event]] = field(default_factory=dict)
    """By item, the events of its timeline; by decision, its report."""


class _Reach:
    """Everything a group of infected items reached, past repairs too."""

    def __init__(self, items: list[str], agents: list[TraceStep], decisions: list[str]) -> None:
        self.items, self.agents, self.decisions = items, agents, decisions

    @classmethod
    def of(cls, infected: Sequence[str], graph: ProvenanceGraph) -> _Reach:
        """Everything reached from any of them, each once."""
        found = graph.reach(infected)
        items = [step.id for step in found.items[:_MOST_REACHED]]
        return cls(items, list(found.agents), [step.id for step in found.decisions])


def _decisions(ids: Iterable[str], facts: _Facts) -> tuple[DecisionTouched, ...]:
    found = []
    for event in (event for name in ids for event in facts.events.get(name, ())):
        body = event.body or {}
        what = str(body.get("what", ""))[:SHOWN]
        found.append(DecisionTouched(event.subject, event.agent, event.time, what, body.get("success")))
    return tuple(sorted(found, key=lambda decision: (decision.time, decision.id)))


def incident_id(item: str) -> str:
    """The id of the incident that was first found at an item."""
    return PREFIX + item.removeprefix("it_")


def _named(incident: Incident) -> set[str]:
    """Every item and decision that an incident tells of."""
    return {item.id for item in (*incident.items, *incident.reached)} | {decision.id for decision in incident.decisions}


def _changed(plan: Mapping[str, Any], items: set[str]) -> int:
    """How many of the items a repair took out, replaced or brought back; one that it cut loose, it found innocent."""
    return sum(step["item"] in items and step["action"] != "cut" for step in plan.get("steps") or ())


def _meet(met: dict[str, tuple[float, int]], agent: str, time: float, hops: int) -> None:
    known = met.get(agent)
    met[agent] = (time, hops) if known is None else (min(time, known[0]), min(hops, known[1]))


def _carrying(items: Sequence[str], findings: Sequence[str], observed: Mapping[str, Observation]) -> list[str]:
    """The items that carry the content of a finding; the first few findings of different content are compared."""
    contents = {same_content(observed[item]): observed[item] for item in findings if item in observed}
    compared = list(contents.values())[:_COMPARED]
    return [item for item in items if any(carries(finding, observed[item]) for finding in compared)]


def _standing(state: ItemState, finding: Finding | None, channel: Channel) -> str:
    if state.word == "held" and state.ruling is not None:
        return f"held ({state.ruling.label})"
    if not state.visible:
        return state.word
    if finding is not None and finding.cleared:
        return "released"
    return "in recall" if channel is Channel.MEMORY else "not a memory"


def _title(zero: IncidentItem, writer: str, items: int, agents: int) -> str:
    what = "picture" if zero.image and not zero.text else zero.channel
    text = " ".join(zero.text.split())
    quote = f" “{text[:60]}{'…' if len(text) > 60 else ''}”" if text else ""
    counts = f"{items} item{'s' * (items != 1)}, {agents} agent{'s' * (agents != 1)}"
    return f"{what}{quote} by {writer or 'unknown'}: {counts}"


def _timeline_entry(event: Event) -> TimelineEntry:
    body: Mapping[str, Any] = event.body or {}
    if event.body is None:
        says = "content erased"
    elif event.kind is EventKind.RULED:
        says = f"{Ruling.from_label(str(body['ruling'])).label} by {body.get('rule', '')}"
        explain = body.get("verdicts") and body["ruling"] not in ("allow", "warn")
        says += f": {why_ruled(body)[0][:200]}" if explain else ""
    elif event.kind is EventKind.LABELLED:
        says = f"{body.get('label')}, says {body.get('by')}"
    elif event.kind is EventKind.WITHDRAWN:
        says = f"{body.get('label')} is taken back, says {body.get('by')}"
    elif event.kind is EventKind.APPEALED:
        says = f"disputed by {body.get('by')}: {str(body.get('reason', ''))[:200]}"
    else:
        says = f"back in recall{': says ' + str(body['by']) if body.get('by') else ''}"
    return TimelineEntry(event.seq, event.time, event.kind.value, event.subject, event.agent, says)
