"""The report as one self-contained HTML page, with the score trajectories drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto import reports
from lazaretto.gates.content.debate import references
from lazaretto.gates.content.people import PERSON
from lazaretto.gates.content.records import Role

_STYLE = """
blockquote,pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft)}pre{padding:.7rem}
blockquote{margin:.4rem 0;padding:.5rem .9rem;border-left:4px solid #9fb2c0}
.speech.strict blockquote{border-color:#b3261e}.speech.loose blockquote{border-color:#1b6e3c}
mark{border-radius:.2rem;padding:0 .1rem;color:inherit}mark.risk{background:light-dark(#f9c9c4,#6b2a25)}
mark.benign{background:light-dark(#c9ecd4,#1f5233)}
.key mark{margin-right:.6rem;color:var(--ink)}svg text{font:12px system-ui,sans-serif;fill:#33414c}
"""
_COLOURS = {"unsafe": "red", "review": "amber", "safe": "green"}
_MEANS = {
    "unsafe": "The debate found it harmful.",
    "review": "The debate did not settle it: a person has to.",
    "safe": "The debate found nothing harmful.",
}
_MEANS_BY_PERSON = "A person decided about the same content; the findings of the debate stand below."


def page(report: Mapping[str, Any]) -> str:
    """The report as one HTML file: no script, no outside resource, everything from the content escaped."""
    e = reports.escape
    low, high = report["interval"]
    means = _MEANS_BY_PERSON if report["rule"] == PERSON else _MEANS[report["label"]]
    parts = [
        f"<h1>Audit of {e(report['id'])} {reports.badge(_COLOURS[report['label']], report['label'], means)}</h1>",
        f"<p class='meta'>Risk <b>{report['risk']:.2f}</b> ({low:.2f} to {high:.2f}) · rule "
        f"<b>{e(report['rule'])}</b> · "
        f"{report['rounds']} rounds · {e(report['kind'])} · judged by {e(report['table'])}</p>",
        f"<p class='meta'>Made {e(report['made'])} by lazaretto {e(report['version'])} of content with the SHA-256 "
        f"{e(report['sha256'])}</p>",
        "" if report["reasoning"].startswith(report["rule_text"]) else f"<p>{e(report['rule_text'])}</p>",
        f"<blockquote>{e(report['reasoning'] or '-')}</blockquote>",
        f"<p><b>Undecided</b>: {e(report['undecided'])}</p>" if report["undecided"] else "",
        f"<p class='meta'>Policy references: {e(references(report['taxonomy']))}</p>",
        "<h2>Score trajectories</h2>",
        reports.figure(trajectory_svg(report["trajectories"], report["risk"]), "risk scores by round"),
        "<h2>Exhibit</h2>",
    ]
    parts += _exhibit_html(report)
    for title, rows in (("Evidence", report["evidence"]), ("Notices", report["notices"])):
        parts.append(reports.bullets(title, [row["summary"] for row in rows]))
    parts.append(_precedents_html(report["precedents"]))
    if report["weighed"]:
        parts.append(f"<p>Cases further off, weighed for little and not cited: {report['weighed']}.</p>")
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
    return reports.page(f"Audit {report['id']}", parts, _STYLE)


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
    e, pieces, at = reports.escape, [], 0
    for start, end, side in spans:
        pieces.append(f"{e(words[at:start])}<mark class='{side}'>{e(words[start:end])}</mark>")
        at = end
    return "".join(pieces) + e(words[at:])


def _precedents_html(precedents: Sequence[Mapping[str, Any]]) -> str:
    if not precedents:
        return ""
    columns = ("ruled", "similarity", "what it was", "why it applies, where it differs", "source", "case")
    rows = [
        (p["label"], f"{p['similarity']:.2f}", p["summary"], f"{p['why']} {p['differs']}", p["source"], p["id"])
        for p in precedents
    ]
    return f"<h2>Precedents</h2>{reports.table(columns, rows)}"


def _cost_html(report: Mapping[str, Any]) -> list[str]:
    cost = report["cost"]
    columns = ("role", "model", "calls", "prompt", "cached", "completion", "ms", "$")
    counts = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
    rows = [
        (c["role"], c["model"], *(str(c[name]) for name in counts), f"{c['ms']:.0f}", f"{c['dollars']:.6f}")
        for c in cost["by_role"]
    ]
    spent = f"{cost['ms']:.0f} ms, {cost['calls']} calls, {cost['tokens']} tokens, ${cost['dollars']:.6f}"
    return [
        f"<h2>Cost</h2><p>{spent}</p>",
        reports.table(columns, rows) if rows else "",
        reports.bullets("Faults", report["faults"]),
    ]


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
