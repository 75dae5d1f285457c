"""What people said about rulings, as lessons: labels and upheld appeals of the ledger feed the Curator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazaretto.gates.content.records import Content, Label
from lazaretto.learn.curate import FailedCase
from lazaretto.ledger import Ledger
from lazaretto.types import EventKind, Ruling

_TRUTH = {"harmful": Label.UNSAFE, "benign": Label.SAFE}


def reviewed_failures(ledger: Ledger) -> list[FailedCase]:
    """Items whose last ruling a person's label contradicts. An appeal without a label is open and teaches nothing."""
    ruled: dict[str, Mapping[str, Any]] = {}
    labels: dict[str, str] = {}
    appealed: set[str] = set()
    for event in ledger.events(kinds=[EventKind.RULED, EventKind.LABELLED, EventKind.APPEALED]):
        if event.body is None:
            continue
        if event.kind is EventKind.RULED:
            if not str(event.body.get("rule", "")).startswith("person:"):  # a label is recorded as a ruling, too
                ruled[event.subject] = event.body
        elif event.kind is EventKind.LABELLED:
            labels[event.subject] = str(event.body.get("label"))
        else:
            appealed.add(event.subject)
    wrong = []
    for item, word in labels.items():
        truth, decision = _TRUTH.get(word), ruled.get(item)
        if truth is None or decision is None:
            continue
        held = Ruling.from_label(str(decision["ruling"])) > Ruling.WARN
        said = Label.UNSAFE if held else Label.SAFE
        observation = ledger.item(item)
        if said is truth or not observation.text.strip():
            continue
        source = "appeal" if item in appealed else "review"
        wrong.append(FailedCase(Content(item, observation.text), truth, said, _report(decision), source))
    return wrong


def _report(decision: Mapping[str, Any]) -> dict[str, Any]:
    """What the Curator can use of a recorded decision: its rule, and the quotes that stood against the truth's side."""
    quotes = [
        str(evidence["data"]["quote"])
        for verdict in decision.get("verdicts", ())
        for evidence in verdict.get("evidence", ())
        if evidence.get("kind") == "span" and "quote" in evidence.get("data", {})
    ]
    speech = {"role": "strict", "round": 1, "score": float(decision.get("risk", 0.5)), "argument": "", "quotes": quotes}
    taxonomy = [t for verdict in decision.get("verdicts", ()) for t in verdict.get("taxonomy", ())]
    return {"rule": decision.get("rule", ""), "transcript": [speech] if quotes else [], "taxonomy": taxonomy}
