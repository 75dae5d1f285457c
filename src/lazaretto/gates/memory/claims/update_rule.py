"""Poison or update? Only provenance can tell: who may change a claim, and how far a new one is to be believed.

One writer is one voice, one root is one voice, and nobody testifies for himself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Observation, SourceClass

HISTORY, LINEAGE, PEACE = 0.2, 0.4, 0.4
"""Weights of the writer's history, of the least trusted ancestor, and of what others say in the credibility."""
_RECENT = 30
_BENEFIT = 2.0
"""Good memories with which every writer begins."""


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """What the policy asks of whoever changes a claim."""

    voices: int
    """So many independent voices may change what they have no trust to change alone."""
    voice_trust: float
    """A voice less trusted than this is not heard for a change."""
    sensitive_trust: float
    """Least trust for changing what moves money, access, safety or permissions, unless it is one's own claim."""
    sensitive_voices: int
    sensitive_voice_trust: float
    """Like ``voice_trust``, for such claims: strangers do not change them, however many there are."""


@dataclass(frozen=True, slots=True)
class Witness:
    """An item that says something about the matter."""

    item: str
    agent: str
    trust: float
    """Of the least trusted thing it was made from."""
    roots: frozenset[str]


def witnesses(
    items: Iterable[Observation], graph: ProvenanceGraph, trust: Mapping[SourceClass, float]
) -> dict[str, Witness]:
    """What provenance says of known items, by id: one pass over all they were made from."""
    known = {item.id: item for item in items}
    grounds = graph.grounds(list(known), trust) if known else {}
    return {name: Witness(name, known[name].agent, ground.trust, ground.roots) for name, ground in grounds.items()}


def newcomer(item: Observation, graph: ProvenanceGraph, trust: Mapping[SourceClass, float]) -> Witness:
    """The same for an item that the ledger does not have yet."""
    if not item.parents:
        return Witness(item.id, item.agent, trust[item.source], frozenset({item.id}))
    ground = graph.ground(item.parents, trust)
    return Witness(item.id, item.agent, min(trust[item.source], ground.trust), ground.roots)


def voices(witnesses: Iterable[Witness], without: Witness | None = None) -> list[Witness]:
    """The independent ones, most trusted first: each writer and each root speaks once, ``without`` never."""
    agents = {without.agent} if without else set()
    roots = set(without.roots) if without else set()
    heard = []
    for one in sorted(witnesses, key=lambda w: (-w.trust, w.item)):
        if one.agent not in agents and not one.roots & roots:
            heard.append(one)
            agents.add(one.agent)
            roots |= one.roots
    return heard


def may_change(
    new: Witness,
    old: Witness,
    support: Sequence[Witness],
    opposition: Sequence[Witness],
    *,
    sensitive: bool,
    own: bool,
    rule: ChangeRule,
) -> str:
    """Why the new claim may replace the old one: ``maker``, ``trust`` or ``voices``; empty when it may not.

    ``own``: it is the writer's own word, not something it read; ``support`` and ``opposition`` are independent voices.
    """  # fmt: skip
    if own and new.agent == old.agent and new.trust >= old.trust:
        return "maker"
    if new.trust >= old.trust and (not sensitive or new.trust >= rule.sensitive_trust):
        return "trust"
    least = max(rule.voice_trust, rule.sensitive_voice_trust) if sensitive else rule.voice_trust
    heard = [one for one in support if one.trust >= least]
    itself = new.trust >= least
    needed = max(rule.sensitive_voices if sensitive else rule.voices, len(opposition) + 1)
    return "voices" if len(heard) + itself >= needed else ""


def history(ledger: Ledger, agent: str) -> float:
    """Share of a writer's last memories that were not held; a new writer begins with a benefit of the doubt."""
    recent = ledger.items(agent=agent, hidden=True, limit=_RECENT)
    held = sum(
        not state.visible and not state.superseded_by for state in ledger.states([i.id for i in recent]).values()
    )
    return (len(recent) - held + _BENEFIT) / (len(recent) + _BENEFIT)


def credibility(writer: float, lineage: float, support: float, opposition: float) -> float:
    """C in [0, 1]: the writer's history, the least trusted ancestor, and the share of voices that agree.

    ``support`` and ``opposition`` are sums of the trust of independent voices.
    """
    total = support + opposition
    peace = 0.5 if total == 0 else support / total
    return HISTORY * writer + LINEAGE * lineage + PEACE * peace


def risk(alpha: float, believed: float, conflict: float) -> float:
    """P = alpha (1 - C) + (1 - alpha) times the model's probability of a conflict."""
    return min(1.0, max(0.0, alpha * (1 - believed) + (1 - alpha) * conflict))
