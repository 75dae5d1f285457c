"""Makes a decision from verdicts: the strictest ruling wins, and a gate that did not answer counts.

A later gate may clear a gray verdict of a cheap one; the decision names the rule that cleared it. An item that a person
called benign is not held again for the same reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lazaretto.gates.engine.cascade import ANSWERED, cleared
from lazaretto.gates.engine.runner import Examination
from lazaretto.gates.protocol import BLOCKLIST, CALLED_BENIGN, FOR_ITS_WRITER, NEARLY_BENIGN, OVER
from lazaretto.policy import ChannelPolicy
from lazaretto.types import Cost, Decision, Evidence, GateRun, Ruling, RunStatus, Verdict, plain


def with_verdict(decision: Decision, verdict: Verdict | None) -> Decision:
    """The decision with the verdict on the item's sources, or for the owner of its record: it can only become stricter,
    and no stage clears it."""
    if verdict is None:
        return decision
    verdicts = (*decision.verdicts, verdict)
    if verdict.ruling <= decision.ruling:
        return replace(decision, verdicts=verdicts)
    return replace(
        decision,
        ruling=verdict.ruling,
        risk=max(decision.risk, verdict.risk),
        interval=(decision.interval[0], 1.0),
        rule=f"{verdict.gate}:{verdict.rule}",
        verdicts=verdicts,
    )


def ruling_body(decision: Decision) -> dict[str, Any]:
    """A decision as the ledger keeps it, without replacement texts that quote other memories.

    A memory that is erased later must not live on in the ruling on another.
    """
    quoting = {v.replacement for v in decision.verdicts if v.rule in FOR_ITS_WRITER}
    verdicts = tuple(replace(v, replacement=None) if v.rule in FOR_ITS_WRITER else v for v in decision.verdicts)
    offered = None if decision.replacement in quoting else decision.replacement
    body: dict[str, Any] = plain(replace(decision, verdicts=verdicts, replacement=offered))
    del body["kept"]  # an item of its own says so
    return body


def held_without_it(made: Decision, instead: Decision) -> str:
    """The message about a text that is held even without its forbidden part; it never quotes the text."""
    return (
        f"{made.item} holds something that may not be kept ({made.rule}), and without it is held too ({instead.rule}): "
        f"the text without it waits as {instead.item}; 'lazaretto release {instead.item}' keeps that, and that alone"
    )


def decide(item: str, examined: Examination, policy: ChannelPolicy, ms: float) -> Decision:
    """The decision about one item. The time is read from the clock, because gates run side by side."""
    runs = examined.runs
    word, excused = person_says(examined.verdicts)
    settled = (*cleared(examined.verdicts, runs, examined.settling, policy), *excused)
    verdicts = tuple(v for v in examined.verdicts if v not in settled)
    unanswered = [run for run in runs if run.status not in ANSWERED]
    strictest = max(verdicts, key=lambda v: (v.ruling, v.gate in examined.settling, v.risk), default=None)
    ruling = strictest.ruling if strictest else Ruling.ALLOW
    if word is not None and ruling <= (Ruling.WARN if excused else Ruling.ALLOW):
        strictest = word
    rule = f"{strictest.gate}:{strictest.rule}" if strictest else "policy:no_gates"
    low = max((v.interval[0] for v in verdicts), default=0.0)
    high = max((v.interval[1] for v in verdicts), default=1.0)
    failed = [run for run in unanswered if run.status is not RunStatus.NOT_INSTALLED or strictest is None]
    if unanswered:
        high = 1.0  # nobody knows what the missing gate would have found
    if failed and (policy.fail_mode > ruling or strictest is None):
        ruling = max(ruling, policy.fail_mode)
        rule = f"fail:{failed[0].gate}:{failed[0].status.value}"
    return Decision(
        item=item,
        ruling=ruling,
        risk=max((v.risk for v in verdicts), default=0.5),
        interval=(low, high),
        rule=rule,
        verdicts=examined.verdicts,
        runs=runs,
        cost=Cost(ms, sum(v.cost.tokens for v in examined.verdicts), sum(v.cost.calls for v in examined.verdicts)),
        replacement=next((v.replacement for v in verdicts if v.ruling is ruling and v.replacement is not None), None),
        settled=tuple(dict.fromkeys(f"{v.gate}:{v.rule}" for v in settled)),
    )


FORM = "structure"
"""The gate that judges form: a text nearly the same as the one a person read may hide something in its form."""


def person_says(verdicts: Sequence[Verdict]) -> tuple[Verdict | None, tuple[Verdict, ...]]:
    """The word of a person who called the same benign, and the verdicts that it overrules.

    An item that is only nearly the same is not excused from a block, nor for its form. The word judges content, not who
    may write where, nor contradictions that came up later.
    """
    words = (v for v in verdicts if v.gate == BLOCKLIST and v.rule in (CALLED_BENIGN, NEARLY_BENIGN))
    word = next(words, None)
    if word is None:
        return None, ()
    known = {str(item) for evidence in word.evidence for item in evidence.data.get(OVER) or ()}
    return word, tuple(v for v in verdicts if v.ruling > Ruling.WARN and _excused(v, word, known))


def _excused(verdict: Verdict, word: Verdict, known: set[str]) -> bool:
    if word.rule == NEARLY_BENIGN and (verdict.ruling is Ruling.BLOCK or verdict.gate == FORM):
        return False
    return settled_by_word(verdict, known)


def settled_by_word(verdict: Verdict, known: Collection[str]) -> bool:
    """Whether a person's decision that exactly this text is fine answers a verdict on it.

    ``known``: the items that the text was known to contradict when the word was given.
    """
    claims = [evidence.data for evidence in verdict.evidence if evidence.kind == "claim" and evidence.data.get("with")]
    disputed = {str(i) for data in claims if data.get("relation") in _DISPUTES for i in data["with"]}
    return disputed <= set(known) and (verdict.rule not in FOR_ITS_WRITER or bool(disputed))


_DISPUTES = ("contradicts", "updates")


def decision_from_body(body: Mapping[str, Any]) -> Decision:
    """A decision read back from its form in the ledger, which ``plain`` made."""

    def verdict(row: Mapping[str, Any]) -> Verdict:
        low, high = row["interval"]
        return Verdict(
            row["gate"], row["subject"], Ruling.from_label(row["ruling"]), row["risk"], (low, high), row["rule"],
            tuple(Evidence(e["kind"], e["summary"], e["data"]) for e in row["evidence"]), tuple(row["taxonomy"]),
            Cost(**row["cost"]), row["replacement"],
        )  # fmt: skip

    low, high = body["interval"]
    runs = (GateRun(r["gate"], RunStatus(r["status"]), r["ms"], r["detail"]) for r in body["runs"])
    would = body["would"]
    return Decision(
        body["item"], Ruling.from_label(body["ruling"]), body["risk"], (low, high), body["rule"],
        tuple(map(verdict, body["verdicts"])), tuple(runs), Cost(**body["cost"]), body["replacement"],
        tuple(body["settled"]), None if would is None else Ruling.from_label(would),
    )  # fmt: skip
