"""Replay: earlier rulings computed again under other settings, from recorded numbers, without reading the items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lazaretto.errors import ModelError
from lazaretto.gates.blocklist_entries import LOOK
from lazaretto.gates.engine.decision import (
    Examination,
    decide,
    decision_from_body,
    settles,
    why_not_needed,
    with_verdict,
)
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import BLOCKLIST, Gate, Tunable
from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.policy import Policy, Stage
from lazaretto.types import COPY_OF, MACHINE, Decision, EventKind, GateRun, Observation, Ruling, RunStatus, Verdict

_TRUTH = {"harmful": True, "benign": False}


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One item with its first decision, and its label if a person gave one."""

    observation: Observation
    decision: Decision
    harmful: bool | None
    """The person's label; None: none."""

    @property
    def ruled(self) -> Ruling:
        """The ruling, or the one that would have been given in observe mode."""
        return self.decision.ruling if self.decision.would is None else self.decision.would


@dataclass(frozen=True, slots=True)
class Replayed:
    """The ruling that an item would have got."""

    ruling: Ruling
    sure: bool
    """False where the item would have to be read again; the ruling then rests on the recorded numbers alone."""
    rule: str = ""
    """``gate:rule`` that decided."""


def judged_items(ledger: Ledger, since: float = 0.0) -> tuple[JudgedItem, ...]:
    """Every item that gates judged since then, by its first ruling, with the last decision of people on it. A copy that
    was settled with another is left out: one text is one false alarm, or one finding."""
    first: dict[str, Decision] = {}
    labels: dict[str, bool] = {}
    copies: set[str] = set()
    for event in standing_events(ledger, (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)):
        body = event.body or {}
        if event.kind is not EventKind.RULED:
            (copies.add if COPY_OF in body else copies.discard)(event.subject)
        if event.kind is EventKind.LABELLED and body.get("label") in _TRUTH:
            labels[event.subject] = _TRUTH[body["label"]]
        elif event.kind is EventKind.RELEASED and body.get("by") != MACHINE:
            labels[event.subject] = False
        elif event.kind is EventKind.RULED and body.get("runs") and event.time >= since and event.subject not in first:
            first[event.subject] = decision_from_body(body)
    for item, decision in first.items():
        if item not in labels and any(labels.get(known) for known in _known_as(decision)):
            labels[item] = True
    found = {item.id: item for item in ledger.items(ids=tuple(first), any_state=True, limit=None)} if first else {}
    return tuple(
        JudgedItem(found[item], decision, labels.get(item))
        for item, decision in first.items()
        if item in found and item not in copies
    )


def _known_as(decision: Decision) -> list[str]:
    """The known items that an item equals, where the block list alone held it."""
    matches = [v for v in decision.verdicts if v.gate == BLOCKLIST and f"{v.gate}:{v.rule}" == decision.rule]
    return [str(e.data["item"]) for v in matches if v.rule != LOOK for e in v.evidence if e.kind == "match"]


class Replay:
    """Rules again under one policy."""

    def __init__(self, policy: Policy, gates: Mapping[str, Gate], thresholds: Thresholds) -> None:
        """``gates``: installed gates of the policy, made from its tables; ``thresholds``: those learnt from labels."""
        self._policy, self._thresholds = policy, thresholds
        self._gates: dict[str, Tunable] = {name: gate for name, gate in gates.items() if isinstance(gate, Tunable)}

    def ruled(self, item: JudgedItem, changed: Iterable[str] = ()) -> Replayed:
        """The ruling of this policy; ``changed``: gates whose settings differ from those at the time of judging."""
        rules, other = self._policy.channels[item.observation.channel], set(changed)
        recorded = {verdict.gate: verdict for verdict in item.decision.verdicts}
        runs = {run.gate: run for run in item.decision.runs}
        verdicts, made, settling, sure = list[Verdict](), list[GateRun](), set[str](), True
        for stage in map(Stage.of, rules.stages):
            spared = why_not_needed(stage, rules, item.observation, verdicts, made)
            if spared:
                made += [GateRun(name, RunStatus.SKIPPED, detail=spared) for name in stage.gates]
                continue
            if settles(stage):
                settling.update(stage.gates)
            earlier = tuple(verdicts)
            for name in stage.gates:
                verdict, run = recorded.pop(name, None), runs.get(name)
                if verdict is None:
                    sure &= run is not None and run.status is not RunStatus.SKIPPED
                    made.append(run if run is not None else GateRun(name, RunStatus.SKIPPED))
                    continue
                again = self._again(item.observation, verdict, earlier)
                sure &= again is not None or name not in other
                verdicts.append(again or verdict)
                made.append(run or GateRun(name, RunStatus.RAN))
        decision = decide(
            item.observation.id, Examination(tuple(verdicts), tuple(made), frozenset(settling)), rules, 0.0
        )
        named = {name for name, _ in self._policy.gate_names()}
        for verdict in recorded.values():
            if verdict.gate not in named:  # a verdict on its parents, or of the owner of its record
                decision = with_verdict(decision, verdict)
        return Replayed(decision.ruling, sure, decision.rule)

    def answer_of(self, gate: str, item: JudgedItem) -> tuple[Ruling, str] | None:
        """Ruling and rule of one gate, where its recorded numbers are enough; else None."""
        verdict = next((verdict for verdict in item.decision.verdicts if verdict.gate == gate), None)
        earlier = tuple(v for v in item.decision.verdicts if v.gate != gate)
        made = None if verdict is None else self._again(item.observation, verdict, earlier)
        return None if made is None else (made.ruling, made.rule)

    def _again(self, observation: Observation, verdict: Verdict, earlier: tuple[Verdict, ...]) -> Verdict | None:
        gate = self._gates.get(verdict.gate)
        if gate is None:
            return None
        try:
            made = gate.ruled_again(observation, verdict, earlier, self._policy.trust)
        except ModelError:
            return None
        return None if made is None else self._thresholds.moved(made)


def set_to(policy: Policy, changes: Mapping[tuple[str, str], float]) -> Policy:
    """The policy with other settings of gates: (gate, setting) -> value."""
    tables = {gate: dict(table) for gate, table in policy.gates.items()}
    for (gate, setting), value in changes.items():
        tables.setdefault(gate, {})[setting] = value
    return replace(policy, gates=tables)
