"""The memory gate before the case library.

Judges read a case's summary and cues as guidance, so these are screened like a memory of another agent. The content of
a case may be as harmful as it likes.
"""

from __future__ import annotations

from dataclasses import replace

from lazaretto.gates.content.records import Case
from lazaretto.policy import Policy, Stage
from lazaretto.types import Decision, Ruling, RunStatus

CURATOR = "case-curator"
"""The agent name under which cases are recorded."""
GATE = "memory"
LOADING_S = 120.0
"""The first case waits until the gate's weights are loaded."""


def advice_of(case: Case) -> str:
    """The guidance in a case that judges would read; empty where it has none."""
    return "\n".join((case.summary, *case.cues)).strip()


def why_refused(decision: Decision) -> str:
    """The reason why the advice of a case is refused; empty where it is admitted. Unjudged advice is refused."""
    if decision.ruling >= Ruling.QUARANTINE:
        return f"{decision.ruling.label} by {decision.rule}"
    run = next(run for run in decision.runs if run.gate == GATE)
    if run.status is not RunStatus.RAN:
        return f"nobody could read its advice: {run.status.value} {run.detail}".strip()
    return ""


def with_memory_gate(policy: Policy) -> Policy:
    """The policy with the memory gate on the memory channel, for orders alone, and time to load it."""
    memory = policy.channels.memory
    named = any(GATE in Stage.of(stage).gates for stage in memory.stages)
    stages = memory.stages if named else (*memory.stages, (GATE,))
    stages = tuple(kept for stage in map(Stage.of, stages) if (kept := _without_moderation(stage)).gates)
    memory = replace(
        memory, stages=stages, timeout_s=max(memory.timeout_s, LOADING_S), budget_s=max(memory.budget_s, LOADING_S)
    )
    # cases hold claims that contradict each other, and none of them is a memory of the agents
    settings = {**policy.gates.get(GATE, {}), "claims": {"compare": False}}
    gates = {**policy.gates, GATE: settings}
    return replace(policy, mode="enforce", channels=replace(policy.channels, memory=memory), gates=gates)


def _without_moderation(stage: Stage) -> Stage:
    """The stage without the content gate: advice about harm names harm without being harmful."""
    return replace(stage, gates=tuple(gate for gate in stage.gates if gate != "content"))
