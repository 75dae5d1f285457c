"""An incident for people and for other programs: Markdown, JSON, SARIF 2.1.0, and one page without scripts.

Texts, names and reasons come from agents and may be hostile: each format quotes them so that nothing in them renders,
runs or breaks out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from lazaretto import reports
from lazaretto.errors import MissingExtra
from lazaretto.incidents.records import Incident, IncidentItem
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.drawing.pictures import to_svg
from lazaretto.provenance.drawing.subgraph import Subgraph
from lazaretto.reports import encodable
from lazaretto.types import plain

_MOST = 50
"""Rows of a table in the Markdown report."""


def moment(time: float) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def to_json(incident: Incident) -> str:
    """Everything, as one JSON document."""
    data = {"lazaretto": "incident", "version": 1, **encodable(plain(incident))}
    return reports.spelled_json(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()) + "\n"


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
    lines += _markdown_table(
        "Items",
        ("item", "part", "by", "stands", "found by", "says"),
        [
            (item.id, item.role, item.agent, item.standing, item.rule, item.text or (f"picture {item.image}"[:28]))
            for item in (*incident.items, *incident.reached)
        ],
    )
    lines += _markdown_table(
        "Agents",
        ("agent", "met it", "hops", "to screen"),
        [
            (agent.agent, moment(agent.time), str(agent.hops), "yes" if agent.to_screen else "no")
            for agent in incident.agents
        ],
    )
    lines += _markdown_table(
        "Decisions",
        ("decision", "by", "went", "what"),
        [(decision.id, decision.agent, outcome(decision.success), decision.what) for decision in incident.decisions],
    )
    lines += _markdown_table(
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
    lines += _markdown_table(
        "Repairs",
        ("receipt", "repair", "items", "undone", "reason"),
        [
            (repair.receipt, repair.repair, str(repair.items), "yes" if repair.undone else "no", repair.reason)
            for repair in incident.repairs
        ],
    )
    lines += _markdown_table(
        "What happened",
        ("time (UTC)", "event", "about", "says"),
        [(moment(entry.time), entry.kind, entry.subject, entry.says) for entry in incident.timeline],
    )
    return "\n".join(lines) + "\n"


def outcome(success: bool | None) -> str:
    """The outcome of a decision, in a word."""
    return "unknown" if success is None else "well" if success else "wrong"


def _markdown_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
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
    return orjson.dumps(reports.log(rules.values(), results), option=orjson.OPT_INDENT_2).decode() + "\n"


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


# An incident as one self-contained page: graph, timeline and tables. No script, nothing loaded from outside.

_STYLE = """
.numbers{display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0}
.numbers div{border:1px solid var(--line);border-radius:.6rem;padding:.5rem 1rem;min-width:7rem}
.numbers b{display:block;font-size:1.5rem}
td:first-child{font-family:ui-monospace,monospace;font-size:.8rem;min-width:9rem}
tr.zero td{background:light-dark(#fdeeee,#3a2020)}
ol.time{list-style:none;margin:0;padding:0 0 0 1rem;border-left:3px solid var(--line)}
ol.time li{position:relative;padding:.25rem 0 .25rem .8rem;overflow-wrap:anywhere}
ol.time li:before{content:"";position:absolute;left:-1.42rem;top:.7rem;width:.7rem;height:.7rem;
border-radius:50%;background:#9fb2c0}
ol.time li.ruled:before{background:#d9822b}ol.time li.labelled:before{background:#4a6fd4}
ol.time li.repaired:before{background:#1b6e3c}ol.time li.found:before{background:#b3261e}
ol.time time{color:var(--muted);font-size:.85rem;margin-right:.5rem}
"""
_COLOURS = {"open": "red", "contained": "amber", "cleared": "green"}
_MEANS = {
    "open": "Something that carries it is still in recall.",
    "contained": "Nothing of it is in recall; not all of it is settled.",
    "cleared": "All of it is settled.",
}


def to_html(incident: Incident, subgraph: Subgraph | None = None) -> str:
    """The page; ``subgraph`` is for the picture (``guard.graph.subgraph(incident.patient_zero)``)."""
    e = _escaped
    alarm = " · a false alarm" if incident.false_alarm else ""
    parts = [
        f"<h1>Incident {e(incident.id)} "
        f"{reports.badge(_COLOURS[incident.state], incident.state, _MEANS[incident.state])}</h1>",
        f"<p>{e(incident.title)}</p>",
        f"<p class='meta'>Began {moment(incident.opened)} · found {moment(incident.found)} · last change "
        f"{moment(incident.updated)} (UTC){alarm}</p>",
        _numbers(incident),
        "<h2>Where it came from and whom it reached</h2>",
        reports.figure(_picture(incident, subgraph), "where it came from and whom it reached"),
    ]
    if incident.reproduction:
        parts.append("<h2>Reproduction number</h2>" + reports.figure(reproduction_svg(incident), "reproduction number"))
    parts.append("<h2>What happened</h2>" + _timeline(incident))
    rows = [
        (item.id, item.role, item.agent, moment(item.time), item.standing, item.rule, item.text or _image(item.image))
        for item in (*incident.items, *incident.reached)
    ]
    marked = {0: "zero"} if incident.items and incident.items[0].id == incident.patient_zero else {}
    parts.append(_html_table("Items", ("item", "part", "by", "written", "stands", "found by", "says"), rows, marked))
    parts.append(
        _html_table(
            "Agents",
            ("agent", "met it", "hops from patient zero", "still to screen"),
            [(a.agent, moment(a.time), str(a.hops), "yes" if a.to_screen else "no") for a in incident.agents],
        )
    )
    parts.append(
        _html_table(
            "Decisions that rested on it",
            ("decision", "by", "taken", "went", "what"),
            [(d.id, d.agent, moment(d.time), outcome(d.success), d.what) for d in incident.decisions],
        )
    )
    parts.append(
        _html_table(
            "Repairs",
            ("receipt", "repair", "done", "items", "undone", "reason"),
            [
                (r.receipt, r.repair, moment(r.time), str(r.items), "yes" if r.undone else "no", r.reason)
                for r in incident.repairs
            ],
        )
    )
    return reports.page(f"Incident {showable(incident.id)}", parts, _STYLE)


def _escaped(text: str) -> str:
    return reports.escape(showable(text))


def _image(digest: str | None) -> str:
    return f"picture {digest[:16]}…" if digest else ""


def _numbers(incident: Incident) -> str:
    wrong = sum(decision.success is False for decision in incident.decisions)
    peak = max((w.r_effective for w in incident.reproduction if w.r_effective is not None), default=None)
    cells = [
        (str(len(incident.items)), "items carry it"),
        (str(sum(item.shown for item in incident.items)), "of them in recall"),
        (str(len(incident.reached)), "made from them"),
        (str(len(incident.agents)), "agents met it"),
        (f"{wrong} of {len(incident.decisions)}", "decisions went wrong"),
        ("-" if peak is None else f"{peak:.2f}", "highest reproduction number"),
    ]
    return "<div class='numbers'>" + "".join(f"<div><b>{n}</b>{what}</div>" for n, what in cells) + "</div>"


def _picture(incident: Incident, subgraph: Subgraph | None) -> str:
    if subgraph is None:
        return "<p class='meta'>No picture was asked for.</p>"
    try:
        svg = to_svg(subgraph, f"Incident {incident.id}")
    except MissingExtra as error:
        return f"<p class='meta'>The picture is left out: {_escaped(str(error))}</p>"
    return svg[svg.index("<svg") :]


def reproduction_svg(incident: Incident) -> str:
    """How many agents each reached agent went on to reach, as bars over time."""
    width, height, left, base = 720, 160, 44, 130
    windows = incident.reproduction
    top = max(1.0, *(w.r_effective or 0.0 for w in windows))
    step = (width - left - 10) / len(windows)
    parts = [f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='reproduction number over time'>"]
    for level in dict.fromkeys((1.0, top)):
        y = base - 100 * level / top
        parts.append(f"<line x1='{left}' x2='{width - 10}' y1='{y:.1f}' y2='{y:.1f}' stroke='#d5dde3'/>")
        parts.append(f"<text x='{left - 6}' y='{y + 4:.1f}' text-anchor='end' font-size='11'>{level:.1f}</text>")
    for place, window in enumerate(windows):
        tall = 100 * (window.r_effective or 0.0) / top
        x = left + place * step
        parts.append(
            f"<rect x='{x + 3:.1f}' y='{base - tall:.1f}' width='{step - 6:.1f}' height='{tall:.1f}' fill='#c8464a'/>"
            f"<text x='{x + step / 2:.1f}' y='{base + 16}' text-anchor='middle' font-size='11'>{window.cases}</text>"
        )
    parts.append(f"<line x1='{left}' x2='{width - 10}' y1='{base}' y2='{base}' stroke='#4d5b66'/>")
    caption = "agents newly reached in each stretch of time; the bar: how many each of them went on to reach"
    parts.append(f"<text x='{left}' y='{height - 2}' font-size='11' fill='#4d5b66'>{caption}</text></svg>")
    return "".join(parts)


def _timeline(incident: Incident) -> str:
    rows = []
    found = {item.id for item in incident.items if item.rule}
    first = True
    for entry in incident.timeline:
        kind = entry.kind
        if first and entry.subject in found and not entry.says.startswith(("allow", "warn")):
            kind, first = "found", False
        rows.append(
            f"<li class='{kind}'><time>{moment(entry.time)}</time><b>{_escaped(entry.kind)}</b> "
            f"{_escaped(entry.subject)}: {_escaped(entry.says)}</li>"
        )
    return f"<ol class='time'>{''.join(rows)}</ol>"


def _html_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], marked: Mapping[int, str] | None = None
) -> str:
    if not rows:
        return ""
    cells = [[showable(cell) for cell in row] for row in rows]
    return f"<h2>{title}</h2>{reports.table(columns, cells, marked)}"
