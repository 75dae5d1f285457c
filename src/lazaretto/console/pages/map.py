"""The map: the crew as a graph, and what leads to and from any node of it."""

from __future__ import annotations

import asyncio
from typing import Any

from lazaretto.console.content import line
from lazaretto.console.item_view import ItemRow, rows
from lazaretto.console.web import Response, Visit, json, texts
from lazaretto.ledger.edges import is_decision

TRACED = 5_000
"""Nodes of one trace."""
LISTED = 60


async def show(visit: Visit) -> Response:
    """The page; a script fetches the data."""
    incidents = await visit.guard.incidents.all(limit=LISTED)
    chosen = visit.query("incident")
    items = [(one, item) for one in incidents if one.state != "cleared" for item in one.items][:LISTED]
    facts: dict[str, Any] = {"incidents": incidents, "chosen": chosen, "node": visit.query("node"), "listed": items}
    return visit.page("map.html", here="map", **facts)


async def data(visit: Visit) -> Response:
    """Nodes and edges, with their places."""
    chosen = visit.query("incident")
    if chosen:
        return json(await visit.desk.maps.of(await visit.guard.incidents.one(chosen)))
    return json(await visit.desk.maps.whole())


async def trace(visit: Visit) -> Response:
    """What one node is, what it came from and what it reached."""
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
        **(_told(row) if row is not None else {"text": "", "veiled": False, "facts": ""}),
        "from": [step.id for step in came],
        "to": [step.id for step in reach.items[:TRACED]] + [step.id for step in reach.decisions[:TRACED]],
        "agents": [step.id for step in reach.agents],
    }


def _told(row: ItemRow) -> dict[str, Any]:
    words = texts()
    facts = f"{line(row.seen.agent, 40)} · {words['standing'][row.standing]} · {words['item']['trust']} {row.trust:.2f}"
    return {"text": line(row.seen.text, 240) or words["veil"]["picture"], "veiled": row.veiled, "facts": facts}


def _decision(visit: Visit, decision: str) -> dict[str, Any]:
    rests = visit.guard.graph.rests_on(decision)
    what = next((str((e.body or {}).get("what", "")) for e in visit.guard.ledger.events(subject=decision)), "")
    told = {"title": line(decision, 60), "link": "", "text": line(what, 240), "veiled": False, "facts": ""}
    return {**told, "from": [step.id for step in rests[:TRACED]], "to": [], "agents": []}


def _agent(visit: Visit, agent: str) -> dict[str, Any]:
    met = visit.guard.graph.contacts(agent)
    into = [one for one in met if one.direction == "in"][:TRACED]
    out = [one for one in met if one.direction == "out"][:TRACED]
    facts = texts()["map"]["contacts"].format(len({one.agent for one in met}), len(met))
    told = {"title": line(agent, 60), "link": f"/memories?agent={agent}", "text": "", "veiled": False, "facts": facts}
    others = list(dict.fromkeys(one.agent for one in met))
    return {**told, "from": [one.item for one in into], "to": [one.item for one in out], "agents": others}
