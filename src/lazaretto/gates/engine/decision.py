"""From verdicts to a decision: when a stage is needed, how the verdicts of all stages become a ruling.

Cheap gates judge all items, dear ones only those left open. The strictest ruling wins, and a gate that did not answer
counts. A later gate may clear a gray verdict of a cheap one; the decision names the rule that cleared it. An item
that a person called benign is not held again for the same reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lazaretto.gates.protocol import BESIDE, BLOCKLIST, CALLED_BENIGN, FOR_ITS_WRITER, NEARLY_BENIGN, OVER, UNREAD
from lazaretto.policy import ChannelPolicy, Stage
from lazaretto.types import (
    Cost,
    Decision,
    Evidence,
    GateRun,
    Observation,
    Ruling,
    RunStatus,
    Verdict,
    plain,
)

ANSWERED = (RunStatus.RAN, RunStatus.SKIPPED)
"""Statuses after which a missing verdict is no failure."""
_OPEN = (Ruling.WARN, Ruling.REVIEW)
EVEN = 0.5
"""The risk from which on an allowing gate clears nothing: it thinks harm as likely as not."""

SETTLES = "settles"
"""In a settling verdict's evidence: the gate whose open question it answers. Without it, it answers all."""
HEARD = "heard"
"""In a verdict's evidence: a second reader's answer that the verdict uses already; that reader is not asked again."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The verdicts of all gates, and how each gate ran."""

    verdicts: tuple[Verdict, ...]
    runs: tuple[GateRun, ...]
    settling: frozenset[str] = frozenset()
    """Gates that were asked because others left the item gray, and may clear it."""


def is_gray(verdict: Verdict, policy: ChannelPolicy) -> bool:
    """Whether a verdict leaves the matter open: it warns, asks for review, or allows with a risk in the gray band."""
    low, high = policy.gray
    return verdict.ruling in _OPEN or (verdict.ruling is Ruling.ALLOW and low <= verdict.risk <= high)


def why_not_needed(
    stage: Stage,
    policy: ChannelPolicy,
    observation: Observation,
    verdicts: Sequence[Verdict],
    runs: Sequence[GateRun],
) -> str:
    """Why a stage need not look at an item; empty when it must.

    Answers of earlier gates can spare it, missing answers cannot: a stage runs when an earlier gate gave no answer.
    """
    if any(v.ruling is Ruling.BLOCK for v in verdicts) and not policy.run_all:
        return "an earlier gate blocked"
    wanted = stage.condition
    if wanted.sources and observation.source not in wanted.sources:
        return f"not for items of source {observation.source.value}"
    if not verdicts or any(run.status not in ANSWERED for run in runs):
        return ""
    strictest = max(v.ruling for v in verdicts)
    risk = max(v.risk for v in verdicts)
    if wanted.gray and not (strictest <= Ruling.REVIEW and any(is_gray(v, policy) for v in verdicts)):
        return f"not gray: {strictest.label} at risk {risk:.2f}"
    if wanted.risk and not wanted.risk[0] <= risk <= wanted.risk[1]:
        return f"risk {risk:.2f} is outside {wanted.risk[0]:g} to {wanted.risk[1]:g}"
    return ""


def settles(stage: Stage) -> bool:
    """Whether the gates of a stage may clear gray verdicts of earlier ones: they were asked about exactly those."""
    return stage.clears and bool(stage.condition.gray or stage.condition.risk)


def cleared(
    verdicts: Sequence[Verdict], runs: Sequence[GateRun], settling: frozenset[str], policy: ChannelPolicy
) -> tuple[Verdict, ...]:
    """The gray verdicts that no longer count, because every gate that was asked about them found nothing.

    Only ``warn``, ``review`` and a gray ``allow`` can be cleared, never ``rewrite``, ``quarantine`` or ``block``; a
    settling gate that did not answer, or is itself in doubt, clears nothing. A gate that says whose question it answers
    clears that one's alone.
    """
    asked = [run for run in runs if run.gate in settling and run.status is not RunStatus.SKIPPED]
    answers = [v for v in verdicts if v.gate in settling]
    sure = all(v.ruling is Ruling.ALLOW and v.risk < EVEN and not is_gray(v, policy) for v in answers)
    if not answers or not sure or any(run.status is not RunStatus.RAN for run in asked):
        return ()
    return tuple(
        v
        for v in verdicts
        if v.gate not in settling
        and is_gray(v, policy)
        and all(v.gate in (_gates_answered_by(a) or (v.gate,)) for a in answers)
    )


def _gates_answered_by(answer: Verdict) -> tuple[str, ...]:
    """The gates whose questions a settling verdict answers; none named: all."""
    return tuple(str(evidence.data[SETTLES]) for evidence in answer.evidence if SETTLES in evidence.data)


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


def held_side_by_side(decision: Decision) -> bool:
    """Whether texts, each of which passes by itself, are held together for their words to an agent. Claims of several
    texts are no single statement, and a person is not asked about a mixture."""
    rule = decision.rule.partition(":")[2]
    return not decision.allowed and decision.ruling > Ruling.REVIEW and rule not in FOR_ITS_WRITER


def with_beside(decision: Decision, beside: Decision, fail_mode: Ruling) -> Decision:
    """The decision on an item, with that on the names and fields beside its text: an order there holds the item, and a
    gate without an answer about them counts as one without an answer about the text."""
    found = _order_beside(beside)
    if found is not None:
        return with_verdict(decision, found)
    answered = (*ANSWERED, *((RunStatus.NOT_INSTALLED,) if beside.verdicts else ()))
    failed = {run.gate: run for run in beside.runs if run.status not in answered}
    if not failed:
        return decision
    first = next(iter(failed.values()))
    runs = (*(failed.pop(run.gate, run) for run in decision.runs), *failed.values())
    made = replace(decision, runs=runs, interval=(decision.interval[0], 1.0))
    if fail_mode <= made.ruling:
        return made
    return replace(made, ruling=fail_mode, rule=f"fail:{first.gate}:{first.status.value}")


def _order_beside(decision: Decision) -> Verdict | None:
    """The verdict on an item whose names and fields beside its text, judged by themselves, are held as an order; None
    where they are not. A doubt about names, or a value in them, holds nothing, unless they are too long to be read."""
    least = {UNREAD: Ruling.REVIEW}
    found = [v for v in decision.active_verdicts if v.ruling >= least.get(v.rule, Ruling.QUARANTINE)]
    if not found:
        return None
    worst = max(found, key=lambda verdict: (verdict.ruling, verdict.risk))
    words = f"The names or fields beside its text read like an order ({worst.gate}:{worst.rule})."
    evidence = (Evidence("measure", words, {"gate": worst.gate, "rule": worst.rule}),)
    return Verdict(
        FIELDS, decision.item, worst.ruling, worst.risk, worst.interval, BESIDE, evidence, worst.taxonomy
    )  # fmt: skip


FIELDS = "fields"
"""The name in verdicts and rules, in the place of a gate's name."""


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


# Records in the caller's own stores have owners: the first writer whose version was not held.
#
# Another writer's version is judged as a change. Ordinary changes are open to all that are trusted as much. Where
# money, access, safety, permissions, receivers, sources of code or deciders are concerned, only the owner or the crew's
# own people may change a record; other changes wait for a person before they reach the store.
