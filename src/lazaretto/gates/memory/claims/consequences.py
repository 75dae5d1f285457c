"""From a judgement on claims to a verdict, and from a verdict to what the ledger records beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazaretto.ledger.fingerprints import marked
from lazaretto.types import Cost, Decision, Draft, EventKind, Ruling, Verdict

if TYPE_CHECKING:
    from lazaretto.gates.memory.claims.judge import ClaimJudgement
    from lazaretto.gates.memory.claims.settings import ClaimSettings
    from lazaretto.ledger import Ledger

CONFLICT = "conflict"
"""The kind of fingerprint that links two items that contradict each other."""
_BETWEEN = "~"
_MOST_LINKS = 16


def ruling_on(judged: ClaimJudgement, settings: ClaimSettings) -> Ruling:
    """What comparing claims rules by itself."""
    return settings.ruling if judged.refused else settings.announcement if judged.doubtful else Ruling.ALLOW


def with_claims(verdict: Verdict, judged: ClaimJudgement, settings: ClaimSettings) -> Verdict:
    """The verdict with what comparing claims found; the stricter ruling stands, and the evidence of both."""
    ruling = ruling_on(judged, settings)
    data = {"relation": judged.relation.value, "with": list(judged.items), "supersedes": list(judged.supersedes)}
    told = tuple(replace(one, data={**one.data, **data}) for one in judged.evidence[:1]) + judged.evidence[1:]
    cost = verdict.cost + Cost(ms=judged.ms, calls=1)
    if ruling > verdict.ruling or (ruling is verdict.ruling and ruling > Ruling.WARN and judged.risk > verdict.risk):
        low, high = max(0.0, judged.risk - 0.15), min(1.0, judged.risk + 0.15)
        return replace(
            verdict, ruling=ruling, risk=judged.risk, interval=(low, high), rule=judged.rule, cost=cost,
            evidence=(*told, *verdict.evidence), taxonomy=verdict.taxonomy or ("ASI06",),
        )  # fmt: skip
    risk = max(verdict.risk, judged.risk)
    interval = (verdict.interval[0], max(verdict.interval[1], risk))
    return replace(verdict, risk=risk, interval=interval, evidence=(*verdict.evidence, *told), cost=cost)


def claim_evidence(verdicts: Iterable[Verdict]) -> Mapping[str, Any] | None:
    """What a decision's verdicts say about claims: relation, items and what is superseded; None where nothing."""
    for verdict in verdicts:
        for one in verdict.evidence:
            if one.kind == "claim" and "relation" in one.data and "with" in one.data:
                return one.data
    return None


def follow_ups(decision: Decision) -> list[Draft]:
    """Events that belong to a decision about claims: links to what it contradicts, and what an accepted change ends."""
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
    """Which items contradict each of the given ones, as far as it was found and nobody has settled it."""
    found: dict[str, list[str]] = {item: [] for item in items}
    for one in ledger.find_fingerprints(CONFLICT, items):
        new, old = linked(one.item)
        found[one.key].append(old if one.key == new else new)
    return {item: tuple(dict.fromkeys(others)) for item, others in found.items()}


def contradicted_by(ledger: Ledger, item: str) -> set[str]:
    """What the gates said that an item contradicts or changes, in every ruling on it."""
    found: set[str] = set()
    for event in ledger.events(subject=item, kinds=(EventKind.RULED,)):
        for verdict in (event.body or {}).get("verdicts", ()):
            for one in verdict.get("evidence", ()):
                if one.get("kind") == "claim":
                    found.update(map(str, one.get("data", {}).get("with") or ()))
    return found
