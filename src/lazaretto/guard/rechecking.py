"""Re-evaluation: memories are judged again when the evidence changes and when they are reused.

Clean memories are released, missed ones held, with the items made from them (``late_repairs``). A person's label is
never overturned. Each step is one transaction that records the remaining work, so a process that dies leaves nothing
half done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lazaretto import kept_texts
from lazaretto.errors import RepairRefused
from lazaretto.gates.engine.decision import ANSWERED, Examination, decide, ruling_body, with_verdict
from lazaretto.gates.engine.recheck_queue import TENDED, RecheckQueue
from lazaretto.gates.engine.runner import GateSet, GateSlot, run_stages
from lazaretto.gates.protocol import GateContext, Reviewer, SecondLook
from lazaretto.guard.late_repairs import BUSY, LateRepairs, Looked, Repaired, appended, items_of
from lazaretto.guard.record_owners import RecordOwners
from lazaretto.ledger.reader import standing_events, without_taken_back
from lazaretto.ledger.refs import forgotten
from lazaretto.policy import Policy
from lazaretto.provenance import taint
from lazaretto.provenance.suspects import suspects
from lazaretto.provenance.taint_rulings import log_acts
from lazaretto.repair.protocol import RepairView
from lazaretto.types import (
    MACHINE,
    Channel,
    Decision,
    Draft,
    Event,
    EventKind,
    Observation,
    Receipt,
    Ruling,
    RunStatus,
    Verdict,
)

log = logging.getLogger("lazaretto")
T = TypeVar("T")
SUSPECTS = 20
"""Suspects behind failed decisions that a pass looks at, however old they are."""
_TRIES = 50
_RULINGS = (EventKind.RULED, EventKind.RELEASED, EventKind.LABELLED, EventKind.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The result of a re-evaluation."""

    looked: int = 0
    """Memories that were judged again."""
    held: tuple[str, ...] = ()
    """Memories that were in use and are held now."""
    released: tuple[str, ...] = ()
    """Held before, and usable again."""
    rewritten: tuple[str, ...] = ()
    """Made from something held; another item took their place. None where the policy asks first."""
    proposed: tuple[str, ...] = ()
    """Proposals of repairs that wait for a person now (``guard.proposals``)."""
    unjudged: tuple[str, ...] = ()
    """A gate could not answer, or a repair was refused: the earlier ruling stands."""
    left: int = 0
    """Memories that are due and were not looked at yet: call again."""
    cases: tuple[str, ...] = ()
    """New in the case library: lessons of labels and repairs."""

    def __add__(self, other: Rechecked) -> Rechecked:
        return Rechecked(
            self.looked + other.looked, self.held + other.held, self.released + other.released,
            self.rewritten + other.rewritten, self.proposed + other.proposed, self.unjudged + other.unjudged,
            other.left,
        )  # fmt: skip


class _Answered:
    """Stands in for a gate that has already looked again."""

    def __init__(self, gate: Any, looks: Mapping[str, SecondLook | None] | None) -> None:
        self._gate, self._looks = gate, looks
        self.name, self.channels = gate.name, gate.channels

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The answer it gave when it looked again; else its own ``examine``."""
        if self._looks is None:
            raise RuntimeError("it failed when it was asked to look again")
        look = self._looks.get(observation.id)
        if look is not None:
            return look.verdict
        verdict: Verdict = await self._gate.examine(observation, context)
        return verdict


class Rechecker:
    """Looks again at the memories of one guard."""

    def __init__(
        self,
        view: RepairView,
        policy: Policy,
        gates: GateSet,
        owners: RecordOwners,
        with_names: Callable[[Observation, Decision], Awaitable[Decision]],
        hold_made_from: Callable[[Sequence[str]], tuple[str, ...]],
        repaired: Callable[[Receipt], None],
    ) -> None:
        """``view`` is the view of repairs; ``with_names`` adds what the names beside a text say to a decision on it;
        ``hold_made_from`` holds items made from held ones; ``repaired`` gets each receipt."""
        self._policy, self._teach, self._owners, self._with_names = policy, gates.teach, owners, with_names
        self._ledger, self._graph = view.ledger, view.graph
        self._slots, self._contexts = gates.slots, gates.contexts
        named: dict[str, object] = {name: slot.gate for name, slot in self._slots.items()}
        self._reviewers = {name: gate for name, gate in named.items() if isinstance(gate, Reviewer)}
        self.log = RecheckQueue(view.ledger)
        self.repairs = LateRepairs(view, policy, self.log, self._look_again, hold_made_from, repaired)

    async def run(self, limit: int, news: int, in_store: Callable[..., Awaitable[Any]]) -> Rechecked:
        """Finish the work of an earlier step, then look at up to ``limit`` memories, then do the repairs that follow.

        A new pass begins only after so many ``news``: memories, outcomes and labels.
        """
        done = _rechecked(await self.repairs.run(in_store))
        items, until, left = await in_store(self._due, limit, news)
        if not items and not self.log.under_way:
            return done
        observations = await in_store(items_of, self._ledger, items)
        looked = await self._look_again(observations)
        body = {"until": until, "done": not left}
        recorded: Rechecked = await in_store(self._record, looked, body)
        done = done + replace(recorded, left=left)
        return done + replace(_rechecked(await self.repairs.run(in_store)), left=left)

    def recheck(self, observations: Sequence[Observation]) -> tuple[str, ...]:
        """Hold the memories that cheap gates would hold today; returns their ids. Of those that a policy in mode
        ``observe`` would have held, all gates are asked (``hold_watched``)."""
        if not observations or self._policy.mode == "observe":
            return ()
        known = [o for o in observations if o.channel is Channel.MEMORY][: self._policy.review.most_rechecked]
        watched = self.hold_watched([memory.id for memory in observations])
        known = [memory for memory in known if memory.id not in watched] if self._reviewers else []
        asked = {name: self._asked(name, known) for name in self._memory_gates()} if known else {}
        looked = []
        for memory in known:
            looks = {name: look for name, answers in asked.items() if answers and (look := answers.get(memory.id))}
            verdicts = tuple(look.verdict for look in looks.values())
            decision = decide(memory.id, Examination(verdicts, ()), self._policy.channels[memory.channel], 0.0)
            if any(v.ruling > Ruling.WARN for v in decision.active_verdicts):
                looked.append(Looked(memory, decision, looks))
        if looked:
            self.log.follow()
            looked = [look for look in looked if self.log.visible(look.item)]
        return (*watched, *(self._record(looked, {}).held if looked else ()))

    def hold_watched(self, items: Sequence[str]) -> tuple[str, ...]:
        """Judge those memories again that were only watched (mode ``observe``) and would have been held, and nobody
        decided about since; hold those that today's gates hold, or that a gate gives no answer about, as the policy
        says of a new item. Returns these. Blocks."""
        if not items or self._policy.mode == "observe":
            return ()
        rulings = without_taken_back(sorted(self._ledger.events_about(items, _RULINGS), key=lambda event: event.seq))
        last = {event.subject: event for event in rulings if not taint.is_of_descent(event)}
        flagged = [item for item, event in last.items() if was_watched(event)]
        if not flagged:
            return ()
        self.log.follow()
        watched = [item for item in flagged if self.log.visible(item)]
        memories = [item for item in items_of(self._ledger, watched) if item.channel is Channel.MEMORY]
        looked = asyncio.run(self._look_again(memories)) if memories else []
        recorded = self._record(looked, {}) if looked else Rechecked()
        silent = [look for look in looked if look.item in recorded.unjudged and look.decision.ruling > Ruling.WARN]
        fine = [look for look in looked if look.item not in (*recorded.held, *recorded.unjudged)]
        drafts = [Draft(EventKind.RULED, look.item, body=ruling_body(look.decision)) for look in (*silent, *fine)]
        self._ledger.append(drafts)  # they are not asked about again
        return (*recorded.held, *(look.item for look in silent))

    def _due(self, limit: int, news: int) -> tuple[list[str], int, int]:
        self.log.follow()
        found = suspects(self._ledger, self._graph, SUSPECTS) if self.log.failures else ()
        return self.log.due(limit, [suspect.item for suspect in found if suspect.chance is not None], news)

    def _memory_gates(self) -> list[str]:
        """Gates that can look again and stand in the memory channel's stages."""
        names = {name for name, key in self._policy.gate_names() if key.startswith(f"channels.{Channel.MEMORY.value}.")}
        return [name for name in self._reviewers if name in names]

    def _asked(self, name: str, observations: Sequence[Observation]) -> dict[str, SecondLook | None] | None:
        """A gate's new looks at memories that it judged before; None when it fails."""
        try:
            with kept_texts.reading():
                answers = self._reviewers[name].again(observations, self._contexts[name])
            return {o.id: look for o, look in zip(observations, answers, strict=True)}
        except Exception:
            log.exception("gate %r failed to look again", name)
            return None

    async def _look_again(self, observations: Sequence[Observation]) -> list[Looked]:
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
            for memory in observations:
                started = time.perf_counter()
                examined = await run_stages({**self._slots, **ready}, rules, memory, self._contexts)
                decision = decide(memory.id, examined, rules, (time.perf_counter() - started) * 1000)
                decision = await self._with_names(memory, decision)
                looks = {name: look for name, answers in asked.items() if answers and (look := answers.get(memory.id))}
                looked.append(Looked(memory, decision, looks))
            return looked
        finally:
            for slot in ready.values():
                slot.close()

    def _record(self, looked: Sequence[Looked], body: Mapping[str, Any]) -> Rechecked:
        """Hold and release items by the looks, in one transaction with the note of the items looked at."""
        for _ in range(_TRIES):
            seq = self.log.follow()
            held, released, unjudged = self._sorted([self._with_sources(look) for look in looked])
            changed = {item: state for look in (*held, *released) if (state := self.log.state(item := look.item))}
            note = {
                **body,
                "looked": {look.item: look.notes for look in looked},
                "held": [look.item for look in held],
                "released": [look.item for look in released],
                "origins": [look.item for look in held if look.decision.ruling >= Ruling.REWRITE],
            }
            drafts = [Draft(EventKind.NOTED, TENDED, body=note)]
            drafts += [Draft(EventKind.RULED, look.item, body=ruling_body(look.decision)) for look in held]
            for look in released:
                drafts.append(Draft(EventKind.RELEASED, look.item, body={"by": MACHINE, "rule": look.decision.rule}))
                if look.observation.text or look.observation.image:
                    drafts.append(forgotten(look.item))  # off the block list: its copies are as clean as it is
            if appended(self._ledger, drafts, changed, seq):
                log_acts(drafts)
                for look in held:
                    self._teach(look.observation, look.decision.ruling, look.decision.active_verdicts)
                ids = [tuple(look.item for look in part) for part in (held, released, unjudged)]
                return Rechecked(len(looked), ids[0], ids[1], unjudged=ids[2])
        raise RepairRefused(BUSY)

    def _with_sources(self, look: Looked) -> Looked:
        """The look, with the verdicts of the item's sources and of its record's owner: an item made from a held one,
        or one that waits to change another writer's record, is not released."""
        found = taint.today(look.observation, self._ledger, self._graph, self._policy.taint.ruling)
        state = self.log.state(look.item)
        waits = look.observation.ref is not None and state is not None and not state.visible
        owned = self._owners.verdict(look.observation) if waits else None
        return replace(look, decision=with_verdict(with_verdict(look.decision, found), owned))

    def _sorted(self, looked: Sequence[Looked]) -> tuple[list[Looked], list[Looked], list[Looked]]:
        """Items to hold, items to release, and items that could not be judged."""
        held, released, unjudged = [], [], []
        for look in looked:
            state = self.log.state(look.item)
            if state is None:
                continue
            bad = any(v.ruling > Ruling.WARN for v in look.decision.active_verdicts)
            silent = {run.gate for run in look.decision.runs if run.status not in ANSWERED}
            missed = {run.gate for run in look.decision.runs if run.status is RunStatus.NOT_INSTALLED}
            if not bad and silent - missed:
                unjudged.append(look)
            elif self._policy.mode == "observe":
                continue
            elif state.visible and bad:
                held.append(look)
            elif not state.visible and not bad and not missed & self._holders(look.item):
                released.append(look)
        return held, released, unjudged

    def _holders(self, item: str) -> set[str]:
        """The gates whose verdict, or whose silence, holds an item."""
        rulings = list(standing_events(self._ledger, (EventKind.RULED,), subject=item))
        body = (rulings[-1].body or {}) if rulings else {}
        spoke = {v["gate"] for v in body.get("verdicts", ()) if Ruling.from_label(v["ruling"]) > Ruling.WARN}
        return spoke | set(str(body.get("rule", "")).split(":")[1:2])


def was_watched(event: Event) -> bool:
    """Whether an event is a ruling in mode ``observe`` that would have held its item."""
    would = (event.body or {}).get("would") if event.kind is EventKind.RULED else None
    return would is not None and Ruling.from_label(str(would)) > Ruling.WARN


def _rechecked(done: Repaired) -> Rechecked:
    return Rechecked(done.looked, done.held, rewritten=done.rewritten, proposed=done.proposed, unjudged=done.refused)
