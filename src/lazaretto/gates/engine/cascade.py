"""Cheap gates judge all items, dear ones only those left open: when a stage is needed, which verdicts it settles."""

from __future__ import annotations

from collections.abc import Sequence

from lazaretto.policy import ChannelPolicy, Stage
from lazaretto.types import GateRun, Observation, Ruling, RunStatus, Verdict

ANSWERED = (RunStatus.RAN, RunStatus.SKIPPED)
"""Statuses after which a missing verdict is no failure."""
_OPEN = (Ruling.WARN, Ruling.REVIEW)
EVEN = 0.5
"""The risk from which on an allowing gate clears nothing: it thinks harm as likely as not."""

SETTLES = "settles"
"""In a settling verdict's evidence: the gate whose open question it answers. Without it, it answers all."""
HEARD = "heard"
"""In a verdict's evidence: a second reader's answer that the verdict uses already; that reader is not asked again."""


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
