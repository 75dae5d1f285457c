"""Conflicts between claims: the verdict and events that follow, words for people, and how one is settled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lazaretto import kept_texts
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import change_of, forgotten, marked
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Cost, Decision, Draft, EventKind, Observation, Ruling, SourceClass, Verdict

if TYPE_CHECKING:
    from lazaretto.gates.memory.claims.judge import ClaimJudge, ClaimJudgement
    from lazaretto.gates.memory.claims.settings import ClaimSettings

_SCANNED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two items that contradict each other."""

    new: str
    old: str
    strength: float
    """Probability that both cannot hold, as the relation model had it."""
    sensitive: bool
    """Whether it is about what moves money, access, safety or permissions."""
    held: tuple[str, ...]
    """The items of the two that may not be used as they are."""


def open_conflicts(ledger: Ledger) -> list[Conflict]:
    """Every pair that was found and not settled, strongest first; pairs with an erased item are left out."""
    links: dict[str, None] = {}
    for event in ledger.events(kinds=(EventKind.NOTED,)):
        change = change_of(event.subject, event.body)
        if change is None or "~" not in change.item:
            continue
        if change.label is None:
            links.pop(change.item, None)
        elif all(kind == "conflict" for kind, _ in change.keys):
            links[change.item] = None
    pairs = [linked(name) for name in links]
    states = ledger.states({item for pair in pairs for item in pair})
    found = []
    for new, old in pairs:
        if any(item not in states or states[item].erased for item in (new, old)):
            continue
        strength, sensitive = _strength_and_weight(ledger, new, old)
        held = tuple(item for item in (new, old) if not states[item].visible)
        found.append(Conflict(new, old, strength, sensitive, held))
    return sorted(found, key=lambda pair: (-pair.sensitive, len(pair.held), -pair.strength, pair.new))


def _strength_and_weight(ledger: Ledger, new: str, old: str) -> tuple[float, bool]:
    """Strength and weight of a pair, as the ruling on the newer one recorded them."""
    for event in ledger.events(subject=new, kinds=(EventKind.RULED,)):
        for evidence in _claim_evidence(event.body or {}):
            if old in evidence.get("items", ()):
                words = evidence.get("words", {})
                return float(sum(words.values())), bool(evidence.get("sensitive"))
    for event in ledger.events(subject=f"scan:{new}~{old}", kinds=(EventKind.NOTED,)):
        body = event.body or {}
        return float(body.get("strength", 0.5)), bool(body.get("sensitive"))
    return 0.5, False


def _claim_evidence(body: Any) -> Iterator[Any]:
    for verdict in body.get("verdicts", ()):
        for evidence in verdict.get("evidence", ()):
            if evidence.get("kind") == "claim":
                yield evidence.get("data", {})


def scan(ledger: Ledger, judge: ClaimJudge) -> int:
    """Compare every visible memory with those before it and record the pairs that contradict; how many are new."""
    while not judge.reader.catch_up(ledger, seconds=60.0):
        pass
    known = {frozenset((conflict.new, conflict.old)) for conflict in open_conflicts(ledger)}
    before = len(known)
    memories = [memory for memory in ledger.items(channel=Channel.MEMORY, limit=None) if memory.text]
    age = {memory.id: place for place, memory in enumerate(reversed(memories))}
    for place in range(0, len(memories), _SCANNED_AT_ONCE):
        drafts: list[Draft] = []
        for item in memories[place : place + _SCANNED_AT_ONCE]:
            with kept_texts.reading():
                opposed = judge.opposed(item, ledger)
            for found in opposed:
                pair = frozenset((item.id, found.item.id))
                if found.item.id == item.id or pair in known or age.get(found.item.id, -1) > age[item.id]:
                    continue
                known.add(pair)
                body = {"strength": found.related.conflict, "sensitive": found.new.sensitive or found.old.sensitive}
                drafts += [
                    Draft(EventKind.NOTED, f"scan:{item.id}~{found.item.id}", body=body),
                    link(item.id, found.item.id),
                ]
        if drafts:
            ledger.append(drafts)
    return len(known) - before


def settling(ledger: Ledger, keep: Observation, over: Observation, by: str) -> list[Draft]:
    """The events that make one of two contradicting items hold and end the other; the other stays, linked to it."""
    if keep.id == over.id:
        raise InputError("over", f"{over.id!r} is the same item", "Name the two that contradict each other")
    states = ledger.states([keep.id, over.id])
    for item in (keep.id, over.id):
        if states[item].erased:
            raise InputError("item", f"{item!r} was erased", "There is nothing left to settle")
    ours, theirs = states[keep.id], states[over.id]
    drafts: list[Draft] = []
    if ours.superseded_by == over.id:
        drafts.append(
            Draft(EventKind.UNDONE, f"settled:{keep.id}", body={"restored": {keep.id: {"superseded_by": None}}})
        )
    elif ours.superseded_by is not None:
        raise InputError("keep", f"{keep.id!r} was replaced by {ours.superseded_by!r}", "Name the one that stands")
    if ours.hidden or (ours.ruling is not None and not ours.visible and not ours.superseded_by):
        drafts.append(Draft(EventKind.RELEASED, keep.id, body={"by": by}))
    if theirs.superseded_by is None:
        drafts.append(Draft(EventKind.SUPERSEDED, keep.id, body={"old": over.id, "by": by}))
    return [*drafts, forgotten(f"{keep.id}~{over.id}"), forgotten(f"{over.id}~{keep.id}")]


# Makes a verdict from a judgement on claims, and the ledger's events from a verdict.

CONFLICT = "conflict"
"""The kind of fingerprint that links two items that contradict each other."""
_BETWEEN = "~"
_MOST_LINKS = 16


def ruling_on(judged: ClaimJudgement, settings: ClaimSettings) -> Ruling:
    """The ruling from the comparison of claims alone."""
    return settings.ruling if judged.refused else settings.announcement if judged.doubtful else Ruling.ALLOW


def with_claims(verdict: Verdict, judged: ClaimJudgement, settings: ClaimSettings) -> Verdict:
    """The verdict joined with the findings about claims: the stricter ruling, and the evidence of both."""
    ruling = ruling_on(judged, settings)
    data = {"relation": judged.relation.value, "with": list(judged.items), "supersedes": list(judged.supersedes)}
    evidence = tuple(replace(first, data={**first.data, **data}) for first in judged.evidence[:1]) + judged.evidence[1:]
    cost = verdict.cost + Cost(ms=judged.ms, calls=1)
    if ruling > verdict.ruling or (ruling is verdict.ruling and ruling > Ruling.WARN and judged.risk > verdict.risk):
        low, high = max(0.0, judged.risk - 0.15), min(1.0, judged.risk + 0.15)
        return replace(
            verdict, ruling=ruling, risk=judged.risk, interval=(low, high), rule=judged.rule, cost=cost,
            evidence=(*evidence, *verdict.evidence), taxonomy=verdict.taxonomy or ("ASI06",),
        )  # fmt: skip
    risk = max(verdict.risk, judged.risk)
    interval = (verdict.interval[0], max(verdict.interval[1], risk))
    return replace(verdict, risk=risk, interval=interval, evidence=(*verdict.evidence, *evidence), cost=cost)


def claim_evidence(verdicts: Iterable[Verdict]) -> Mapping[str, Any] | None:
    """The claim data in a decision's verdicts: relation, items and superseded items; None where there is none."""
    for verdict in verdicts:
        for evidence in verdict.evidence:
            if evidence.kind == "claim" and "relation" in evidence.data and "with" in evidence.data:
                return evidence.data
    return None


def follow_ups(decision: Decision) -> list[Draft]:
    """Events of a decision about claims: links to contradicted items, and the items that an accepted change ends."""
    data = claim_evidence(decision.verdicts)
    if data is None or data["relation"] not in ("contradicts", "updates"):
        return []
    supersedes = [item for item in data["supersedes"] if decision.allowed]
    drafts = [Draft(EventKind.SUPERSEDED, decision.item, body={"old": old}) for old in supersedes]
    return drafts + [link(decision.item, old) for old in list(data["with"])[:_MOST_LINKS] if old not in supersedes]


def link(new: str, old: str) -> Draft:
    """The event that records that two items contradict each other."""
    return marked([(CONFLICT, new), (CONFLICT, old)], f"{new}{_BETWEEN}{old}", "open")


def linked(name: str) -> tuple[str, str]:
    """The two items of a link: the newer one first."""
    new, _, old = name.partition(_BETWEEN)
    return new, old


def conflicts_of(ledger: Ledger, items: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The items that contradict each of the given ones, in conflicts that are found and not settled."""
    found: dict[str, list[str]] = {item: [] for item in items}
    for row in ledger.find_fingerprints(CONFLICT, items):
        new, old = linked(row.item)
        found[row.key].append(old if row.key == new else new)
    return {item: tuple(dict.fromkeys(others)) for item, others in found.items()}


def contradicted_by(ledger: Ledger, item: str) -> set[str]:
    """The items that an item contradicts or changes, by the gates' verdicts in every ruling on it."""
    found: set[str] = set()
    for event in ledger.events(subject=item, kinds=(EventKind.RULED,)):
        for verdict in (event.body or {}).get("verdicts", ()):
            for evidence in verdict.get("evidence", ()):
                if evidence.get("kind") == "claim":
                    found.update(map(str, evidence.get("data", {}).get("with") or ()))
    return found


# Conflicts in words for people: contradicts 'Brightwater is paid to DE-4410' (Ada, trust 0.9, Monday).
#
# Rulings name items, never texts, so texts are read from the crew's store when a person looks; erased ones are gone.

_QUOTED = 120
_MOST = 4
_THIS_WEEK = 6
"""Days within which the name of the day says which one is meant."""


def in_words(
    evidence: Mapping[str, Any], ledger: Ledger, trust: Mapping[SourceClass, float], now: datetime | None = None
) -> tuple[str, ...]:
    """Recorded evidence of kind ``claim`` in words, with the texts of the items that it names; empty where it names
    none. For people who may see the items: ``ledger`` is that of their own crew."""
    if evidence.get("kind") != "claim":
        return ()
    data = evidence.get("data") or {}
    verb = {"contradicts": "contradicts", "updates": "changes"}.get(str(data.get("relation")), "")
    named = [str(item) for item in data.get("items") or () if isinstance(item, str)][:_MOST]
    return tuple(f"{verb} {quote}" for quote in quoted(named, ledger, trust, now)) if verb else ()


def quoted(
    items: Sequence[str], ledger: Ledger, trust: Mapping[SourceClass, float], now: datetime | None = None
) -> tuple[str, ...]:
    """Each item as 'its text' (agent, trust, day); an erased item, or one of another crew, is left out."""
    if not items:
        return ()
    graph, states = ProvenanceGraph(ledger), ledger.states(items)
    seen = {memory.id: memory for memory in ledger.items(ids=list(items), any_state=True, limit=None)}
    quotes = []
    for item in items:
        memory = seen.get(item)
        if memory is None or not memory.text or item not in states or states[item].erased:
            continue
        text = " ".join(memory.text.split())
        text = f"{text[: _QUOTED - 1]}…" if len(text) > _QUOTED else text
        quotes.append(
            f"'{text}' ({memory.agent}, trust {graph.trust(item, trust).value:.2g}, {_day(memory.time, now)})"
        )
    return tuple(quotes)


def _day(time: float, now: datetime | None) -> str:
    """The day of something: by its name within a week, else as a date."""
    then, today = datetime.fromtimestamp(time, UTC), now or datetime.now(UTC)
    days = (today.date() - then.date()).days
    if days == 0:
        return "today"
    return f"{then:%A}" if 0 < days <= _THIS_WEEK else f"{then:%Y-%m-%d}"
