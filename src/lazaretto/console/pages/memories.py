"""Memories: find one by words or meaning; see its state, its sources and its conflicts."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from lazaretto.console.item_view import ItemRow, item_view, rows
from lazaretto.console.web import HEADERS, Response, Visit
from lazaretto.errors import InputError, LazarettoError
from lazaretto.pictures import frames_for_judges, open_picture
from lazaretto.types import Channel

PAGE = 50
LOOKED_THROUGH = 5_000
"""Items that a search by words among the held ones reads, the newest first."""
SIDE = 512
STANDS = ("all", "use", "held", "replaced", "erased")


async def memories(visit: Visit) -> Response:
    """The search."""
    asked, stands, agent = visit.query("q").strip()[:400], visit.query("stands", "all"), visit.query("agent").strip()
    if stands not in STANDS:
        raise InputError("stands", f"is {stands!r}", f"Use {', '.join(STANDS)}")
    fitting = await visit.guard.search(asked, limit=PAGE + 1) if asked and stands in ("all", "use") else ()
    found = await asyncio.to_thread(_find, visit, asked, stands, agent, [memory.id for memory in fitting])
    facts: dict[str, Any] = {"asked": asked, "stands": stands, "agent": agent, "choices": STANDS, "found": found[:PAGE]}
    return visit.page("memories.html", here="memories", more=len(found) > PAGE, **facts)


async def item(visit: Visit) -> Response:
    """One item."""
    view = await asyncio.to_thread(item_view, visit.guard, visit.path("item"))
    return visit.page("item.html", here="memories", view=view)


async def whole_text(visit: Visit) -> Response:
    """An item's whole text as plain text: a browser only shows it."""
    seen = await asyncio.to_thread(visit.guard.ledger.item, visit.path("item"))
    headers = {**HEADERS, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(seen.text.encode("utf-8", "replace"), 200, headers, "text/plain; charset=utf-8")


async def picture(visit: Visit) -> Response:
    """A picture drawn again and small; one that cannot be opened safely is not opened."""

    limits = visit.guard.policy.limits
    try:
        data = await asyncio.to_thread(visit.guard.ledger.blob, visit.path("digest"))
        frame = frames_for_judges(await open_picture(data, limits), side=SIDE).frames[0]
    except LazarettoError:
        return Response(b"", 404, HEADERS, "text/plain")
    out = io.BytesIO()
    frame.save(out, "PNG")
    return Response(out.getvalue(), 200, HEADERS, "image/png")


def _find(visit: Visit, asked: str, stands: str, agent: str, fitting: list[str]) -> list[ItemRow]:
    """Memories that fit best first, then those with the words that are not in use, the newest first."""
    guard, ids = visit.guard, list(fitting)
    if not asked or stands != "use":
        words = asked.casefold().split()
        everything = guard.ledger.items(
            agent=agent or None,
            channel=None if asked or stands != "all" else Channel.MEMORY,
            any_state=stands != "use",
            limit=LOOKED_THROUGH if asked or stands not in ("all", "use") else PAGE + 1,
        )
        ids += [memory.id for memory in everything if all(word in memory.text.casefold() for word in words)]
    found = [row for row in rows(guard, ids[:LOOKED_THROUGH]) if not agent or row.seen.agent == agent]
    if stands != "all":
        wanted = ("held", "hidden") if stands == "held" else (stands,)
        found = [row for row in found if row.standing in wanted]
    return rows(guard, [row.seen.id for row in found[: PAGE + 1]], trust=True)
