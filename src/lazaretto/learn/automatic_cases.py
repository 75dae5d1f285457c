"""Labels and repairs become cases of the debate by themselves, a few with every step of ``guard.recheck``.

They are read from the ledger in order: items called harmful, items that a repair or rehearsal took out, held items
called benign. Lessons pass the memory gate and go live in one step with the place up to which the ledger was read. When
a decision is taken back, its case goes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lazaretto.cases.casebook import Casebook
from lazaretto.cases.records import Case, Label
from lazaretto.gates.engine.runner import GateSet
from lazaretto.gates.protocol import FOR_ITS_WRITER, Gate
from lazaretto.kept_texts import clear_when_forgotten
from lazaretto.learn.curate import FailedCase, extract_lesson, review_of
from lazaretto.learn.lessons import repair_lessons
from lazaretto.ledger import Ledger
from lazaretto.policy import ChannelPolicy, Channels, Policy, Stage
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import COPY_OF, Channel, Decision, Event, EventKind, Observation, Ruling, RunStatus, SourceClass

_KINDS = (EventKind.LABELLED, EventKind.WITHDRAWN, EventKind.REPAIRED, EventKind.UNDONE, EventKind.ERASED)
LOOP = "loop"
"""The name under which this module puts a version of the library in use."""


@dataclass(slots=True)
class _Due:
    """Items with a new decision, and the place up to which the ledger was read."""

    book: Casebook
    items: dict[str, None] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    read: int = 0


class AutomaticCases:
    """Makes cases from the decisions in one guard's ledger."""

    def __init__(self, ledger: Ledger, policy: Policy, gates: GateSet, ready: dict[str, Gate]) -> None:
        """``gates`` are the guard's own, ``ready`` those of them that were made elsewhere."""
        self._ledger, self._policy, self._ready = ledger, policy, ready
        self._reads = gates.installed(GATE)
        self._book: Casebook | None = None
        self._admission: GateSet | None = None
        clear_when_forgotten(self)

    def clear(self) -> None:
        """Forget the cases: they are read again in the next step."""
        self._book = None

    async def step(self, in_store: Callable[..., Awaitable[Any]]) -> tuple[str, ...]:
        """Make or withdraw the cases of the next few decisions; the ids of the new ones.

        Without a memory gate nothing can screen them: they wait until there is one.
        """
        if not self._policy.learn.cases or not self._reads:
            return ()
        due: _Due = await in_store(self._due)
        if not due.read:
            return ()
        lessons: dict[str, Case | None] = {}
        refused: dict[str, str] = {}
        for item in due.items:
            wrong = await in_store(self._failed, item)
            lesson, why = await self._admitted(wrong) if wrong is not None else (None, "")
            lessons[item] = lesson
            if lesson is not None and why:
                refused[lesson.id] = why
        return await in_store(self._revise, lessons, due, refused)  # type: ignore[no-any-return]

    def _due(self) -> _Due:
        book = self._book = self._book or Casebook(self._ledger)
        book.refresh()
        due, lessons = _Due(book), 0
        for event in self._ledger.events(after=book.read, kinds=_KINDS):
            decided = dict.fromkeys(self._items_of(event, book))
            if lessons and lessons + len(decided) > self._policy.learn.cases:
                break
            lessons += len(decided)
            due.items |= decided
            due.read = event.seq
            if event.kind is EventKind.ERASED:
                due.erased.add(event.subject)
        return due

    def _items_of(self, event: Event, book: Casebook) -> list[str]:
        """The items that an event decides about; items that a repair only sends to review are not decided."""
        if event.kind in (EventKind.LABELLED, EventKind.WITHDRAWN):
            return [] if COPY_OF in (event.body or {}) else [event.subject]
        if event.kind is EventKind.ERASED:
            return [event.subject] if book.stands_for(event.subject) else []
        receipts = [event]
        if event.kind is EventKind.UNDONE:
            receipts = list(self._ledger.events(subject=event.subject, kinds=(EventKind.REPAIRED,)))
        lessons = [lesson for receipt in receipts for lesson in repair_lessons(receipt.body or {})]
        return [item for item, ruling, _ in lessons if ruling >= Ruling.QUARANTINE or ruling is Ruling.ALLOW]

    def _failed(self, item: str) -> FailedCase | None:
        """The case to learn from an item in its present state; None where it is no matter for the debate."""
        state = self._ledger.state(item)
        found = None if state.erased else review_of(item, self._ledger, condemned=state.hidden)
        if found is None or (found.truth is Label.SAFE and found.ruled == Label.SAFE.value):
            return None
        rule = str(found.report.get("rule", "")).rpartition(":")[2]
        pictured = self._ledger.item(item).image is not None and not found.content.description
        if rule in FOR_ITS_WRITER or pictured:  # held for its source, or for a picture without a description
            return None
        return found

    async def _admitted(self, wrong: FailedCase) -> tuple[Case, str]:
        """The lesson, and why the memory gate refuses it; a lesson that is refused is tried without its quotes."""
        full = await extract_lesson(wrong)
        turn = "and" if wrong.ruled == wrong.truth else "but"
        bare = replace(full, cues=(), summary=f"Ruled {wrong.ruled}, {turn} {wrong.truth.value}.")
        why = ""
        for case in (full, bare):
            why = await self._refusal(case)
            if not why:
                return case, ""
        return full, why

    async def _refusal(self, case: Case) -> str:
        if self._admission is None:
            self._admission = await asyncio.to_thread(self._make_admission)
        ledger = self._admission.contexts[GATE].ledger
        stranger = SourceClass.UNTRUSTED_DOCUMENT
        advice = Observation(CURATOR, Channel.MEMORY, advice_of(case), source=stranger, namespace=ledger.namespace)
        return why_refused(await self._admission.judge(advice))

    def _make_admission(self) -> GateSet:
        """The gates of the memory channel over a namespace of their own: a lesson is no memory of the agents."""
        policy = with_memory_gate(self._policy)
        only = Channels(**{c.value: ChannelPolicy(stages=()) for c in Channel if c is not Channel.MEMORY})
        policy = replace(policy, channels=replace(only, memory=policy.channels.memory))
        ledger = self._ledger.within(f"{self._ledger.namespace}.admission")
        return GateSet(policy, ledger, ProvenanceGraph(ledger), self._ready, "policy")

    def _revise(self, lessons: dict[str, Case | None], due: _Due, refused: dict[str, str]) -> tuple[str, ...]:
        made = due.book.revise(lessons, due.read, lambda case: refused.get(case.id, ""), by=LOOP, erased=due.erased)
        return made.added

    def close(self) -> None:
        """Let the gates' threads go."""
        if self._admission is not None:
            self._admission.close()


# The memory gate before the case library.
#
# Judges read a case's summary and cues as guidance, so these are screened like a memory of another agent. The content
# of a case may be as harmful as it likes.

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
