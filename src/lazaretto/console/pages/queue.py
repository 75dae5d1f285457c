"""The review queue: one item at a time, everything beside it that helps to decide, one key to decide."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from lazaretto.actions.records import Asked
from lazaretto.console.item_view import item_view, rows
from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, UnknownItem
from lazaretto.guard.approvals import MOST_TOGETHER
from lazaretto.incidents.records import HeldItem

LISTED = 100


async def queue(visit: Visit) -> Response:
    """The items that wait, and the item in hand: the requested one, else the first."""
    waiting, proposed = await visit.guard.held(limit=LISTED), await visit.guard.repairs.proposals()
    facts: dict[str, Any] = {"waiting": waiting, "proposed": proposed, "calls": await visit.guard.approvals.waiting()}
    asked = visit.query("item")
    here = next((place for place, held in enumerate(waiting) if asked == held.id or asked in held.copies), 0)
    if not waiting:
        return visit.page("queue.html", here="queue", view=None, place=0, **facts)
    view = await asyncio.to_thread(item_view, visit.guard, waiting[here].id)
    return visit.page("queue.html", here="queue", view=view, place=here, **facts)


async def call(visit: Visit) -> Response:
    """A call that an agent wants to make: its arguments, why a person is asked, one key to allow it and one not to."""
    token, waiting = visit.path("token"), await visit.guard.approvals.waiting()
    found = next((asked for asked in waiting if asked.token == token), None)
    if found is None:
        raise UnknownItem(token, visit.guard.ledger.namespace, "token")
    task = [
        asked
        for asked in waiting
        if asked.task and (asked.agent, asked.task) == (found.agent, found.task) and asked != found
    ]
    shown = [(asked, _given(asked)) for asked in (found, *reversed(task))][:MOST_TOGETHER]
    return visit.page("call.html", here="queue", found=found, shown=shown)


def _given(asked: Asked) -> dict[str, str]:
    """The arguments of a call as they are shown."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in _arguments(asked)
    }


def _arguments(asked: Asked) -> list[tuple[str, Any]]:
    read = orjson.loads(asked.arguments)
    return list(read.items()) if isinstance(read, dict) else [("", asked.arguments)]


async def answer_call(visit: Visit) -> Response:
    """A person's decision on a call: once, for exactly this call; or on all calls of its task that the page showed."""
    agree, token = {"allow": True, "refuse": False}.get(visit.field("answer")), visit.path("token")
    if agree is None:
        raise InputError("answer", "is neither allow nor refuse", "Use the buttons")
    shown = visit.field("shown").split() if visit.form.get("all") else [token]
    signed = {"by": visit.session.name, "caller": visit.session.identity}
    asked = await visit.guard.approvals.answer_all(shown, agree, **signed)  # type: ignore[arg-type]
    message = texts()["call"]["allowed" if agree else "refused"]
    tools = ", ".join(dict.fromkeys(call.tool for call in asked))
    return visit.to("/queue", message.format(tool=tools, agent=asked[0].agent))


async def proposal(visit: Visit) -> Response:
    """A repair that looking again proposes: every item before and after, one key to do it and one to leave it."""
    found = await visit.guard.repairs.proposal(visit.path("proposal"))
    items = [found.proposal.origin, *(change.item for change in found.changes), *found.plan.left]
    known = {row.seen.id: row for row in await asyncio.to_thread(rows, visit.guard, items)}
    changed = [change for change in found.changes if change.action == "replace"]
    others = [change for change in found.changes if change.action != "replace"]
    listed = {change.item for change in found.changes}
    left = [(item, why) for item, why in found.plan.left.items() if item not in listed]
    facts: dict[str, Any] = {"found": found, "rows": known, "changed": changed, "others": others, "left": left}
    return visit.page("proposal.html", here="queue", **facts)


async def accept(visit: Visit) -> Response:
    """Apply the proposal that was shown."""
    name, signed = visit.path("proposal"), {"by": visit.session.name, "caller": visit.session.identity}
    receipt = await visit.guard.repairs.accept(name, seen=visit.field("seen"), **signed)  # type: ignore[arg-type]
    return visit.to(f"/receipts/{receipt.id}", texts()["proposal"]["applied"].format(receipt=receipt.id))


async def dismiss(visit: Visit) -> Response:
    """Leave everything as it is."""
    name = visit.path("proposal")
    await visit.guard.repairs.dismiss(name, by=visit.session.name, caller=visit.session.identity)
    return visit.to("/queue", texts()["proposal"]["dismissed"].format(proposal=name))


async def decide(visit: Visit) -> Response:
    """A person's decision on an item; then the next one."""
    item, label = visit.path("item"), visit.field("label")
    before = await visit.guard.held(limit=LISTED)
    signed = {"by": visit.session.name, "caller": visit.session.identity}
    event = await visit.guard.label(item, label, **signed)  # type: ignore[arg-type]  # other words: InputError
    message = texts()["queue"]["decided"].format(item=item, label=texts()["labels"][label])
    if copies := (event.body or {}).get("copies"):
        message += " " + texts()["queue"]["with_copies"].format(number=len(copies))
    if visit.form.get("back"):
        return visit.to(f"/items/{item}", message)
    return visit.to(f"/queue{_next(before, item)}", message)


async def appeal(visit: Visit) -> Response:
    """Dispute a ruling; it waits in the queue for a decision."""
    item, reason = visit.path("item"), visit.field("reason").strip()
    if not reason:
        raise InputError("reason", "is empty", "Say in a sentence why the ruling is wrong")
    if (await asyncio.to_thread(visit.guard.ledger.unknown, [item])) == (item,):
        raise UnknownItem(item, visit.guard.ledger.namespace)
    await visit.guard.appeal(item, reason, by=visit.session.name)
    return visit.to(f"/items/{item}", texts()["item"]["appealed"])


def _next(waiting: Sequence[HeldItem], item: str) -> str:
    """The next item of the queue, as it stood when an item was decided."""
    ids = [held.id for held in waiting]
    after = ids[ids.index(item) + 1 :][:1] if item in ids else []
    return f"?item={after[0]}" if after else ""
