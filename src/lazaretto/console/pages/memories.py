"""Memories and the map: find one by words, meaning or place in the crew's graph; see its state and its links."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from lazaretto.console.item_view import ItemRow, item_view, line, rows
from lazaretto.console.web import HEADERS, Response, Visit, json, texts
from lazaretto.errors import InputError, LazarettoError
from lazaretto.ledger.effects import is_decision
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


# The map: the crew as a graph, and the links to and from any node of it.

TRACED = 5_000
"""Nodes of one trace."""
LISTED = 60


async def show(visit: Visit) -> Response:
    """The page; a script fetches the data."""
    incidents = await visit.guard.incidents.all(limit=LISTED)
    chosen = visit.query("incident")
    items = [(incident, item) for incident in incidents if incident.state != "cleared" for item in incident.items][
        :LISTED
    ]
    facts: dict[str, Any] = {"incidents": incidents, "chosen": chosen, "node": visit.query("node"), "listed": items}
    return visit.page("map.html", here="map", **facts)


async def data(visit: Visit) -> Response:
    """Nodes and edges, with their places."""
    chosen = visit.query("incident")
    if chosen:
        return json(await visit.desk.maps.of(await visit.guard.incidents.one(chosen)))
    return json(await visit.desk.maps.whole())


async def trace(visit: Visit) -> Response:
    """One node, the items it came from and its reach."""
    kind, node = visit.query("kind"), visit.query("node")
    work = _agent if kind == "agent" else _decision if is_decision(node) else _item
    return json(await asyncio.to_thread(work, visit, node))


def _item(visit: Visit, item: str) -> dict[str, Any]:
    graph = visit.guard.graph
    (row,) = rows(visit.guard, [item], trust=True) or (None,)
    reach = graph.blast_radius(item, history=True)
    came = graph.sources(item, limit=TRACED)
    return {
        "title": line(item, 60),
        "link": f"/items/{item}",
        **(_node_data(row) if row is not None else {"text": "", "veiled": False, "facts": ""}),
        "from": [step.id for step in came],
        "to": [step.id for step in reach.items[:TRACED]] + [step.id for step in reach.decisions[:TRACED]],
        "agents": [step.id for step in reach.agents],
    }


def _node_data(row: ItemRow) -> dict[str, Any]:
    words = texts()
    facts = f"{line(row.seen.agent, 40)} · {words['standing'][row.standing]} · {words['item']['trust']} {row.trust:.2f}"
    return {"text": line(row.seen.text, 240) or words["veil"]["picture"], "veiled": row.veiled, "facts": facts}


def _decision(visit: Visit, decision: str) -> dict[str, Any]:
    rests = visit.guard.graph.rests_on(decision)
    what = next((str((e.body or {}).get("what", "")) for e in visit.guard.ledger.events(subject=decision)), "")
    data = {"title": line(decision, 60), "link": "", "text": line(what, 240), "veiled": False, "facts": ""}
    return {**data, "from": [step.id for step in rests[:TRACED]], "to": [], "agents": []}


def _agent(visit: Visit, agent: str) -> dict[str, Any]:
    met = visit.guard.graph.contacts(agent)
    into = [contact for contact in met if contact.direction == "in"][:TRACED]
    out = [contact for contact in met if contact.direction == "out"][:TRACED]
    facts = texts()["map"]["contacts"].format(len({contact.agent for contact in met}), len(met))
    data = {"title": line(agent, 60), "link": f"/memories?agent={agent}", "text": "", "veiled": False, "facts": facts}
    others = list(dict.fromkeys(contact.agent for contact in met))
    return {
        **data,
        "from": [contact.item for contact in into],
        "to": [contact.item for contact in out],
        "agents": others,
    }
