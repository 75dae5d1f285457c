"""The report as one self-contained HTML page, with the score trajectories drawn."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.gates.content.records import Role
from lazaretto.gates.content.report import references

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2730;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid #d5dde3;padding-bottom:.2rem}
.badge{display:inline-block;padding:.15rem .7rem;border-radius:1rem;color:#fff;font-weight:600}
.unsafe{background:#b3261e}.safe{background:#1b6e3c}.review{background:#8a6100}
.meta{color:#4d5b66}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.35rem .5rem;border-bottom:1px solid #e3e9ee;vertical-align:top}
blockquote,pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f7f9}pre{padding:.7rem}
blockquote{margin:.4rem 0;padding:.5rem .9rem;border-left:4px solid #9fb2c0}
.speech.strict blockquote{border-color:#b3261e}.speech.loose blockquote{border-color:#1b6e3c}
mark{border-radius:.2rem;padding:0 .1rem;color:inherit}mark.risk{background:#f9c9c4}mark.benign{background:#c9ecd4}
.key mark{margin-right:.6rem}
svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#33414c}
"""


def page(report: Mapping[str, Any]) -> str:
    """The report as one HTML file: no script, no outside resource, everything from the content escaped."""
    e = html.escape
    low, high = report["interval"]
    badge = report["label"]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width'>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
        'data:">',
        f"<title>Audit {e(report['id'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Audit of {e(report['id'])} <span class='badge {badge}'>{badge}</span></h1>",
        f"<p class='meta'>Risk <b>{report['risk']:.2f}</b> ({low:.2f} to {high:.2f}) · rule "
        f"<b>{e(report['rule'])}</b> · "
        f"{report['rounds']} rounds · {e(report['kind'])} · judged by {e(report['table'])}</p>",
        "" if report["reasoning"].startswith(report["rule_text"]) else f"<p>{e(report['rule_text'])}</p>",
        f"<blockquote>{e(report['reasoning'] or '-')}</blockquote>",
        f"<p class='meta'>Policy references: {e(references(report['taxonomy']))}</p>",
        "<h2>Score trajectories</h2>",
        trajectory_svg(report["trajectories"], report["risk"]),
        "<h2>Exhibit</h2>",
    ]
    parts += _exhibit_html(report)
    parts += _evidence_html(report)
    parts += _precedents_html(report["precedents"])
    parts.append("<h2>Transcript</h2>")
    if report["briefing"]["summary"]:
        summary = e(report["briefing"]["summary"])
        parts.append(f"<div class='speech'><b>Supporter</b><blockquote>{summary}</blockquote></div>")
    for speech in report["transcript"]:
        notes = (" · concedes" if speech["conceded"] else "") + ("" if speech["stated"] else " · fallback score")
        words = speech["argument"] or f"no usable speech: {speech['fault']}"
        parts.append(
            f"<div class='speech {speech['role']}'><b>Round {speech['round']}, {speech['role'].capitalize()}</b> "
            f"{speech['score']:.2f}{notes}"
            f"<blockquote>{e(words)}</blockquote></div>"
        )
    parts += _cost_html(report)
    parts.append("</body></html>")
    return "\n".join(parts)


def _exhibit_html(report: Mapping[str, Any]) -> list[str]:
    """The content, with the phrases that carry the score marked where they stand."""
    parts, marked = [], False
    for name in ("text", "description", "read_text"):
        words = report["exhibit"][name]
        if words:
            spans = _places(report["evidence"], name, len(words))
            marked = marked or bool(spans)
            parts.append(f"<p class='meta'>{name.replace('_', ' ')}</p><pre>{_marked(words, spans)}</pre>")
    if marked:
        key = "<mark class='risk'>speaks for risk</mark><mark class='benign'>speaks for a benign reading</mark>"
        parts.append(f"<p class='meta key'>{key}</p>")
    return parts


def _places(evidence: Sequence[Mapping[str, Any]], part: str, length: int) -> list[tuple[int, int, str]]:
    """(start, end, side) of the quoted phrases of one part, in order, without overlaps."""
    found: list[tuple[int, int, str]] = []
    for row in evidence:
        data = row["data"]
        if row["kind"] == "span" and data.get("part") == part and "start" in data and data["end"] <= length:
            side = "benign" if data.get("weight", 1.0) < 0 else "risk"
            if all(data["end"] <= start or data["start"] >= end for start, end, _ in found):
                found.append((int(data["start"]), int(data["end"]), side))
    return sorted(found)


def _marked(words: str, spans: Sequence[tuple[int, int, str]]) -> str:
    e, pieces, at = html.escape, [], 0
    for start, end, side in spans:
        pieces.append(f"{e(words[at:start])}<mark class='{side}'>{e(words[start:end])}</mark>")
        at = end
    return "".join(pieces) + e(words[at:])


def _evidence_html(report: Mapping[str, Any]) -> list[str]:
    parts = []
    for title, rows in (("Evidence", report["evidence"]), ("Notices", report["notices"])):
        if rows:
            items = "".join(f"<li>{html.escape(row['summary'])}</li>" for row in rows)
            parts.append(f"<h2>{title}</h2><ul>{items}</ul>")
    return parts


def _precedents_html(precedents: Sequence[Mapping[str, Any]]) -> list[str]:
    if not precedents:
        return []
    e = html.escape
    rows = "".join(
        f"<tr><td>{e(p['label'])}</td><td>{p['similarity']:.2f}</td><td>{e(p['summary'])}</td><td>{e(p['why'])} "
        f"{e(p['differs'])}</td>"
        f"<td>{e(p['source'])}<br><small>{e(p['id'])}</small></td></tr>"
        for p in precedents
    )
    head = _head("ruled", "similarity", "what it was", "why it applies, where it differs", "source")
    return [f"<h2>Precedents</h2><table>{head}{rows}</table>"]


def _head(*names: str) -> str:
    return "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _cost_html(report: Mapping[str, Any]) -> list[str]:
    cost, e = report["cost"], html.escape
    rows = "".join(
        f"<tr><td>{e(c['role'])}</td><td>{e(c['model'])}</td><td>{c['calls']}</td><td>{c['prompt_tokens']}</td>"
        f"<td>{c['cached_tokens']}</td><td>{c['completion_tokens']}</td><td>{c['ms']:.0f}</td><td>{c['dollars']:.6f}</td></tr>"
        for c in cost["by_role"]
    )
    head = _head("role", "model", "calls", "prompt", "cached", "completion", "ms", "$")
    parts = [
        f"<h2>Cost</h2><p>{cost['ms']:.0f} ms, {cost['calls']} calls, {cost['tokens']} tokens, "
        f"${cost['dollars']:.6f}</p>",
        f"<table>{head}{rows}</table>" if rows else "",
    ]
    if report["faults"]:
        parts.append("<h2>Faults</h2><ul>" + "".join(f"<li>{e(f)}</li>" for f in report["faults"]) + "</ul>")
    return parts


def trajectory_svg(trajectories: Mapping[str, Sequence[float]], risk: float) -> str:
    """Strict's and Loose's scores by round, and the Arbiter's risk, drawn."""
    width, height, left, top = 560, 220, 46, 16
    inner_w, inner_h = width - left - 130, height - top - 34
    rounds = max((len(scores) for scores in trajectories.values()), default=0)
    columns = rounds + 1

    def x(i: float) -> float:
        return left + (inner_w * i / max(1, columns - 1))

    def y(score: float) -> float:
        return top + inner_h * (1.0 - score)

    marks = [f"<svg viewBox='0 0 {width} {height}' width='{width}' role='img' aria-label='risk scores by round'>"]
    for level in (0.0, 0.5, 1.0):
        dash = " stroke-dasharray='4 4'" if level == 0.5 else ""
        span = f"x1='{left}' x2='{left + inner_w}' y1='{y(level):.1f}' y2='{y(level):.1f}'"
        marks.append(f"<line {span} stroke='#cbd5dc'{dash}/>")
        marks.append(f"<text x='{left - 8}' y='{y(level) + 4:.1f}' text-anchor='end'>{level:.1f}</text>")
    for i in range(columns):
        name = f"round {i + 1}" if i < rounds else "ruling"
        marks.append(f"<text x='{x(i):.1f}' y='{height - 10}' text-anchor='middle'>{name}</text>")
    ends: list[tuple[float, str, str]] = [(risk, "#33414c", "Arbiter")]
    for role, colour in ((Role.STRICT.value, "#b3261e"), (Role.LOOSE.value, "#1b6e3c")):
        scores = trajectories.get(role, ())
        if not scores:
            continue
        points = " ".join(f"{x(i):.1f},{y(s):.1f}" for i, s in enumerate(scores))
        marks.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2.5'/>")
        marks += [f"<circle cx='{x(i):.1f}' cy='{y(s):.1f}' r='4' fill='{colour}'/>" for i, s in enumerate(scores)]
        last = f"{x(len(scores) - 1):.1f}"
        marks.append(
            f"<line x1='{last}' y1='{y(scores[-1]):.1f}' x2='{x(rounds):.1f}' y2='{y(risk):.1f}' stroke='{colour}' "
            f"stroke-dasharray='2 4'/>"
        )
        ends.append((scores[-1], colour, role.capitalize()))
    marks.append(f"<circle cx='{x(rounds):.1f}' cy='{y(risk):.1f}' r='6' fill='#33414c'/>")
    for row, (score, colour, name) in enumerate(sorted(ends, reverse=True)):
        place = top + 14 + row * 20
        marks.append(f"<rect x='{width - 116}' y='{place - 9}' width='10' height='10' fill='{colour}'/>")
        marks.append(f"<text x='{width - 100}' y='{place}'>{name} {score:.2f}</text>")
    return "".join(marks) + "</svg>"
