"""Now: how the crew stands, kept up while one looks."""

from __future__ import annotations

import asyncio
from typing import Any

from lazaretto.console.web import Response, Visit, json
from lazaretto.incidents.records import Incident

INCIDENTS = 6


async def now(visit: Visit) -> Response:
    """The whole page."""
    return visit.page("now.html", here="now", **await _facts(visit))


async def live(visit: Visit) -> Response:
    """Whether anything happened since, for pages that keep themselves up."""
    waiting = await visit.guard.held(limit=100)
    head = await asyncio.to_thread(visit.guard.ledger.head)
    return json({"seq": head.seq, "waiting": len(waiting) + len(await visit.guard.approvals.waiting())})


async def _facts(visit: Visit) -> dict[str, Any]:
    happened = await asyncio.to_thread(visit.desk.activity.snapshot)
    incidents = await visit.guard.incidents.all(limit=200)
    waiting = await visit.guard.held()
    standing = sorted(
        (incident for incident in incidents if incident.state != "cleared"),
        key=lambda incident: incident.state != "open",
    )
    return {
        "happened": happened,
        "incidents": [(incident, reproduction(incident)) for incident in (standing or incidents)[:INCIDENTS]],
        "opened": sum(incident.state == "open" for incident in incidents),
        "contained": sum(incident.state == "contained" for incident in incidents),
        "spread": max((r for incident in standing if (r := reproduction(incident)) is not None), default=None),
        "waiting": waiting,
        "disputed": sum(item.appealed for item in waiting),
    }


def reproduction(incident: Incident) -> float | None:
    """How many agents each reached agent went on to reach, over the whole incident; None without a case."""
    windows = [(w.cases, w.r_effective) for w in incident.reproduction if w.r_effective is not None and w.cases]
    cases = sum(count for count, _ in windows)
    return sum(count * (r or 0.0) for count, r in windows) / cases if cases else None
