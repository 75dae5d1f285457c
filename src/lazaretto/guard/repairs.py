"""Repairs: planned, applied, undone; and those that rechecking proposes to a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lazaretto.errors import RepairRefused
from lazaretto.guard.core import MAX_REASON, Core
from lazaretto.guard.telemetry import now
from lazaretto.identity import Identity, check_person, require_not_own
from lazaretto.ingest.raw_input import RawInput, read_observation, read_text
from lazaretto.names import check_name
from lazaretto.provenance.taint_rulings import acts, log_acts
from lazaretto.repair import engine, proposals
from lazaretto.repair.engine import TakenBack, taking_back
from lazaretto.repair.proposals import Proposal, ProposedRepair
from lazaretto.repair.protocol import Repair, RepairRequest, make_repair
from lazaretto.types import Draft, Receipt, RepairPlan, principal_of


class Repairs:
    """``guard.repairs``: changes of recorded items, each with a receipt that undoes it."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core

    async def plan(self, /, item: str, repair: str | Repair, *, reason: str = "", **options: Any) -> RepairPlan:
        """The steps and cost of a repair; nothing is changed. ``RepairRefused`` when it is past a limit.

        By name with its options as keywords, or as an object: ``plan(item, "isolate", descendants=True)`` is
        ``plan(item, Isolate(descendants=True))``.
        """
        chosen = make_repair(repair, options)
        request = RepairRequest(check_name(item, "item", printable=True), reason)
        return await self._core.in_store_thread(
            engine.prepare, chosen, request, self._core.view, self._core.policy.repair
        )

    async def dry_run(self, plan: RepairPlan) -> tuple[engine.Preview, ...]:
        """Every item the plan touches, as it is and as it would be; nothing is changed."""
        return await self._core.in_store_thread(engine.preview, plan, self._core.ledger)

    async def apply(self, plan: RepairPlan, *, by: str = "", caller: Identity | None = None) -> Receipt:
        """Apply a plan, as a whole, if nothing it rests on has changed. New texts pass the gates.

        ``by`` (or else the name of a server's ``caller``) is recorded in the receipt. ``NotYours`` if either would
        clear an item it wrote itself.
        """
        return await self._apply(plan, caller, by=by)

    async def undo(self, receipt_id: str, *, by: str = "", caller: Identity | None = None) -> Receipt:
        """Put everything back as it was before a repair; of one that was undone in part, the rest. ``by`` and
        ``caller``: as in ``apply``."""
        began, signer = now(), _signer(by, caller)
        released: list[Draft] = []

        def check_and_draft_releases(items: Sequence[str]) -> list[Draft]:
            """Called inside the engine's loop: the released items may change from one try to the next."""
            released[:] = self._core.taints.releases_with(items)
            held = [item for item, state in self._core.ledger.states(items).items() if not state.visible]
            self._refuse_own_items(caller, [*held, *(draft.subject for draft in released)], by)
            return released

        def work() -> Receipt:
            name = check_name(receipt_id, "receipt", printable=True)
            receipt = engine.undo(name, self._core.ledger, check_and_draft_releases, signer)
            self._core.lessons.catch_up()  # takes what the repair taught off the block list
            items = [step.item for step in receipt.plan.steps]
            acts.info("%d items are as they were before the repair %s, which is undone", len(items), name)
            log_acts(released)
            if any(step.action == "show" for step in receipt.plan.steps):
                self._core.taints.hold_what_came_from(items)  # held again, with the items that came from them
            self._core.taints.hold_returned([*items, *(draft.subject for draft in released)], [receipt.plan.origin])
            return receipt

        receipt = await self._core.written_back(await self._core.in_store_thread(work))
        self._core.watchers.tell("undone", self._core.ledger.namespace, receipt, began)
        return receipt

    async def receipts(self) -> tuple[Receipt, ...]:
        """Every repair of this namespace, oldest first."""
        found = await self._core.in_store_thread(engine.receipts, self._core.ledger)
        return await self._core.in_store_thread(self._core.outbox.with_outcomes, found)

    async def proposals(self) -> tuple[Proposal, ...]:
        """Repairs that looking again proposes and nobody has decided on, newest first."""
        return await self._core.in_store_thread(proposals.waiting, self._core.ledger)

    async def proposal(self, name: str) -> ProposedRepair:
        """The steps of a proposal as of now, with each item's text before and after; nothing is changed."""
        asked = check_name(name, "proposal", printable=True)
        found = await self._core.in_store_thread(proposals.find, asked, self._core.ledger)
        plan = await self._core.rechecker.repairs.planned(found.origin, self._core.in_store_thread)
        ids = [step.item for step in plan.steps]
        items = await self._core.in_store_thread(
            lambda: self._core.ledger.items(ids=ids, any_state=True, limit=None) if ids else []
        )
        changes = proposals.changes_of(plan.steps, {item.id: item.text for item in items})
        return ProposedRepair(found, plan, changes, proposals.work_of(plan))

    async def accept(self, name: str, *, by: str, seen: str = "", caller: Identity | None = None) -> Receipt:
        """Apply a proposal. ``seen`` is that of the ``ProposedRepair`` a person looked at: if the plan is a different
        one by now, it is refused. ``caller``: as in ``apply``."""
        person = check_person(by)
        found = await self.proposal(name)
        if not found.plan.steps:
            raise RepairRefused(f"{name} has nothing to do any more; dismiss it")
        if seen and seen != found.seen:
            raise RepairRefused(f"{name} has other steps by now than those shown; look at it again")
        plan = replace(found.plan, reason=f"{found.plan.reason} ({name}, accepted by {person})")
        return await self._apply(plan, caller, proposals.closing(name, "applied", person), by=person)

    async def dismiss(self, name: str, *, by: str, reason: str = "", caller: Identity | None = None) -> None:
        """Dismiss a proposal: it waits no longer, and is not made again. Held items stay held."""
        person, words = check_person(by), read_text(reason, MAX_REASON)
        asked = check_name(name, "proposal", printable=True)

        def work() -> None:
            found = proposals.find(asked, self._core.ledger)
            kept = list(dict.fromkeys((found.origin, *found.actions)))  # all of it stays as it is
            require_not_own(caller, person, self._core.ledger.items(ids=kept, any_state=True, limit=None))
            drafts = proposals.closing(asked, "dismissed", person, words)
            self._core.ledger.append(drafts)
            log_acts(drafts)

        await self._core.in_store_thread(work)

    async def repair_unless_hidden(
        self, item: str, repair: str, reason: str, options: Mapping[str, Any]
    ) -> Receipt | None:
        """Plan and apply; None where the item was hidden a moment ago, as a copy of another."""
        if (await self._core.in_store_thread(self._core.ledger.state, item)).hidden and not options:
            return None
        try:
            return await self.apply(await self.plan(item, repair, reason=reason, **options))
        except RepairRefused:
            if not (await self._core.in_store_thread(self._core.ledger.state, item)).hidden:
                raise
            return None

    async def _apply(
        self, plan: RepairPlan, caller: Identity | None, also: Sequence[Draft] = (), by: str = ""
    ) -> Receipt:
        """``also`` is recorded with the repair or not at all."""
        began, signer = now(), _signer(by, caller)
        await self._judge_replacements(plan)

        def work() -> Receipt:
            seq = self._core.ledger.head().seq
            shown = [step.item for step in plan.steps if step.action == "show"]
            touched = {step.item for step in plan.steps}
            back = taking_back(shown, self._core.ledger, touched, signer) if shown else TakenBack()
            touched |= set(back.states)
            released = [
                draft
                for draft in self._core.taints.releases_with([*shown, *back.shown])
                if draft.subject not in touched
            ]
            shown_again = [*engine.cleared_by(plan), *back.shown, *(draft.subject for draft in released)]
            # copies that were called harmful because of these items come back with them
            shown_again += self._core.alignment.copies_condemned_with(shown)
            self._refuse_own_items(caller, shown_again, by)
            extra = [*back.drafts, *released, *also]
            limits = self._core.policy.repair
            receipt = engine.apply(plan, self._core.ledger, limits, extra, back.states, seq, signer)
            log_acts([engine.receipt_draft(receipt), *extra])
            self._core.lessons.catch_up()  # brings the repair to the block list
            self._core.tell_undone(back.receipts)
            self._core.taints.hold_returned([item for item in shown_again if item != plan.origin], [plan.origin])
            return receipt

        receipt = await self._core.written_back(await self._core.in_store_thread(work))
        self._core.watchers.tell("repaired", self._core.ledger.namespace, receipt, began)
        return receipt

    async def _judge_replacements(self, plan: RepairPlan) -> None:
        """``RepairRefused`` for a plan that would bring in a text which no agent could have brought in."""
        await self._core.in_store_thread(engine.check_plan, plan, self._core.ledger)
        for step in plan.steps:
            if step.action != "replace":
                continue
            old, new = await self._core.in_store_thread(self._core.ledger.item, step.item), step.detail["replacement"]
            fields, writer = new.get("fields", old.fields), principal_of(old)
            raw = RawInput(
                old.agent, old.channel, new["text"], fields=fields, source=old.source, principal=writer
            )  # fmt: skip
            observation = read_observation(raw, self._core.ledger.namespace, self._core.policy.limits)
            decision = await self._core.gates.judge(observation)
            if not decision.allowed:
                raise RepairRefused(
                    f"the new text for {step.item} is itself ruled {decision.ruling.label} ({decision.rule})"
                )

    def _refuse_own_items(self, caller: Identity | None, items: Sequence[str], by: str = "") -> None:
        """``NotYours`` if the caller, or the signer, wrote an item that would be shown again."""
        if items and (by or caller is not None):
            require_not_own(caller, by, self._core.ledger.items(ids=items, any_state=True, limit=None))


def _signer(by: str, caller: Identity | None) -> str:
    """The name to record with a repair: of who signs it, else of a server's caller; empty in code that names nobody."""
    if by:
        return check_person(by)
    return caller.name if caller is not None else ""
