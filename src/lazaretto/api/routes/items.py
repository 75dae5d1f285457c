"""Calls for people: look at items, and settle those that wait for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Query, Response

from lazaretto.api.answers import ERRORS, ItemAnswer, ItemDetail, ReceiptAnswer, Settled, answer
from lazaretto.api.callers import Anyone, Reviewer, TheGuard, signature
from lazaretto.api.requests import AppealBody, LabelBody, ReleaseBody, SettleBody, UnlabelBody
from lazaretto.errors import InputError, UnknownItem
from lazaretto.gates.memory.claims.conflicts import Conflict, open_conflicts
from lazaretto.gates.memory.claims.consequences import conflicts_of
from lazaretto.guard import Guard
from lazaretto.incidents.records import HeldItem
from lazaretto.learn.withdrawals import LabelDecision, Withdrawal
from lazaretto.ledger import ItemState
from lazaretto.ledger.standing import taken_back
from lazaretto.types import Channel, Event, EventKind, Observation

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
