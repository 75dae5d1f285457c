"""The map: the crew as a graph, and the links to and from any node of it."""

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
