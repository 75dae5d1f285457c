"""Re-evaluation: memories are judged again when the evidence changes and when they are reused.

What proves clean is released; what had slipped through is held, and what was made from it is looked after as
``contain`` does: structured memories are judged anew without the poison among the evidence, everything else by its
provenance. A person's word is never overturned. Each step is one transaction that says in the ledger what it looked at
and what is left to do, so a process that dies at any point leaves nothing half done, and the next one goes on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from lazaretto.errors import RepairRefused, StaleState
from lazaretto.gates.cascade import ANSWERED
from lazaretto.gates.decision import decide, recorded, with_verdict
from lazaretto.gates.look_log import TENDED, LookLog
from lazaretto.gates.protocol import GateContext, Reviewer, SecondLook
from lazaretto.gates.record_owners import RecordOwners
from lazaretto.gates.runner import Examination, GateSlot, run_stages
from lazaretto.ledger import ItemState
from lazaretto.ledger.fingerprints import forgotten
from lazaretto.policy import Policy
from lazaretto.provenance import taint
from lazaretto.provenance.suspects import suspects
from lazaretto.repair import engine
from lazaretto.repair.contain import Contain, contained
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.repair.rewrite import rewrite_step
from lazaretto.types import (
    MACHINE,
    Channel,
    Decision,
    Draft,
    EventKind,
    Evidence,
    Observation,
    RepairPlan,
    RepairStep,
    Ruling,
    RunStatus,
    Verdict,
)

log = logging.getLogger("lazaretto")
T = TypeVar("T")
RULE = "made_from_held"
REVIEW = "review"
"""The gate's name in the verdicts that a re-evaluation itself makes."""
SUSPECTS = 20
"""Suspects behind failed decisions that a pass looks at, however old they are."""
_TRIES = 50
_BUSY = "tend: its memories change faster than they can be judged; nothing was changed, try again"


@dataclass(frozen=True, slots=True)
class Tended:
    """What a re-evaluation did."""

    looked: int = 0
    """Memories that were judged again."""
    held: tuple[str, ...] = ()
    """In use before, and out of recall from now on."""
    released: tuple[str, ...] = ()
    """Held before, and usable again."""
    rewritten: tuple[str, ...] = ()
    """Made from something held; another item took their place."""
    unjudged: tuple[str, ...] = ()
    """A gate could not answer, or a repair was refused: what was ruled before stands."""
    left: int = 0
    """Due, and not looked at yet: call again."""
    cases: tuple[str, ...] = ()
    """New in the case library: what labels and repairs taught."""

    def __add__(self, other: Tended) -> Tended:
        return Tended(
            self.looked + other.looked, self.held + other.held, self.released + other.released,
            self.rewritten + other.rewritten, self.unjudged + other.unjudged, other.left,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Looked:
    """What the gates say of one item today."""

    observation: Observation
    decision: Decision
    looks: Mapping[str, SecondLook] = field(default_factory=dict)
    """By gate: those that can look again."""

    @property
    def item(self) -> str:
        """Its id."""
        return self.observation.id

    @property
    def notes(self) -> dict[str, list[float]]:
        """What the ledger keeps for the gates."""
        return {gate: list(look.notes) for gate, look in self.looks.items() if look.notes}

    @property
    def heard(self) -> SecondLook | None:
        """The look of the gate that hears other memories, where one does."""
        return next((look for look in self.looks.values() if look.conflict is not None), None)


class _Answered:
    """Stands in for a gate that has already looked again."""

    def __init__(self, gate: Any, looks: Mapping[str, SecondLook | None] | None) -> None:
        self._gate, self._looks = gate, looks
        self.name, self.channels = gate.name, gate.channels

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """What it said; its own ``examine`` where it had nothing to say."""
        if self._looks is None:
            raise RuntimeError("it failed when it was asked to look again")
        look = self._looks.get(observation.id)
        if look is not None:
            return look.verdict
        verdict: Verdict = await self._gate.examine(observation, context)
        return verdict


class Tending:
    """Looks again at the memories of one guard."""

    def __init__(
        self,
        view: RepairView,
        policy: Policy,
        gates: tuple[Mapping[str, GateSlot], Mapping[str, GateContext]],
        tell: Callable[[Observation, Ruling, tuple[Verdict, ...]], None],
    ) -> None:
        """``view`` is what repairs look at; ``tell`` tells the gates that learn what became of an item."""
        self._view, self._policy, self._tell = view, policy, tell
        self._ledger, self._graph = view.ledger, view.graph
        self._owners = RecordOwners(view.ledger, view.graph, policy)
        self._slots, self._contexts = gates
        named: dict[str, object] = {name: slot.gate for name, slot in self._slots.items()}
        self._reviewers = {name: gate for name, gate in named.items() if isinstance(gate, Reviewer)}
        self.log = LookLog(view.ledger)

    async def run(self, limit: int, news: int, in_store: Callable[..., Awaitable[Any]]) -> Tended:
        """Finish what an earlier step left, then look at up to ``limit`` memories, then at what that calls for.

        A new pass begins only after so many ``news``: memories, outcomes and labels.
        """
        done = await self._repair(in_store)
        items, until, left = await in_store(self._due, limit, news)
        if not items and not self.log.under_way:
            return done
        observations = await in_store(self._observations, items)
        looked = await self._look_again(observations)
        body = {"until": until, "done": not left}
        recorded: Tended = await in_store(self._record, looked, body)
        done = done + replace(recorded, left=left)
        repaired: Tended = await self._repair(in_store)
        return done + replace(repaired, left=left)

    def recheck(self, observations: Sequence[Observation]) -> tuple[str, ...]:
        """Those of some memories that would be held today, by gates that can say so cheaply; they are held at once."""
        if not self._reviewers or not observations or self._policy.mode == "observe":
            return ()
        known = [o for o in observations if o.channel is Channel.MEMORY][: self._policy.review.most_rechecked]
        asked = {name: self._asked(name, known) for name in self._memory_gates()} if known else {}
        looked = []
        for one in known:
            looks = {name: look for name, said in asked.items() if said and (look := said.get(one.id))}
            verdicts = tuple(look.verdict for look in looks.values())
            decision = decide(one.id, Examination(verdicts, ()), self._policy.channels[one.channel], 0.0)
            if any(v.ruling > Ruling.WARN for v in decision.standing):
                looked.append(_Looked(one, decision, looks))
        if looked:
            self.log.follow()
            looked = [one for one in looked if self._visible(one.item)]
        return self._record(looked, {}).held if looked else ()

    def _due(self, limit: int, news: int) -> tuple[list[str], int, int]:
        self.log.follow()
        found = suspects(self._ledger, self._graph, SUSPECTS) if self.log.failures else ()
        return self.log.due(limit, [suspect.item for suspect in found if suspect.chance is not None], news)

    def _observations(self, items: Sequence[str]) -> list[Observation]:
        return self._ledger.items(ids=items, hidden=True, limit=None) if items else []

    def _memory_gates(self) -> list[str]:
        """Gates that can look again and stand in the memory channel's stages."""
        names = {name for name, key in self._policy.gate_names() if key.startswith(f"channels.{Channel.MEMORY.value}.")}
        return [name for name in self._reviewers if name in names]

    def _asked(self, name: str, observations: Sequence[Observation]) -> dict[str, SecondLook | None] | None:
        """What a gate says today about memories that it judged before; None when it fails."""
        try:
            said = self._reviewers[name].again(observations, self._contexts[name])
            return {o.id: look for o, look in zip(observations, said, strict=True)}
        except Exception:
            log.exception("gate %r failed to look again", name)
            return None

    async def _look_again(self, observations: Sequence[Observation]) -> list[_Looked]:
        """Every gate of the policy, those that can look again all at once."""
        rules, names = self._policy.channels[Channel.MEMORY], self._memory_gates() if observations else []
        asked: dict[str, dict[str, SecondLook | None] | None] = {}
        for name in names:
            try:
                waiting = asyncio.to_thread(self._asked, name, observations)
                asked[name] = await asyncio.wait_for(waiting, rules.budget_s)
            except TimeoutError:
                asked[name] = None
        ready = {name: GateSlot(name, _Answered(self._slots[name].gate, asked[name])) for name in names}
        try:
            looked = []
            for one in observations:
                started = time.perf_counter()
                examined = await run_stages({**self._slots, **ready}, rules, one, self._contexts)
                decision = decide(one.id, examined, rules, (time.perf_counter() - started) * 1000)
                looks = {name: look for name, said in asked.items() if said and (look := said.get(one.id))}
                looked.append(_Looked(one, decision, looks))
            return looked
        finally:
            for slot in ready.values():
                slot.close()

    def _record(self, looked: Sequence[_Looked], body: Mapping[str, Any]) -> Tended:
        """Hold and release what the looks say, in one transaction with what was looked at."""
        for _ in range(_TRIES):
            seq = self.log.follow()
            held, released, unjudged = self._sorted([self._with_sources(one) for one in looked])
            changed = {item: state for one in (*held, *released) if (state := self.log.state(item := one.item))}
            told = {
                **body,
                "looked": {one.item: one.notes for one in looked},
                "held": [one.item for one in held],
                "released": [one.item for one in released],
                "origins": [one.item for one in held if one.decision.ruling >= Ruling.REWRITE],
            }
            drafts = [Draft(EventKind.NOTED, TENDED, body=told)]
            drafts += [Draft(EventKind.RULED, one.item, body=recorded(one.decision)) for one in held]
            for one in released:
                drafts.append(Draft(EventKind.RELEASED, one.item, body={"by": MACHINE, "rule": one.decision.rule}))
                if one.observation.text or one.observation.image:
                    drafts.append(forgotten(one.item))  # off the block list: its copies are as clean as it is
            if self._appended(drafts, changed, seq):
                for one in held:
                    self._tell(one.observation, one.decision.ruling, one.decision.standing)
                ids = [tuple(one.item for one in part) for part in (held, released, unjudged)]
                return Tended(len(looked), ids[0], ids[1], unjudged=ids[2])
        raise RepairRefused(_BUSY)

    def _with_sources(self, one: _Looked) -> _Looked:
        """The look with what the item's sources and the owner of its record say: what is made from something held, or
        waits to change somebody else's record, is not released."""
        found = taint.today(one.observation, self._ledger, self._graph, self._policy.taint.ruling)
        state = self.log.state(one.item)
        waits = one.observation.ref is not None and state is not None and not state.visible
        owned = self._owners.verdict(one.observation) if waits else None
        return replace(one, decision=with_verdict(with_verdict(one.decision, found), owned))

    def _sorted(self, looked: Sequence[_Looked]) -> tuple[list[_Looked], list[_Looked], list[_Looked]]:
        """What is to be held, what is to be released, and what could not be judged."""
        held, released, unjudged = [], [], []
        for one in looked:
            state = self.log.state(one.item)
            if state is None:
                continue
            bad = any(v.ruling > Ruling.WARN for v in one.decision.standing)
            silent = {run.gate for run in one.decision.runs if run.status not in ANSWERED}
            missed = {run.gate for run in one.decision.runs if run.status is RunStatus.NOT_INSTALLED}
            if not bad and silent - missed:
                unjudged.append(one)
            elif self._policy.mode == "observe":
                continue
            elif state.visible and bad:
                held.append(one)
            elif not state.visible and not bad and not missed & self._holders(one.item):
                released.append(one)
        return held, released, unjudged

    def _holders(self, item: str) -> set[str]:
        """The gates whose verdict, or whose silence, holds an item."""
        rulings = list(self._ledger.events(subject=item, kinds=(EventKind.RULED,)))
        body = (rulings[-1].body or {}) if rulings else {}
        spoke = {v["gate"] for v in body.get("verdicts", ()) if Ruling.from_label(v["ruling"]) > Ruling.WARN}
        return spoke | set(str(body.get("rule", "")).split(":")[1:2])

    def _appended(self, drafts: Sequence[Draft], states: Mapping[str, ItemState], seq: int) -> bool:
        """Append, unless one of the items changed or was labelled since ``seq``: then the caller looks again."""
        try:
            self._ledger.append(drafts, states=states, no_label_after=seq)
        except StaleState:
            return False
        return True

    async def _repair(self, in_store: Callable[..., Awaitable[Any]]) -> Tended:
        """Look after what was made from memories that were held late."""
        await in_store(self.log.follow)
        origins = self.log.origins
        if not origins:
            return Tended()
        hops = await in_store(self._descendants, origins)
        observations = await in_store(self._observations, list(hops))
        records = [o for o in observations if o.fields is not None]
        looked = {one.observation.id: one for one in await self._look_again(records)}
        return await in_store(self._repaired, origins, hops, looked)  # type: ignore[no-any-return]

    def _descendants(self, origins: Sequence[str]) -> dict[str, int]:
        """Memories in use that were made from any of these, with the edges between."""
        hops: dict[str, int] = {}
        for origin in origins:
            for step in self._graph.blast_radius(origin, history=True).items:
                state = self.log.state(step.id)
                if state is not None and state.visible and step.hops < hops.get(step.id, step.hops + 1):
                    hops[step.id] = step.hops
        return hops

    def _repaired(self, origins: Sequence[str], hops: Mapping[str, int], looked: Mapping[str, _Looked]) -> Tended:
        judged = {item: one for item, one in looked.items() if one.heard is not None}
        plans = self._contained(judged, hops)
        for _ in range(_TRIES):
            seq = self.log.follow()
            still = [item for item, plan in plans.items() if plan and self._visible(item)]
            isolated = [item for item in still if plans[item] == "isolate"]
            rebuilt = [judged[item].observation for item in still if item not in isolated]
            plan = self._other_steps(origins, judged, rebuilt)
            drafts, refused = self._drafted(plan)
            told = {
                "looked": {item: one.notes for item, one in judged.items()},
                "held": isolated,
                "repaired": list(origins),
                "refused": refused,
            }
            rulings = [Draft(EventKind.RULED, item, body=recorded(_isolating(judged[item], hops))) for item in isolated]
            states = {item: state for item in isolated if (state := self.log.state(item))}
            states |= engine.states_before(plan) if drafts else {}
            if self._appended([Draft(EventKind.NOTED, TENDED, body=told), *rulings, *drafts], states, seq):
                steps = plan.steps if drafts else ()
                hidden = tuple(s.item for s in steps if s.action in ("hide", "remove"))
                rewritten = tuple(s.item for s in steps if s.action == "replace")
                return Tended(len(judged), (*isolated, *hidden), rewritten=rewritten, unjudged=tuple(refused))
        raise RepairRefused(_BUSY)

    def _contained(self, judged: Mapping[str, _Looked], hops: Mapping[str, int]) -> dict[str, str]:
        """What to do with each structured memory that was made from a held one; empty: nothing."""
        if not judged:
            return {}
        looks = [one.heard for one in judged.values() if one.heard is not None]
        risk = np.array([look.verdict.risk if look.risk is None else look.risk for look in looks])
        conflict = np.array([look.conflict for look in looks])
        bad = np.array([look.verdict.ruling > Ruling.WARN for look in looks])
        like = np.array([look.likeness for look in looks])
        plan = contained(np.array([hops[item] for item in judged]), risk, conflict, bad, like)
        return dict(zip(judged, plan.tolist(), strict=True))

    def _other_steps(
        self, origins: Sequence[str], judged: Mapping[str, _Looked], rebuilt: Sequence[Observation]
    ) -> RepairPlan:
        """What ``contain`` does with everything but structured memories, and the rewriting of these."""
        steps: dict[str, RepairStep] = {}
        for origin in origins:
            if all(step.id in judged for step in self._graph.blast_radius(origin).items):
                continue
            plan = Contain().plan(RepairRequest(origin), self._view)
            steps.update({s.item: s for s in plan.steps if s.item not in judged and s.item not in origins})
        for one in rebuilt:
            steps[one.id] = rewrite_step(one, self._view, {*origins, *judged})
        allowed = [self._screened(step) for step in steps.values() if not self.log.spoken_for(step.item)]
        states = self._ledger.states(step.item for step in allowed)
        made = tuple(engine.with_state(step, states) for step in allowed)
        return RepairPlan("contain", origins[0], made, "made from a memory that was held late")

    def _screened(self, step: RepairStep) -> RepairStep:
        """The step; what would put a text in the place of another that the gates hold themselves hides it instead."""
        new = step.detail.get("replacement")
        if new is None:
            return step
        made = replace(self._ledger.item(step.item), id=new["id"], text=new["text"])
        why = self._view.judge(made) if made.text else ""
        return RepairStep(step.item, "hide", {"why": why}) if why else step

    def _drafted(self, plan: RepairPlan) -> tuple[list[Draft], dict[str, str]]:
        """The events of a repair, or why it is refused."""
        try:
            engine.check_limits(plan, self._policy.repair)
        except RepairRefused as error:
            return [], {plan.origin: str(error)}
        return engine.drafted(plan, self._ledger)[1] if plan.steps else [], {}

    def _visible(self, item: str) -> bool:
        state = self.log.state(item)
        return state is not None and state.visible


def _isolating(one: _Looked, hops: Mapping[str, int]) -> Decision:
    """The ruling on a structured memory that was made from a held one."""
    item, far = one.observation.id, hops[one.observation.id]
    risk, interval = one.decision.risk, one.decision.interval
    words = (
        f"It was made from a memory that is held, {far} step{'s' * (far > 1)} away, and stands no better without it."
    )
    verdict = Verdict(REVIEW, item, Ruling.QUARANTINE, risk, interval, RULE, (Evidence("path", words, {"hops": far}),))
    return Decision(item, Ruling.QUARANTINE, risk, interval, f"{REVIEW}:{RULE}", (verdict, *one.decision.verdicts))
