"""Repairs: planned, tried dry, applied, undone."""

from __future__ import annotations

import asyncio
import hashlib

import orjson
from fastapi import APIRouter, Response

from lazaretto.api.answers import (
    ERRORS,
    PreviewAnswer,
    ProposalAnswer,
    ProposalDismissed,
    ProposedAnswer,
    ReceiptAnswer,
    answer,
)
from lazaretto.api.callers import Reviewer, TheGuard
from lazaretto.api.requests import AcceptBody, DismissBody, PlanBody
from lazaretto.errors import RepairRefused
from lazaretto.guard import Guard
from lazaretto.repair.options import make_repair
from lazaretto.types import Draft, EventKind, RepairPlan, plain

router = APIRouter(prefix="/v1/repairs", tags=["repairs"], responses=ERRORS)
PLANNED = "plan_sha256"
"""The key of a plan's digest in the ledger: a plan that comes back must have it."""


@router.post("/plan", response_model=RepairPlan)
async def plan(body: PlanBody, guard: TheGuard, caller: Reviewer) -> Response:
    """The steps and cost of a repair; nothing is changed."""
    made = await guard.repairs.plan(body.item, make_repair(body.repair, body.options), reason=body.reason)
    noted = {PLANNED: plan_digest(made), "by": caller.name}
    await asyncio.to_thread(guard.ledger.append, [Draft(EventKind.NOTED, made.id, body=noted)])
    return answer(made)


@router.post("/dry-run", response_model=list[PreviewAnswer])
async def dry_run(body: RepairPlan, guard: TheGuard, _: Reviewer) -> Response:
    """Every item a plan of this server touches, as it is and as it would be; nothing is changed."""
    await asyncio.to_thread(_require_own, body, guard)
    return answer(await guard.repairs.dry_run(body))


@router.post("/apply", response_model=ReceiptAnswer)
async def apply(body: RepairPlan, guard: TheGuard, caller: Reviewer) -> Response:
    """Apply a plan, as a whole; it must be one that this server made, unaltered."""
    await asyncio.to_thread(_require_own, body, guard)
    return answer(await guard.repairs.apply(body, caller=caller.identity))


@router.get("/proposals", response_model=list[ProposalAnswer])
async def proposals(guard: TheGuard, _: Reviewer) -> Response:
    """Repairs that looking again proposes and nobody has decided on, newest first."""
    return answer([{**plain(proposal), "counts": proposal.counts} for proposal in await guard.repairs.proposals()])


@router.get("/proposals/{proposal}", response_model=ProposedAnswer)
async def proposal(proposal: str, guard: TheGuard, _: Reviewer) -> Response:
    """The steps of a proposal as of now, with each item's text before and after; nothing is changed."""
    found = await guard.repairs.proposal(proposal)
    data = {**plain(found.proposal), "counts": found.proposal.counts}
    return answer({"proposal": data, "changes": found.changes, "left": found.plan.left, "seen": found.seen})


@router.post("/proposals/{proposal}/apply", response_model=ReceiptAnswer)
async def accept(proposal: str, body: AcceptBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Apply a proposal, if its work is still the work that was ``seen``."""
    return answer(await guard.repairs.accept(proposal, by=caller.name, seen=body.seen, caller=caller.identity))


@router.post("/proposals/{proposal}/dismiss", response_model=ProposalDismissed)
async def dismiss(proposal: str, body: DismissBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Leave everything as it is; the proposal is not made again."""
    await guard.repairs.dismiss(proposal, by=caller.name, reason=body.reason, caller=caller.identity)
    return answer({"dismissed": proposal})


@router.post("/{receipt}/undo", response_model=ReceiptAnswer)
async def undo(receipt: str, guard: TheGuard, caller: Reviewer) -> Response:
    """Put everything back as it was before a repair."""
    return answer(await guard.repairs.undo(receipt, caller=caller.identity))


@router.get("", response_model=list[ReceiptAnswer])
async def receipts(guard: TheGuard, _: Reviewer) -> Response:
    """Every repair, oldest first."""
    return answer(await guard.repairs.receipts())


def plan_digest(plan: RepairPlan) -> str:
    """Equal only for plans that are the same, word for word."""
    return hashlib.sha256(orjson.dumps(plain(plan), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()


def _require_own(plan: RepairPlan, guard: Guard) -> None:
    """``RepairRefused`` for a plan that this store did not hand out, or that was altered since."""
    try:
        digest = plan_digest(plan)
    except (TypeError, ValueError):  # numbers past 64 bits, broken surrogates: nothing that was ever handed out
        digest = ""
    for event in guard.ledger.events(subject=plan.id, kinds=(EventKind.NOTED,)):
        if (event.body or {}).get(PLANNED) == digest:
            return
    raise RepairRefused(f"no plan {plan.id!r} like this was made here; ask for one with POST /v1/repairs/plan")
