"""A person's earlier label of a content overrules a debate about it, as it overrules the gates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lazaretto.gates.blocklist import NEAR, Entry, persons_decision
from lazaretto.gates.content.records import Content, Outcome
from lazaretto.gates.protocol import GateContext
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import BY_PERSON, EventKind

PERSON = BY_PERSON.rstrip(":")
"""The rule of a report whose outcome is a person's word."""


def with_peoples_word(
    report: Mapping[str, Any], content: Content, ledger: Ledger, graph: ProvenanceGraph, policy: Policy
) -> dict[str, Any]:
    """The report of a debate; where a person has spoken about the same content, that word is its outcome.

    Nearly the same words are not excused from what the debate finds unsafe. Blocks: it reads the ledger.
    """
    if content.description:
        return dict(report)
    shown = GateContext(ledger, graph, policy.gates.get("blocklist", {}), limits=policy.limits)
    match = persons_decision(content.text, content.image, shown)
    if match is None or (match[0] == NEAR and report["label"] == Outcome.UNSAFE.value):
        return dict(report)
    entry, label = match[1], Outcome.SAFE if match[1].cleared else Outcome.UNSAFE
    words = (
        f"The same was called {'benign' if entry.cleared else 'harmful'} before{_by_whom(entry, ledger)}: {entry.item}."
    )
    outcome = {"label": label.value, "rule": PERSON, "rule_text": words, "reasoning": words}
    return {**report, **outcome, "undecided": ""}


def _by_whom(entry: Entry, ledger: Ledger) -> str:
    """Name and day (UTC) of the label or release that counts; empty where an unsigned repair does."""
    about = (EventKind.LABELLED, EventKind.RELEASED)
    given = [event for event in standing_events(ledger, about, subject=entry.item) if (event.body or {}).get("by")]
    if not given:
        return ""
    day = datetime.fromtimestamp(given[-1].time, UTC).date()
    return f" by {(given[-1].body or {})['by']} on {day} (UTC)"
