"""Suspects behind failed decisions: items that failed decisions share and successful ones do not.

It counts whether decisions that rest on a memory fail more often than chance lets them (hypergeometric tail, corrected
for how many were looked at). Where no decision succeeded, the answer says so instead of a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazaretto.identity import writer_of
from lazaretto.types import PROCESS, EventKind

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger
    from lazaretto.provenance.graph import ProvenanceGraph

HORIZON = 60_000
"""How many events are looked back for decisions."""
MOST_DECISIONS = 2_000
MIN_FAILED = 2
"""One failure makes nobody a suspect."""
CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Suspect:
    """An item that failed decisions share."""

    item: str
    agent: str
    """The agent that wrote it; empty when the ledger never saw it written."""
    time: float
    failed: int
    """Failed decisions that rest on it, directly or through items that came from it."""
    succeeded: int
    chance: float | None
    """The chance of so many failures if it were innocent; None if no decision succeeded to compare with."""
    unexplained: int
    """Failed decisions that no stronger suspect stands behind; 0: it may only keep bad company."""
    voices: int = 0
    """Principals that reported these failures; 1: one writer's word alone."""


def suspects(ledger: Ledger, graph: ProvenanceGraph, limit: int = 10) -> tuple[Suspect, ...]:
    """Items behind failed decisions, the strongest suspicion first."""
    reported = _decisions(ledger)
    failed = [decision for decision, (well, _) in reported.items() if not well]
    good = [decision for decision, (well, _) in reported.items() if well]
    if len(failed) < MIN_FAILED:
        return ()
    behind = {decision: {step.id: step.time for step in graph.rests_on(decision)} for decision in (*failed, *good)}
    times: dict[str, float] = {item: time for above in behind.values() for item, time in above.items()}
    uses = {item: [d for d in failed if item in behind[d]] for item in {i for d in failed for i in behind[d]}}
    uses = {item: several for item, several in uses.items() if len(several) >= MIN_FAILED}
    worked = {item: sum(item in behind[d] for d in good) for item in uses}
    chances = _chances({i: (len(f), worked[i]) for i, f in uses.items()}, len(failed), len(good))
    # equal chances: the item that explains more comes first, then the older one
    order = sorted(uses, key=lambda i: (chances[i] or 0.0, -len(uses[i]), times[i], i))
    found: list[Suspect] = []
    explained: set[str] = set()
    for item in order:
        chance = chances[item]
        if chance is not None and chance > CHANCE:
            break
        left = sum(decision not in explained for decision in uses[item])
        explained.update(uses[item])
        voices = len({reported[decision][1] for decision in uses[item]})
        found.append(Suspect(item, "", times[item], len(uses[item]), worked[item], chance, left, voices))
        if len(found) == limit:
            break
    writers = {
        item.id: writer_of(item) for item in ledger.items(ids=[s.item for s in found], any_state=True, limit=None)
    }
    return tuple(replace(suspect, agent=writers.get(suspect.item, "")) for suspect in found)


def _decisions(ledger: Ledger) -> dict[str, tuple[bool, str]]:
    """The newest reported decisions that rested on something: whether each went well, and who reported it."""
    start = max(0, ledger.head().seq - HORIZON)
    known: list[tuple[str, tuple[bool, str]]] = []
    for event in ledger.events(after=start, kinds=(EventKind.REPORTED,)):
        body = event.body or {}
        success = body.get("success")
        if success is not None and body.get("rests_on"):
            known.append((event.subject, (bool(success), str(body.get("principal") or f"{PROCESS}{event.agent}"))))
    return dict(known[-MOST_DECISIONS:])


def _chances(uses: Mapping[str, tuple[int, int]], failed: int, good: int) -> dict[str, float | None]:
    if not good:
        return dict.fromkeys(uses)
    return {i: min(1.0, len(uses) * tail(f, f + w, failed, failed + good)) for i, (f, w) in uses.items()}


def tail(hits: int, drawn: int, marked: int, total: int) -> float:
    """The chance that at least ``hits`` of ``drawn`` are among the ``marked`` of ``total``."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    most = min(drawn, marked)
    least = max(hits, drawn - (total - marked))
    every = log_choose(total, drawn)
    return min(
        1.0,
        sum(
            math.exp(log_choose(marked, k) + log_choose(total - marked, drawn - k) - every)
            for k in range(least, most + 1)
        ),
    )
