"""What was judged before, ruled again under other settings: from the numbers that the rulings keep, without reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lazaretto.errors import ModelError
from lazaretto.gates.blocklist_entries import LOOK
from lazaretto.gates.engine.cascade import settles, why_not_needed
from lazaretto.gates.engine.decision import decide, decision_from_body, with_verdict
from lazaretto.gates.engine.runner import Examination
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import BLOCKLIST, Gate, Tunable
from lazaretto.ledger import Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.policy import Policy, Stage
from lazaretto.types import COPY_OF, MACHINE, Decision, EventKind, GateRun, Observation, Ruling, RunStatus, Verdict

_TRUTH = {"harmful": True, "benign": False}


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One item as it was judged when it came, and what a person said of it since."""

    observation: Observation
    decision: Decision
    harmful: bool | None
    """None: nobody said."""

    @property
    def ruled(self) -> Ruling:
        """What was ruled, or would have been where the policy only observed."""
        return self.decision.ruling if self.decision.would is None else self.decision.would


@dataclass(frozen=True, slots=True)
class Replayed:
    """What an item would have been ruled."""

    ruling: Ruling
    sure: bool
    """False where only reading it again could tell; the ruling is then by what is known."""
    rule: str = ""
    """``gate:rule`` of what decided."""


def judged_items(ledger: Ledger, since: float = 0.0) -> tuple[JudgedItem, ...]:
    """Every item that gates judged since then, by its first ruling, with the last word of people on it. A copy that was
    settled with another is left out: one text is one false alarm, or one finding."""
    first: dict[str, Decision] = {}
    words: dict[str, bool] = {}
    copies: set[str] = set()
    for event in standing_events(ledger, (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)):
        body = event.body or {}
        if event.kind is not EventKind.RULED:
            (copies.add if COPY_OF in body else copies.discard)(event.subject)
        if event.kind is EventKind.LABELLED and body.get("label") in _TRUTH:
            words[event.subject] = _TRUTH[body["label"]]
        elif event.kind is EventKind.RELEASED and body.get("by") != MACHINE:
            words[event.subject] = False
        elif event.kind is EventKind.RULED and body.get("runs") and event.time >= since and event.subject not in first:
            first[event.subject] = decision_from_body(body)
    for item, decision in first.items():
        if item not in words and any(words.get(one) for one in _known_as(decision)):
            words[item] = True
    found = {one.id: one for one in ledger.items(ids=tuple(first), hidden=True, limit=None)} if first else {}
    return tuple(
        JudgedItem(found[item], decision, words.get(item))
        for item, decision in first.items()
        if item in found and item not in copies
    )


def _known_as(decision: Decision) -> list[str]:
    """What an item was held as the same as, by the block list alone."""
    told = [v for v in decision.verdicts if v.gate == BLOCKLIST and f"{v.gate}:{v.rule}" == decision.rule]
    return [str(e.data["item"]) for v in told if v.rule != LOOK for e in v.evidence if e.kind == "match"]


class Replay:
    """Rules again under one policy."""

    def __init__(self, policy: Policy, gates: Mapping[str, Gate], thresholds: Thresholds) -> None:
        """``gates``: those of the policy that are here, made from its tables; ``thresholds``: what labels moved."""
        self._policy, self._thresholds = policy, thresholds
        self._gates: dict[str, Tunable] = {name: gate for name, gate in gates.items() if isinstance(gate, Tunable)}

    def ruled(self, one: JudgedItem, changed: Iterable[str] = ()) -> Replayed:
        """What the policy would have ruled; ``changed``: gates that are set otherwise than when it was judged."""
        rules, other = self._policy.channels[one.observation.channel], set(changed)
        said = {verdict.gate: verdict for verdict in one.decision.verdicts}
        runs = {run.gate: run for run in one.decision.runs}
        verdicts, made, settling, sure = list[Verdict](), list[GateRun](), set[str](), True
        for stage in map(Stage.of, rules.stages):
            spared = why_not_needed(stage, rules, one.observation, verdicts, made)
            if spared:
                made += [GateRun(name, RunStatus.SKIPPED, detail=spared) for name in stage.gates]
                continue
            if settles(stage):
                settling.update(stage.gates)
            earlier = tuple(verdicts)
            for name in stage.gates:
                verdict, run = said.pop(name, None), runs.get(name)
                if verdict is None:
                    sure &= run is not None and run.status is not RunStatus.SKIPPED
                    made.append(run if run is not None else GateRun(name, RunStatus.SKIPPED))
                    continue
                again = self._again(one.observation, verdict, earlier)
                sure &= again is not None or name not in other
                verdicts.append(again or verdict)
                made.append(run or GateRun(name, RunStatus.RAN))
        decision = decide(
            one.observation.id, Examination(tuple(verdicts), tuple(made), frozenset(settling)), rules, 0.0
        )
        named = {name for name, _ in self._policy.gate_names()}
        for verdict in said.values():
            if verdict.gate not in named:  # of its sources, or of the owner of its record
                decision = with_verdict(decision, verdict)
        return Replayed(decision.ruling, sure, decision.rule)

    def said(self, gate: str, one: JudgedItem) -> tuple[Ruling, str] | None:
        """What one gate would have said, where its own numbers tell: ruling and rule."""
        verdict = next((verdict for verdict in one.decision.verdicts if verdict.gate == gate), None)
        earlier = tuple(v for v in one.decision.verdicts if v.gate != gate)
        made = None if verdict is None else self._again(one.observation, verdict, earlier)
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
