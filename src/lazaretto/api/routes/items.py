"""Calls for people: look at items, settle those that wait, trace them, and repair."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from fastapi import APIRouter, Query, Response

from lazaretto.api.answers import (
    ERRORS,
    BlastRadiusAnswer,
    ContactAnswer,
    ItemAnswer,
    ItemDetail,
    LineageAnswer,
    PreviewAnswer,
    ProposalAnswer,
    ProposalDismissed,
    ProposedAnswer,
    ReceiptAnswer,
    Settled,
    answer,
)
from lazaretto.api.callers import Anyone, Reviewer, TheGuard, signature
from lazaretto.api.requests import (
    AcceptBody,
    AppealBody,
    DismissBody,
    LabelBody,
    PlanBody,
    ReleaseBody,
    SettleBody,
    UnlabelBody,
)
from lazaretto.errors import InputError, RepairRefused, UnknownItem
from lazaretto.gates.memory.claims.conflicts import Conflict, conflicts_of, open_conflicts
from lazaretto.guard import Guard
from lazaretto.guard.rechecking import Rechecked
from lazaretto.incidents.records import HeldItem, Incident, State
from lazaretto.incidents.report import to_html, to_markdown, to_sarif
from lazaretto.learn.withdrawals import LabelDecision, Withdrawal
from lazaretto.ledger import ItemState
from lazaretto.ledger.reader import taken_back
from lazaretto.provenance.suspects import Suspect
from lazaretto.repair.protocol import make_repair
from lazaretto.types import Channel, Draft, Event, EventKind, Observation, RepairPlan, plain

# Lineage, reach, incidents and reports.

tracing_router = APIRouter(prefix="/v1", tags=["tracing"], responses=ERRORS)
MEDIA = {"markdown": "text/markdown; charset=utf-8", "html": "text/html", "sarif": "application/sarif+json"}


@tracing_router.get("/items/{item}/blast-radius", response_model=BlastRadiusAnswer)
async def blast_radius(item: str, guard: TheGuard, _: Reviewer, history: bool = False) -> Response:
    """The item's reach: items, agents and decisions."""
    return answer(await asyncio.to_thread(lambda: guard.graph.blast_radius(item, history=history)))


@tracing_router.get("/items/{item}/lineage", response_model=LineageAnswer)
async def lineage(item: str, guard: TheGuard, _: Reviewer) -> Response:
    """The item's lineage."""
    return answer(await asyncio.to_thread(guard.graph.lineage, item))


@tracing_router.get("/agents/{agent}/contacts", response_model=list[ContactAnswer])
async def contacts(
    agent: str, guard: TheGuard, _: Reviewer, since: float | None = None, until: float | None = None
) -> Response:
    """Exposures of an agent to others, and of others to it."""
    return answer(await asyncio.to_thread(guard.graph.contacts, agent, since, until))


@tracing_router.get("/contacts-to-screen", response_model=list[str])
async def contacts_to_screen(guard: TheGuard, _: Reviewer) -> Response:
    """Agents that held or read a finding since they were last screened."""
    return answer(await guard.incidents.contacts())


@tracing_router.post("/tend", response_model=Rechecked, deprecated=True)
@tracing_router.post("/recheck", response_model=Rechecked)
async def recheck(guard: TheGuard, _: Reviewer, limit: int | None = None) -> Response:
    """Judge memories again; the server also does it by itself."""
    return answer(await guard.recheck(limit=limit))


@tracing_router.get("/suspects", response_model=list[Suspect])
async def suspects(guard: TheGuard, _: Reviewer, limit: int = 10) -> Response:
    """Items behind decisions that failed."""
    return answer(await guard.incidents.suspects(limit=limit))


@tracing_router.get("/incidents", response_model=list[Incident])
async def incidents(
    guard: TheGuard,
    _: Reviewer,
    state: State | None = None,
    limit: int = Query(50, ge=1, le=1_000, description="At most so many."),
) -> Response:
    """Incidents, the newest first."""
    return answer(await guard.incidents.all(state, limit=limit))


@tracing_router.get("/incidents/{incident}", response_model=Incident)
async def incident(incident: str, guard: TheGuard, _: Reviewer) -> Response:
    """One incident by its id, or by the id of an item that was found in it."""
    return answer(await guard.incidents.one(incident))


@tracing_router.get("/incidents/{incident}/report", response_class=Response)
async def incident_report(
    incident: str, guard: TheGuard, _: Reviewer, style: Literal["markdown", "html", "sarif"] = Query(alias="format")
) -> Response:
    """The report of one incident, as a document."""
    found = await guard.incidents.one(incident)
    if style == "html":
        texts = {item.id: item.text or "picture" for item in (*found.items, *found.reached)}
        texts |= {decision.id: decision.what for decision in found.decisions}
        infected = [*(item.id for item in found.items), *(decision.id for decision in found.decisions)]
        drawn = await asyncio.to_thread(
            lambda: guard.graph.subgraph(found.patient_zero, infected=infected, texts=texts, limit=60)
        )
        return Response(to_html(found, drawn), media_type=MEDIA[style])
    return Response(to_sarif([found]) if style == "sarif" else to_markdown(found), media_type=MEDIA[style])


# Repairs: planned, tried dry, applied, undone.

repairs_router = APIRouter(prefix="/v1/repairs", tags=["repairs"], responses=ERRORS)
PLANNED = "plan_sha256"
"""The key of a plan's digest in the ledger: a plan that comes back must have it."""


@repairs_router.post("/plan", response_model=RepairPlan)
async def plan(body: PlanBody, guard: TheGuard, caller: Reviewer) -> Response:
    """The steps and cost of a repair; nothing is changed."""
    made = await guard.repairs.plan(body.item, make_repair(body.repair, body.options), reason=body.reason)
    noted = {PLANNED: plan_digest(made), "by": caller.name}
    await asyncio.to_thread(guard.ledger.append, [Draft(EventKind.NOTED, made.id, body=noted)])
    return answer(made)


@repairs_router.post("/dry-run", response_model=list[PreviewAnswer])
async def dry_run(body: RepairPlan, guard: TheGuard, _: Reviewer) -> Response:
    """Every item a plan of this server touches, as it is and as it would be; nothing is changed."""
    await asyncio.to_thread(_require_own, body, guard)
    return answer(await guard.repairs.dry_run(body))


@repairs_router.post("/apply", response_model=ReceiptAnswer)
async def apply(body: RepairPlan, guard: TheGuard, caller: Reviewer) -> Response:
    """Apply a plan, as a whole; it must be one that this server made, unaltered."""
    await asyncio.to_thread(_require_own, body, guard)
    return answer(await guard.repairs.apply(body, caller=caller.identity))


@repairs_router.get("/proposals", response_model=list[ProposalAnswer])
async def proposals(guard: TheGuard, _: Reviewer) -> Response:
    """Repairs that looking again proposes and nobody has decided on, newest first."""
    return answer([{**plain(proposal), "counts": proposal.counts} for proposal in await guard.repairs.proposals()])


@repairs_router.get("/proposals/{proposal}", response_model=ProposedAnswer)
async def proposal(proposal: str, guard: TheGuard, _: Reviewer) -> Response:
    """The steps of a proposal as of now, with each item's text before and after; nothing is changed."""
    found = await guard.repairs.proposal(proposal)
    data = {**plain(found.proposal), "counts": found.proposal.counts}
    return answer({"proposal": data, "changes": found.changes, "left": found.plan.left, "seen": found.seen})


@repairs_router.post("/proposals/{proposal}/apply", response_model=ReceiptAnswer)
async def accept(proposal: str, body: AcceptBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Apply a proposal, if its work is still the work that was ``seen``."""
    return answer(await guard.repairs.accept(proposal, by=caller.name, seen=body.seen, caller=caller.identity))


@repairs_router.post("/proposals/{proposal}/dismiss", response_model=ProposalDismissed)
async def dismiss(proposal: str, body: DismissBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Leave everything as it is; the proposal is not made again."""
    await guard.repairs.dismiss(proposal, by=caller.name, reason=body.reason, caller=caller.identity)
    return answer({"dismissed": proposal})


@repairs_router.post("/{receipt}/undo", response_model=ReceiptAnswer)
async def undo(receipt: str, guard: TheGuard, caller: Reviewer) -> Response:
    """Put everything back as it was before a repair."""
    return answer(await guard.repairs.undo(receipt, caller=caller.identity))


@repairs_router.get("", response_model=list[ReceiptAnswer])
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


# Calls for people: look at items, and settle those that wait for a person.

router = APIRouter(prefix="/v1", tags=["items"], responses=ERRORS)
MOST_EVENTS = 200
"""Events of one item that are listed with it, the newest of them."""
PICTURES = (
    (b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
)  # fmt: skip
"""The first bytes of the pictures that are let in."""
Limit = Query(50, ge=1, le=1_000, description="At most so many.")


@router.get("/items", response_model=list[ItemAnswer])
async def items(
    guard: TheGuard,
    _: Reviewer,
    agent: str | None = None,
    channel: Channel | None = None,
    hidden: bool = Query(False, description="Also held, replaced and erased items."),
    query: str | None = Query(None, description="Words to look for; only memories in use are searched."),
    limit: int = Limit,
) -> Response:
    """Items, newest first; with a query, memories that share words with it, best first."""
    if query is not None and (hidden or channel not in (None, Channel.MEMORY)):
        field = "hidden" if hidden else "channel"
        raise InputError(field, "a query looks among memories in use alone", f"Leave {field} out, or the query")

    def read() -> list[dict[str, Any]]:
        if query is not None:
            found = [item for item, _score in guard.ledger.search(query, agent=agent, limit=limit)]
        else:
            found = guard.ledger.items(agent=agent, channel=channel, any_state=hidden, limit=limit)
        return _with_states(guard, found)

    return answer(await asyncio.to_thread(read))


@router.get("/items/{item}", response_model=ItemDetail)
async def item_detail(item: str, guard: TheGuard, _: Reviewer) -> Response:
    """One item with its state, its trust, the last ruling and everything recorded about it."""

    def read() -> dict[str, Any]:
        found = guard.ledger.item(item)
        events = list(guard.ledger.events(subject=item))
        gone = taken_back(event for event in events if event.kind is EventKind.WITHDRAWN)
        rulings = [event.body for event in events if event.kind is EventKind.RULED and event.seq not in gone]
        return {
            **_row(found, guard.ledger.state(item)),
            "trust": guard.graph.trust(item, guard.policy.trust.table()),
            "decision": rulings[-1] if rulings else None,
            "events": events[-MOST_EVENTS:],
            "conflicts": conflicts_of(guard.ledger, [item])[item],
        }

    return answer(await asyncio.to_thread(read))


@router.get("/items/{item}/image", response_class=Response)
async def image(item: str, guard: TheGuard, _: Reviewer) -> Response:
    """The picture of an item, as it came in; browsers must not guess its type."""
    digest = (await asyncio.to_thread(guard.ledger.item, item)).image
    if digest is None:
        raise UnknownItem(item, guard.ledger.namespace, "image")
    data = await asyncio.to_thread(guard.ledger.blob, digest)
    kind = next((kind for magic, kind in PICTURES if data.startswith(magic)), "application/octet-stream")
    guarded = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox; default-src 'none'"}
    return Response(data, media_type=kind, headers=guarded)


@router.get("/held", response_model=list[HeldItem])
async def held(guard: TheGuard, _: Reviewer, limit: int = Limit) -> Response:
    """Items that wait for a person, disputed rulings first."""
    return answer(await guard.held(limit=limit))


@router.post("/items/{item}/label", response_model=Event)
async def label(item: str, body: LabelBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Label an item: harmful or benign. A caller with a key of their own signs with its name."""
    word: Literal["harmful", "benign"] = body.label  # type: ignore[assignment]  # any other word is an InputError
    return answer(await guard.label(item, word, by=signature(caller, body.by), caller=caller.identity))


@router.get("/labels", response_model=list[LabelDecision])
async def labels(guard: TheGuard, _: Reviewer, limit: int = Limit) -> Response:
    """People's labels (harmful or benign), the newest first."""
    return answer(await guard.labels(limit=limit))


@router.post("/labels/{decision}/undo", response_model=Withdrawal)
async def unlabel(decision: int, body: UnlabelBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Take back a label: items and block list are as before it. Changes that cannot be undone are named."""
    return answer(await guard.unlabel(decision, by=signature(caller, body.by), caller=caller.identity))


@router.post("/items/{item}/appeal", response_model=Event)
async def appeal(item: str, body: AppealBody, guard: TheGuard, caller: Anyone) -> Response:
    """Dispute the ruling on an item; it holds until a person labels or releases the item."""
    return answer(await guard.appeal(item, body.reason, by=signature(caller, body.by)))


@router.post("/items/{item}/release", response_model=ReceiptAnswer)
async def release(item: str, body: ReleaseBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Bring a held item back."""
    by = signature(caller, body.by)
    done = await guard.release(item, reason=body.reason, descendants=body.descendants, by=by, caller=caller.identity)
    return answer(done)


@router.get("/conflicts", response_model=list[Conflict])
async def conflicts(guard: TheGuard, _: Reviewer, limit: int = Limit) -> Response:
    """Pairs of memories that contradict each other, strongest first."""
    return answer((await asyncio.to_thread(open_conflicts, guard.ledger))[:limit])


@router.post("/conflicts/settle", response_model=Settled)
async def settle(body: SettleBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Decide between two items that contradict each other; the other way round it takes the decision back."""
    await guard.settle(body.keep, over=body.over, by=signature(caller, body.by), caller=caller.identity)
    return answer({"kept": body.keep, "ended": body.over})


def _row(item: Observation, state: ItemState) -> dict[str, Any]:
    return {"item": item, "state": state, "held": state.held, "visible": state.visible}


def _with_states(guard: Guard, found: Sequence[Observation]) -> list[dict[str, Any]]:
    states = guard.ledger.states([item.id for item in found])
    return [_row(item, states[item.id]) for item in found]
