"""Thresholds from people's labels: only where the labels agree, and within the policy's bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from lazaretto.gates.engine.thresholds import Cut
from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.policy import LearnPolicy
from lazaretto.types import COPY_OF, EventKind, Ruling

_TRUTH = {"harmful": True, "benign": False}
Judged = dict[str, list[tuple[float, bool]]]
"""Gate -> (risk, whether a person called it harmful) of the items that the gate did not quarantine."""


def judged(ledger: Ledger, gates: tuple[str, ...]) -> Judged:
    """People's labels of items that these gates let in or sent to a person; the last label of each counts."""
    rulings: dict[str, Mapping[str, tuple[float, Ruling]]] = {}
    truths: dict[str, bool] = {}
    for event in standing_events(ledger, (EventKind.RULED, EventKind.LABELLED)):
        body = event.body or {}
        if event.kind is EventKind.LABELLED and body.get("label") in _TRUTH:
            truths.pop(event.subject, None)
            if COPY_OF not in body:
                truths[event.subject] = _TRUTH[body["label"]]
        elif event.kind is EventKind.RULED and body.get("verdicts"):
            rulings[event.subject] = {
                str(v["gate"]): (float(v["risk"]), Ruling.from_label(str(v["ruling"])))
                for v in body["verdicts"]
                if v["gate"] in gates
            }
    found: Judged = defaultdict(list)
    for item, harmful in truths.items():
        for gate, (risk, ruling) in rulings.get(item, {}).items():
            if ruling <= Ruling.REVIEW:
                found[gate].append((risk, harmful))
    return dict(found)


def calibrate(ledger: Ledger, bounds: LearnPolicy) -> dict[str, Cut]:
    """The thresholds of gates that labels ask for; none where labels are few or contradict each other."""
    cuts = {}
    for gate, labelled in judged(ledger, bounds.gates).items():
        benign = sorted(risk for risk, harmful in labelled if not harmful)
        harmful = sorted(risk for risk, harmful in labelled if harmful)
        clear = max((r for r in benign if r <= bounds.clears_up_to and not (harmful and harmful[0] <= r)), default=0.0)
        if sum(risk <= clear for risk in benign) < bounds.min_labels:
            clear = 0.0
        ask = min((r for r in harmful if r >= bounds.reviews_from and not (benign and benign[-1] >= r)), default=None)
        if ask is not None and sum(risk >= ask for risk in harmful) < bounds.min_labels:
            ask = None
        if clear or ask is not None:
            cuts[gate] = Cut(round(clear, 4), None if ask is None else round(ask, 4), len(labelled))
    return cuts
