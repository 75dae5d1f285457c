"""Lineage, reach, incidents and reports."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Query, Response

from lazaretto.api.answers import ERRORS, BlastRadiusAnswer, ContactAnswer, LineageAnswer, answer
from lazaretto.api.callers import Reviewer, TheGuard
from lazaretto.guard.rechecking import Rechecked
from lazaretto.incidents.records import Incident, State
from lazaretto.incidents.report import to_markdown, to_sarif
from lazaretto.incidents.report_html import to_html
from lazaretto.provenance.suspects import Suspect

router = APIRouter(prefix="/v1", tags=["tracing"], responses=ERRORS)
MEDIA = {"markdown": "text/markdown; charset=utf-8", "html": "text/html", "sarif": "application/sarif+json"}


@router.get("/items/{item}/blast-radius", response_model=BlastRadiusAnswer)
async def blast_radius(item: str, guard: TheGuard, _: Reviewer, history: bool = False) -> Response:
    """The item's reach: items, agents and decisions."""
    return answer(await asyncio.to_thread(lambda: guard.graph.blast_radius(item, history=history)))


@router.get("/items/{item}/lineage", response_model=LineageAnswer)
async def lineage(item: str, guard: TheGuard, _: Reviewer) -> Response:
    """The item's lineage."""
    return answer(await asyncio.to_thread(guard.graph.lineage, item))


@router.get("/agents/{agent}/contacts", response_model=list[ContactAnswer])
async def contacts(
    agent: str, guard: TheGuard, _: Reviewer, since: float | None = None, until: float | None = None
) -> Response:
    """Exposures of an agent to others, and of others to it."""
    return answer(await asyncio.to_thread(guard.graph.contacts, agent, since, until))


@router.get("/contacts-to-screen", response_model=list[str])
async def contacts_to_screen(guard: TheGuard, _: Reviewer) -> Response:
    """Agents that held or read a finding since they were last screened."""
    return answer(await guard.incidents.contacts())


@router.post("/tend", response_model=Rechecked, deprecated=True)
@router.post("/recheck", response_model=Rechecked)
async def recheck(guard: TheGuard, _: Reviewer, limit: int | None = None) -> Response:
    """Judge memories again; the server also does it by itself."""
    return answer(await guard.recheck(limit=limit))


@router.get("/suspects", response_model=list[Suspect])
async def suspects(guard: TheGuard, _: Reviewer, limit: int = 10) -> Response:
    """Items behind decisions that failed."""
    return answer(await guard.incidents.suspects(limit=limit))


@router.get("/incidents", response_model=list[Incident])
async def incidents(
    guard: TheGuard,
    _: Reviewer,
    state: State | None = None,
    limit: int = Query(50, ge=1, le=1_000, description="At most so many."),
) -> Response:
    """Incidents, the newest first."""
    return answer(await guard.incidents.all(state, limit=limit))


@router.get("/incidents/{incident}", response_model=Incident)
async def incident(incident: str, guard: TheGuard, _: Reviewer) -> Response:
    """One incident by its id, or by the id of an item that was found in it."""
    return answer(await guard.incidents.one(incident))


@router.get("/incidents/{incident}/report", response_class=Response)
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
