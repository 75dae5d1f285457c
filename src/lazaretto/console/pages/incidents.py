"""How the crew stands now, and its incidents: from patient zero to cleared, with repairs shown as dry runs first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from lazaretto.console.item_view import rows
from lazaretto.console.web import Response, Visit, json, texts
from lazaretto.errors import InputError, RepairRefused
from lazaretto.incidents.records import Incident
from lazaretto.provenance.text_edits import difference
from lazaretto.repair.engine import states_before
from lazaretto.repair.proposals import work_of
from lazaretto.types import Receipt, RepairPlan

LISTED = 100
DIGEST, MOST_REASON = 64, 1_000
CHOICES = 100
"""Items that a repair may be started from in a list."""
REPAIRS = ("contain", "isolate", "rewrite", "release")
"""Repairs that people start from a page; the command line has the rest."""
_WITH_TREE = frozenset({"isolate", "release"})


async def incidents(visit: Visit) -> Response:
    """All of them, the newest first."""
    state = visit.query("state")
    found = await visit.guard.incidents.all(state or None, limit=LISTED)  # type: ignore[arg-type]  # else an InputError
    return visit.page("incidents.html", here="incidents", found=found, state=state)


async def incident(visit: Visit) -> Response:
    """One incident."""
    found = await visit.guard.incidents.one(visit.path("incident"))
    receipts = {receipt.id: receipt for receipt in await visit.guard.repairs.receipts()}
    done = [(repair, receipts.get(repair.receipt)) for repair in found.repairs]
    curve = _curve(found.agents)
    starts = [(item.id, f"{item.role}, {item.agent}: …{item.id[-6:]}") for item in found.items[:CHOICES]]
    facts: dict[str, Any] = {
        "one": found,
        "done": done,
        "spread": reproduction(found),
        "curve": curve,
        "starts": starts,
    }
    return visit.page("incident.html", here="incidents", **facts)


def _curve(agents: Any) -> dict[str, list[float]]:
    """Agents reached over time, as columns."""
    times = sorted(row.time for row in agents)
    return {"times": times, "reached": [float(n) for n in range(1, len(times) + 1)]}


async def plan(visit: Visit) -> Response:
    """The steps of a repair: nothing is changed until the plan that is shown here is applied."""
    back = visit.form.get("back", "")
    wanted = {
        "item": visit.field("item"),
        "repair": visit.field("repair"),
        "tree": bool(visit.form.get("tree")),
        "reason": visit.form.get("reason", "").strip()[:MOST_REASON],
        "back": back if back.startswith(("/incidents/", "/items/")) else "/incidents",
    }
    made = await _planned(visit, wanted)
    seen = await visit.guard.repairs.dry_run(made)
    touched = await asyncio.to_thread(rows, visit.guard, [step.item for step in made.steps])
    left = await asyncio.to_thread(rows, visit.guard, list(made.left))
    texts_now = {row.seen.id: row.seen.text for row in touched}
    changed = {
        preview.step.item: difference(
            texts_now.get(preview.step.item, ""), str(preview.step.detail["replacement"]["text"])
        )
        for preview in seen
        if preview.step.action == "replace"
    }
    by_item = {row.seen.id: row for row in touched}
    facts: dict[str, Any] = {
        "plan": made,
        "seen": seen,
        "rows": by_item,
        "left": left,
        "changed": changed,
        "back": wanted["back"],
        "name": f"pl_{work_of(made)}{orjson.dumps(wanted).hex()}",
    }
    return visit.page("plan.html", here="incidents", **facts)


async def apply(visit: Visit) -> Response:
    """Apply the plan that was shown."""
    shown, wanted = _read_name(visit.path("plan"))
    try:
        made = await _planned(visit, wanted)
    except RepairRefused as error:
        raise RepairRefused(f"{texts()['plan']['forgotten']} ({error})") from None
    if work_of(made) != shown:  # something changed since
        raise RepairRefused(texts()["plan"]["forgotten"])
    receipt = await visit.guard.repairs.apply(made, caller=visit.session.identity)
    return visit.to(str(wanted["back"]), texts()["plan"]["applied"].format(repair=made.repair, receipt=receipt.id))


async def _planned(visit: Visit, wanted: Mapping[str, Any]) -> RepairPlan:
    """The plan that a form asks for. Any process makes it again when it is applied, and compares it with the plan
    that was shown by its steps."""
    repair, reason = str(wanted["repair"]), str(wanted["reason"])
    if repair not in REPAIRS:
        raise InputError("repair", f"is {repair!r}", f"Use {', '.join(REPAIRS)}")
    options = {"descendants": True} if repair in _WITH_TREE and wanted["tree"] else {}
    why = f"{reason} ({visit.session.name})" if reason else visit.session.name
    return await visit.guard.repairs.plan(str(wanted["item"]), repair, reason=why, **options)


def _read_name(name: str) -> tuple[str, Mapping[str, Any]]:
    """The plan that was shown, and the request, from a plan's name in an address."""
    try:
        wanted = orjson.loads(bytes.fromhex(name[3 + DIGEST :]))
        back = str(wanted["back"])
        sound = {"item", "repair", "tree", "reason"} <= wanted.keys() and len(str(wanted["reason"])) <= MOST_REASON
        if not sound or not (back == "/incidents" or back.startswith(("/incidents/", "/items/"))):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RepairRefused(texts()["plan"]["forgotten"]) from None
    return name[3 : 3 + DIGEST], wanted


async def receipt(visit: Visit) -> Response:
    """A repair that was applied, and the items that undoing it would bring back."""
    found = await _receipt(visit)
    touched = await asyncio.to_thread(rows, visit.guard, [step.item for step in found.plan.steps])
    by_item = {row.seen.id: row for row in touched}
    before = {item: state.word for item, state in states_before(found.plan).items()}
    return visit.page("receipt.html", here="incidents", receipt=found, rows=by_item, before=before)


async def undo(visit: Visit) -> Response:
    """Put everything back as it was before a repair."""
    done = await visit.guard.repairs.undo(visit.path("receipt"), caller=visit.session.identity)
    return visit.to(f"/receipts/{done.id}", texts()["receipt"]["undone"])


async def _receipt(visit: Visit) -> Receipt:
    asked = visit.path("receipt")
    for receipt in await visit.guard.repairs.receipts():
        if receipt.id == asked:
            return receipt
    raise InputError("receipt", f"no repair is known as {asked!r}", "See the incident it belongs to")


# Now: how the crew stands, kept up while one looks.

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
