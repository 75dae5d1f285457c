"""Contradicting pairs of a store: those found as memories came in, a scan for others, and how one is settled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazaretto import kept_texts
from lazaretto.errors import InputError
from lazaretto.gates.memory.claims.consequences import link, linked
from lazaretto.ledger import Ledger
from lazaretto.ledger.fingerprints import change_of, forgotten
from lazaretto.types import Channel, Draft, EventKind, Observation

if TYPE_CHECKING:
    from lazaretto.gates.memory.claims.judge import ClaimJudge

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
