"""An incident for people and for other programs: Markdown, JSON and SARIF 2.1.0. The page is in ``report_html``.

Texts, names and reasons come from agents and may be hostile: each format quotes them so that nothing in them renders,
runs or breaks out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from lazaretto.incidents.records import Incident, IncidentItem
from lazaretto.provenance.drawing.labels import showable
from lazaretto.reports import sarif
from lazaretto.reports.encoding import encodable
from lazaretto.types import plain

_MOST = 50
"""Rows of a table in the Markdown report."""


def moment(time: float) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def to_json(incident: Incident) -> str:
    """Everything, as one JSON document."""
    data = {"lazaretto": "incident", "version": 1, **encodable(plain(incident))}
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode() + "\n"


def to_markdown(incident: Incident) -> str:
    """The report as a page of text; texts of agents stand in code, where nothing renders."""
    lines = [
        f"# Incident {_code(incident.id)}: {incident.state}{' (false alarm)' if incident.false_alarm else ''}",
        "",
        f"{_code(incident.title)}",
        "",
        f"Began {moment(incident.opened)} with {_code(incident.patient_zero)}, brought in by "
        f"{_code(incident.brought_by or 'unknown')}; found {moment(incident.found)}; last change "
        f"{moment(incident.updated)} (UTC).",
        "",
        f"Items that carry it: {len(incident.items)}, made from them: {len(incident.reached)}; agents that met it: "
        f"{len(incident.agents)}; decisions that rested on it: {len(incident.decisions)}.",
    ]
    lines += _table(
        "Items",
        ("item", "part", "by", "stands", "found by", "says"),
        [
            (item.id, item.role, item.agent, item.standing, item.rule, item.text or (f"picture {item.image}"[:28]))
            for item in (*incident.items, *incident.reached)
        ],
    )
    lines += _table(
        "Agents",
        ("agent", "met it", "hops", "to screen"),
        [
            (agent.agent, moment(agent.time), str(agent.hops), "yes" if agent.to_screen else "no")
            for agent in incident.agents
        ],
    )
    lines += _table(
        "Decisions",
        ("decision", "by", "went", "what"),
        [(decision.id, decision.agent, outcome(decision.success), decision.what) for decision in incident.decisions],
    )
    lines += _table(
        "Reproduction number",
        ("from", "agents reached", "each reached on average"),
        [
            (
                moment(window.start),
                str(window.cases),
                "-" if window.r_effective is None else f"{window.r_effective:.2f}",
            )
            for window in incident.reproduction
        ],
    )
    lines += _table(
        "Repairs",
        ("receipt", "repair", "items", "undone", "reason"),
        [
            (repair.receipt, repair.repair, str(repair.items), "yes" if repair.undone else "no", repair.reason)
            for repair in incident.repairs
        ],
    )
    lines += _table(
        "What happened",
        ("time (UTC)", "event", "about", "says"),
        [(moment(entry.time), entry.kind, entry.subject, entry.says) for entry in incident.timeline],
    )
    return "\n".join(lines) + "\n"


def outcome(success: bool | None) -> str:
    """The outcome of a decision, in a word."""
    return "unknown" if success is None else "well" if success else "wrong"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = ["", f"## {title}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_code(cell) if cell else '-' for cell in row)} |" for row in rows[:_MOST]]
    return [*lines, "", f"{len(rows) - _MOST} more are in the JSON report."] if len(rows) > _MOST else lines


def _code(text: str) -> str:
    """Text as inline code that nothing in it can end, on one line."""
    safe = showable(text, 200).replace("`", "ˋ").replace("|", "¦").replace("<", "‹").replace("\\", "∖")
    return f"`{safe}`"


def to_sarif(incidents: Sequence[Incident]) -> str:
    """Incidents for a security dashboard: one result per item, grouped by incident."""
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for incident in incidents:
        for item in incident.items:
            rule = _rule_id(item)
            words = f"Found by {showable(item.rule, 120)}" if item.rule else "Carries what was found elsewhere"
            rules.setdefault(rule, {"id": rule, "shortDescription": {"text": words}})
            results.append(_result(incident, item, rule, list(rules).index(rule)))
    return orjson.dumps(sarif.log(rules.values(), results), option=orjson.OPT_INDENT_2).decode() + "\n"


def _rule_id(item: IncidentItem) -> str:
    return re.sub(r"[^\w./-]+", "/", item.rule).strip("/") or "carrier"


def _result(incident: Incident, item: IncidentItem, rule: str, index: int) -> dict[str, Any]:
    text = showable(item.text, 200) or "a picture"
    words = f"{item.role} of incident {incident.id} ({incident.state}), written by {showable(item.agent, 80)}: {text}"
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": index,
        "level": "error" if item.shown else "warning",
        "kind": "fail",
        "message": {"text": words},
        "locations": [{"logicalLocations": [_place(item.id, item.channel)]}],
        "partialFingerprints": {"lazarettoItem/v1": hashlib.sha256(item.id.encode()).hexdigest()},
        "properties": {
            "incident": incident.id,
            "state": incident.state,
            "standing": item.standing,
            "agent": showable(item.agent, 200),
            "patientZero": incident.patient_zero,
        },
    }
    if item.risk is not None:
        result["rank"] = round(100 * item.risk, 1)
    if incident.false_alarm:
        result["suppressions"] = [{"kind": "external", "justification": "released by a person"}]
    if item.id != incident.patient_zero:
        zero = {"id": 1, "message": {"text": "patient zero"}}
        result["relatedLocations"] = [{**zero, "logicalLocations": [_place(incident.patient_zero, "item")]}]
    return result


def _place(item: str, channel: str) -> dict[str, str]:
    return {"fullyQualifiedName": item, "kind": channel}
