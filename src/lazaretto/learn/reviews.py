"""Reviews: people's labels and upheld appeals in the ledger, as cases for the Curator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lazaretto.gates.content.records import Content, Label
from lazaretto.gates.content.report import DEBATE
from lazaretto.learn.curate import FailedCase
from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.types import BY_PERSON, COPY_OF, EventKind, Observation, Ruling

_TRUTH = {"harmful": Label.UNSAFE, "benign": Label.SAFE}


def reviewed(ledger: Ledger) -> list[FailedCase]:
    """Every item that a person labelled and the gates ruled on, confirmed or overturned, with its recorded debate.

    An appeal without a label is open and teaches nothing.
    """
    labels = standing_events(ledger, [EventKind.LABELLED])
    labelled = dict.fromkeys(event.subject for event in labels if COPY_OF not in (event.body or {}))
    return [case for item in labelled if (case := review_of(item, ledger)) is not None]


def review_of(item: str, ledger: Ledger, condemned: bool = False) -> FailedCase | None:
    """One item with its label (or unsafe where a repair ``condemned`` it) and the ruling of the gates.

    A picture is represented by the text that the debate's vision model and OCR wrote about it; without any text it
    cannot be a precedent.
    """
    decision: Mapping[str, Any] | None = None
    label, source = "", "repair"
    kinds = (EventKind.RULED, EventKind.LABELLED, EventKind.APPEALED)
    for event in standing_events(ledger, kinds, subject=item):
        if event.body is None:
            continue
        if event.kind is EventKind.LABELLED:
            label, source = str(event.body.get("label")), "appeal" if source == "appeal" else "review"
        elif event.kind is EventKind.APPEALED:
            source = "appeal"
        # a label is recorded as a ruling, too; and a gate that could not answer has no opinion to correct
        elif not str(event.body.get("rule", "")).startswith((BY_PERSON, "fail:")):
            decision = event.body
    truth = _TRUTH.get(label) or (Label.UNSAFE if condemned else None)
    if truth is None or decision is None:
        return None
    held = Ruling.from_label(str(decision["ruling"])) > Ruling.WARN
    observation = ledger.item(item)
    debate = _debate(decision)
    content = Content(item, observation.text, description=_description(debate))
    if not (content.text.strip() or content.description.strip()):
        return None
    report = dict(debate) if debate.get("transcript") else _quoted(decision, observation)
    if not str(decision["rule"]).startswith(
        "content:"
    ):  # the debate let it pass, or was not asked: another gate held it
        report["rule"] = decision["rule"]
    return FailedCase(content, truth, Label.UNSAFE if held else Label.SAFE, report, source)


def _evidence(decision: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for verdict in decision.get("verdicts", ()):
        yield from verdict.get("evidence", ())


def _debate(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """The transcript that the ruling was recorded with; empty where no debate was held."""
    return next((e["data"] for e in _evidence(decision) if e.get("kind") == DEBATE), {})


def _description(debate: Mapping[str, Any]) -> str:
    return "\n".join(part for key in ("description", "read_text") if (part := str(debate.get(key) or "").strip()))


def _quoted(decision: Mapping[str, Any], observation: Observation) -> dict[str, Any]:
    """Without a debate: the quotes of the gates. Gates quote evidence against an item, so this is the strict side."""
    quotes = []
    for evidence in _evidence(decision):
        data = evidence.get("data", {})
        if evidence.get("kind") == "span":
            span = observation.text[data["start"] : data["end"]] if data.get("view") == "plain" else ""
            quotes.append(str(data.get("quote") or span))
    risk = float(decision.get("risk", 0.5))
    speech = {"role": "strict", "round": 1, "score": risk, "argument": "", "quotes": [q for q in quotes if q.strip()]}
    taxonomy = [t for verdict in decision.get("verdicts", ()) for t in verdict.get("taxonomy", ())]
    transcript = [speech] if speech["quotes"] else []
    return {"rule": decision.get("rule", ""), "transcript": transcript, "taxonomy": taxonomy}
