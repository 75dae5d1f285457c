"""Makes a verdict from a judgement on claims, and the ledger's events from a verdict."""

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
