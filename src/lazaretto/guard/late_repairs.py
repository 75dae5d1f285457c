"""Repairs after a memory in use is held: items that were made from it are repaired too, as the policy says.

Structured memories are judged again without the poison, and held if they do not stand up. For the rest the repair
``contain`` starts from the held memory; with ``repair.automatic = "ask"`` it is only proposed to a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lazaretto.errors import RepairRefused, StaleState
from lazaretto.gates.engine.decision import ruling_body
from lazaretto.gates.engine.recheck_queue import TENDED, RecheckQueue
from lazaretto.gates.protocol import SecondLook
from lazaretto.ledger import ItemState, Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.taint_rulings import log_acts
from lazaretto.repair import engine, proposals
from lazaretto.repair.contain import Contain, contained, rewrite_step
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import (
    Decision,
    Draft,
    EventKind,
    Evidence,
    Observation,
    Receipt,
    RepairPlan,
    RepairStep,
    Ruling,
    Verdict,
)

RULE = "made_from_held"
REVIEW = "review"
"""The gate's name in the verdicts that a re-evaluation itself makes."""
WHY = "made from a memory that was held late"
_TRIES = 50
BUSY = "recheck: its memories change faster than they can be judged; nothing was changed, try again"
InStore = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Looked:
    """The gates' verdicts on one item today."""

    observation: Observation
    decision: Decision
    looks: Mapping[str, SecondLook] = field(default_factory=dict)
    """Looks by gate, of the gates that can look again."""

    @property
    def item(self) -> str:
        """Its id."""
        return self.observation.id

    @property
    def notes(self) -> dict[str, list[float]]:
        """The gates' notes for the ledger."""
        return {gate: list(look.notes) for gate, look in self.looks.items() if look.notes}

    @property
    def heard(self) -> SecondLook | None:
        """The look of the gate that hears other memories, where one does."""
        return next((look for look in self.looks.values() if look.conflict is not None), None)


@dataclass(frozen=True, slots=True)
class Repaired:
    """Repairs of items that came from memories held late."""

    looked: int = 0
    held: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Origins whose repair is past a limit."""
    proposed: tuple[str, ...] = ()
    """Proposals that wait for a person now."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """Memories in use that were made from held ones."""

    hops: Mapping[str, int] = field(default_factory=dict)
    """Item -> edges to the nearest origin."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """Item -> that origin."""


class LateRepairs:
    """Looks after the descendants of memories that were held late."""

    def __init__(
        self,
        view: RepairView,
        policy: Policy,
        log: RecheckQueue,
        look_again: Callable[[Sequence[Observation]], Awaitable[list[Looked]]],
        hold_made_from: Callable[[Sequence[str]], tuple[str, ...]],
        repaired: Callable[[Receipt], None],
    ) -> None:
        """``look_again`` asks the gates again; ``hold_made_from`` holds items made from held ones, or repeating
        them; ``repaired`` gets the receipt of each repair after it was applied."""
        self._tell_repaired = repaired
        self._view, self._policy, self._log = view, policy, log
        self._ledger, self._graph = view.ledger, view.graph
        self._look_again, self._hold_made_from = look_again, hold_made_from

    async def run(self, in_store: InStore) -> Repaired:
        """Finish the repairs that are due, in one transaction that also records that they are done."""
        await in_store(self._log.follow)
        origins = self._log.origins
        if not origins:
            return Repaired()
        states = await in_store(self._ledger.states, origins)
        held = [item for item in origins if item in states and states[item].held]
        tainted: tuple[str, ...] = ()
        if self._policy.repair.automatic != "apply":
            tainted = await in_store(self._hold_made_from, held)
        reach, looked = await self._reached(held, in_store)
        done: Repaired = await in_store(self._repaired, origins, held, reach, looked)
        return replace(done, held=(*tainted, *done.held))

    async def planned(self, origin: str, in_store: InStore) -> RepairPlan:
        """The plan, made now, for items that came from one item; it may have no steps."""
        await in_store(self._log.follow)
        reach, looked = await self._reached([origin], in_store)
        made: RepairPlan = await in_store(self._planned_now, origin, reach, looked)
        return made

    async def _reached(self, origins: Sequence[str], in_store: InStore) -> tuple[_Reach, dict[str, Looked]]:
        reach: _Reach = await in_store(self._descendants, origins)
        observations = await in_store(items_of, self._ledger, list(reach.hops))
        looked = await self._look_again([o for o in observations if o.fields is not None])
        return reach, {look.item: look for look in looked if look.heard is not None}

    def _descendants(self, origins: Sequence[str]) -> _Reach:
        hops: dict[str, int] = {}
        nearest: dict[str, str] = {}
        for origin in origins:
            for step in self._graph.blast_radius(origin, history=True).items:
                if self._log.visible(step.id) and step.hops < hops.get(step.id, step.hops + 1):
                    hops[step.id], nearest[step.id] = step.hops, origin
        return _Reach(hops, nearest)

    def _planned_now(self, origin: str, reach: _Reach, judged: Mapping[str, Looked]) -> RepairPlan:
        choice = self._contained(judged, reach.hops)
        rebuilt = [judged[item].observation for item, how in choice.items() if how and how != "isolate"]
        return self._plan(origin, {origin}, judged, rebuilt, set())

    def _repaired(
        self, done: Sequence[str], origins: Sequence[str], reach: _Reach, judged: Mapping[str, Looked]
    ) -> Repaired:
        """``done``: items that wait no longer after this; ``origins``: those of them that are still held."""
        choice = self._contained(judged, reach.hops)
        for _ in range(_TRIES):
            seq = self._log.follow()
            still = [item for item, how in choice.items() if how and self._log.visible(item)]
            isolated = [item for item in still if choice[item] == "isolate"]
            rebuilt = [item for item in still if item not in isolated]
            plans = self._plans(origins, reach, judged, rebuilt)
            work = self._applied(plans) if self._policy.repair.automatic == "apply" else self._proposed(plans)
            body = {
                "looked": {item: look.notes for item, look in judged.items()},
                "held": isolated,
                "repaired": list(done),
                "refused": work.refused,
                "proposed": work.proposed,
            }
            rulings = [
                Draft(EventKind.RULED, item, body=ruling_body(_isolating(judged[item], reach))) for item in isolated
            ]
            states = {item: state for item in isolated if (state := self._log.state(item))}
            drafts = [Draft(EventKind.NOTED, TENDED, body=body), *rulings, *work.drafts]
            if appended(self._ledger, drafts, {**states, **work.states}, seq):
                log_acts([*rulings, *work.drafts])
                for receipt in work.receipts:
                    self._tell_repaired(receipt)
                steps = [step for plan in work.applied for step in plan.steps]
                hidden = tuple(s.item for s in steps if s.action in ("hide", "remove"))
                rewritten = tuple(s.item for s in steps if s.action == "replace")
                refused, proposed = tuple(work.refused), tuple(work.proposed)
                return Repaired(len(judged), (*isolated, *hidden), rewritten, refused, proposed)
        raise RepairRefused(BUSY)

    def _plans(
        self, origins: Sequence[str], reach: _Reach, judged: Mapping[str, Looked], rebuilt: Sequence[str]
    ) -> list[RepairPlan]:
        """One for each origin that has anything to do; no item is in two."""
        if self._policy.repair.automatic == "hold":
            return []
        plans: list[RepairPlan] = []
        taken: set[str] = set()
        for origin in origins:
            own = [judged[item].observation for item in rebuilt if reach.origin[item] == origin]
            plan = self._plan(origin, set(origins), judged, own, taken)
            if plan.steps:
                plans.append(plan)
                taken |= {step.item for step in plan.steps}
        return plans

    def _applied(self, plans: Sequence[RepairPlan]) -> _Work:
        work = _Work()
        for plan in plans:
            try:
                engine.check_limits(plan, self._policy.repair)
            except RepairRefused as error:
                work.refused[plan.origin] = str(error)
                continue
            receipt, drafts = engine.drafted(plan, self._ledger)
            work.receipts.append(receipt)
            work.drafts += drafts
            work.states |= engine.states_before(plan)
            work.applied.append(plan)
        return work

    def _proposed(self, plans: Sequence[RepairPlan]) -> _Work:
        work = _Work()
        waiting = {proposal.origin: proposal for proposal in proposals.waiting(self._ledger)} if plans else {}
        for plan in plans:
            known = waiting.get(plan.origin)
            if known is not None and known.actions == {step.item: step.action for step in plan.steps}:
                continue
            if known is not None:
                work.drafts += proposals.closing(known.id, "replaced", "")
            name, drafts = proposals.proposing(plan)
            work.drafts += drafts
            work.proposed.append(name)
        return work

    def _contained(self, judged: Mapping[str, Looked], hops: Mapping[str, int]) -> dict[str, str]:
        """The repair of each structured memory that was made from a held one; empty: none."""
        if not judged:
            return {}
        looks = [look.heard for look in judged.values() if look.heard is not None]
        risk = np.array([look.verdict.risk if look.risk is None else look.risk for look in looks])
        conflict = np.array([look.conflict for look in looks])
        bad = np.array([look.verdict.ruling > Ruling.WARN for look in looks])
        like = np.array([look.likeness for look in looks])
        plan = contained(np.array([hops[item] for item in judged]), risk, conflict, bad, like)
        return dict(zip(judged, plan.tolist(), strict=True))

    def _plan(
        self,
        origin: str,
        origins: set[str],
        judged: Mapping[str, Looked],
        rebuilt: Sequence[Observation],
        taken: set[str],
    ) -> RepairPlan:
        """The plan of ``contain`` for all but structured memories, and the rewriting of structured ones."""
        steps: dict[str, RepairStep] = {}
        left: Mapping[str, str] = {}
        agents: tuple[str, ...] = ()
        if not all(step.id in judged for step in self._graph.blast_radius(origin).items):
            plan = Contain().plan(RepairRequest(origin), self._view)
            left, agents = plan.left, plan.agents
            steps = {s.item: s for s in plan.steps if s.item not in judged and s.item not in origins | taken}
        for memory in rebuilt:
            steps[memory.id] = rewrite_step(memory, self._view, {*origins, *judged})
        allowed = [self._screened(step) for step in steps.values() if not self._log.spoken_for(step.item)]
        states = self._ledger.states(step.item for step in allowed)
        made = tuple(engine.with_state(step, states) for step in allowed)
        return RepairPlan("contain", origin, made, WHY, agents, left=left)

    def _screened(self, step: RepairStep) -> RepairStep:
        """The step; a replacement that the gates would hold becomes a step that hides the item instead."""
        new = step.detail.get("replacement")
        if new is None:
            return step
        made = replace(self._ledger.item(step.item), id=new["id"], text=new["text"])
        why = self._view.objection(made) if made.text else ""
        return RepairStep(step.item, "hide", {"why": why}) if why else step


def items_of(ledger: Ledger, ids: Sequence[str]) -> list[Observation]:
    """Some items, held ones too."""
    return ledger.items(ids=ids, any_state=True, limit=None) if ids else []


def appended(ledger: Ledger, drafts: Sequence[Draft], states: Mapping[str, ItemState], seq: int) -> bool:
    """Append, unless one of the items changed or was labelled since ``seq``: then the caller looks again."""
    try:
        ledger.append(drafts, states=states, no_label_after=seq)
    except StaleState:
        return False
    return True


@dataclass(slots=True)
class _Work:
    """The events of some plans."""

    drafts: list[Draft] = field(default_factory=list)
    states: dict[str, ItemState] = field(default_factory=dict)
    applied: list[RepairPlan] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    proposed: list[str] = field(default_factory=list)


def _isolating(look: Looked, reach: _Reach) -> Decision:
    """The ruling on a structured memory that was made from a held one."""
    item, far, origin = look.item, reach.hops[look.item], reach.origin[look.item]
    risk, interval = look.decision.risk, look.decision.interval
    words = (
        f"It was made from {origin}, which is held, {far} step{'s' * (far > 1)} away, and stands no better without it."
    )
    evidence = Evidence("path", words, {"hops": far, "held": origin})
    verdict = Verdict(REVIEW, item, Ruling.QUARANTINE, risk, interval, RULE, (evidence,))
    return Decision(item, Ruling.QUARANTINE, risk, interval, f"{REVIEW}:{RULE}", (verdict, *look.decision.verdicts))
