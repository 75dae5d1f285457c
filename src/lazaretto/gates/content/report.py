"""A debate as a report: the same facts as JSON data, Markdown and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.gates.content.arbitration import RULES
from lazaretto.gates.content.debate import Transcript
from lazaretto.gates.content.prompts import HAZARDS
from lazaretto.gates.content.records import PLACEHOLDER
from lazaretto.names import counted
from lazaretto.types import Evidence, plain

_SHOWN = 4000
"""Characters of a part of the content that a report repeats."""
_KEPT = 2000
"""Characters of a speech that are kept with the ruling."""
DEBATE = "debate"
"""The kind of evidence that holds a transcript."""


def taxonomy(transcript: Transcript) -> tuple[str, ...]:
    """Policy references: MLCommons hazards of the finding, and OWASP ASI01 where the content speaks to its judges."""
    return transcript.finding.hazards + (("ASI01",) if transcript.prepared.notices else ())


def report_data(transcript: Transcript) -> dict[str, Any]:
    """The whole report as JSON data."""
    finding, prepared, briefing = transcript.finding, transcript.prepared, transcript.briefing
    return {
        "id": prepared.content.id,
        "kind": prepared.kind.value,
        "label": finding.outcome.value,
        "guess": finding.label.value,
        "risk": round(finding.risk, 4),
        "interval": [round(v, 4) for v in finding.interval],
        "rule": finding.rule,
        "rule_text": RULES.get(finding.rule, ""),
        "reasoning": finding.reasoning,
        "undecided": finding.undecided,
        "taxonomy": list(taxonomy(transcript)),
        "evidence": plain(finding.evidence),
        "notices": plain(prepared.notices),
        "exhibit": {
            "text": prepared.content.text[:_SHOWN],
            "description": prepared.description[:_SHOWN],
            "read_text": prepared.read_text[:_SHOWN],
            "facts": plain(prepared.facts),
        },
        "briefing": {
            "summary": briefing.summary,
            "cues": list(briefing.cues),
            "differences": list(briefing.differences),
            "patterns": list(briefing.patterns),
        },
        "precedents": [
            {
                "id": p.case.id,
                "label": p.case.label.value,
                "similarity": round(p.similarity, 3),
                "summary": p.case.summary or p.case.words[:160],
                "why": p.why,
                "differs": p.differs,
                "source": p.case.source,
            }
            for p in briefing.precedents
            if p.bears
        ],
        "weighed": sum(not p.bears for p in briefing.precedents),
        "transcript": [
            {
                "round": t.round,
                "role": t.role.value,
                "score": round(transcript.scores[t.role][t.round - 1], 4),
                "stated": t.score is not None,
                "conceded": t.conceded,
                "argument": t.argument,
                "quotes": [str(q.data.get("quote", q.summary)) for q in t.quotes],
                "fault": t.fault,
            }
            for t in transcript.speeches
        ],
        "trajectories": {role.value: [round(s, 4) for s in scores] for role, scores in transcript.scores.items()},
        "rounds": transcript.rounds,
        "table": transcript.panel,
        "cost": {
            "ms": round(transcript.ms, 2),
            "tokens": transcript.cost.tokens,
            "calls": transcript.cost.calls,
            "dollars": round(sum(c.dollars for c in transcript.role_costs), 6),
            "by_role": [plain(c) for c in transcript.role_costs],
        },
        "faults": list(transcript.faults),
    }


def references(ids: Sequence[str]) -> str:
    names = {"ASI01": "OWASP ASI01 agent goal hijack"}
    return ", ".join(names.get(i, f"MLCommons {i} {HAZARDS.get(i, '')}".strip()) for i in ids) or "none"


def markdown(report: Mapping[str, Any]) -> str:
    """The report for people who read text. Everything quoted stands in code or block quotes, so that nothing in it
    renders.
    """
    low, high = report["interval"]
    lines = [
        f"# Audit of `{_code(report['id'])}`: {report['label'].upper()}",
        "",
        f"Risk {report['risk']:.2f} ({low:.2f} to {high:.2f}) · rule `{report['rule']}` · {report['rounds']} rounds "
        f"· {report['table']}",
        "",
        report["rule_text"],
        "",
        *_quote(report["reasoning"]),
        "",
        f"Policy references: {references(report['taxonomy'])}",
    ]
    if report["undecided"]:
        lines += ["", f"**Undecided**: {_line(report['undecided'])}"]
    for title, rows in (("Evidence", report["evidence"]), ("Notices", report["notices"])):
        if rows:
            lines += ["", f"## {title}", "", *(f"- {_evidence_line(row)}" for row in rows)]
    if report["precedents"]:
        lines += ["", "## Precedents", ""]
        lines += [
            "| case | ruled | similarity | what it was | why it applies, where it differs |",
            "|---|---|---|---|---|",
        ]
        for p in report["precedents"]:
            bearing = _cell(f"{p['why']} {p['differs']}".strip())
            lines.append(f"| `{p['id']}` | {p['label']} | {p['similarity']:.2f} | {_cell(p['summary'])} | {bearing} |")
    if report.get("weighed"):
        lines += ["", f"Cases further off, weighed for little and not cited: {report['weighed']}."]
    lines += ["", "## Transcript"]
    if report["briefing"]["summary"]:
        lines += ["", "**Supporter**", "", *_quote(report["briefing"]["summary"])]
    for speech in report["transcript"]:
        mark = " (concedes)" if speech["conceded"] else ""
        stated = "" if speech["stated"] else " (fallback)"
        name = f"Round {speech['round']}, {speech['role'].capitalize()}"
        lines += ["", f"**{name}**: {speech['score']:.2f}{stated}{mark}", ""]
        lines += _quote(speech["argument"] or f"no usable speech: {speech['fault']}")
    cost = report["cost"]
    spent = f"{cost['ms']:.0f} ms, {cost['calls']} calls, {cost['tokens']} tokens, ${cost['dollars']:.6f}"
    lines += ["", "## Cost", "", spent]
    if report["faults"]:
        lines += ["", "## Faults", "", *(f"- {_line(fault)}" for fault in report["faults"])]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return str(text).replace("`", "ˋ").replace("\n", " ").replace("<", "‹")


def _line(text: str) -> str:
    return "`" + _code(text) + "`"


def _cell(text: str) -> str:
    return str(text).replace("|", "¦").replace("\n", " ").replace("<", "‹")


def _quote(text: str) -> list[str]:
    return ["> " + part.replace("<", "‹") for part in (text or "-").splitlines()] or ["> -"]


def _evidence_line(row: Mapping[str, Any]) -> str:
    return f"{row['kind']}: {_cell(row['summary'])}"


def evidence_of(transcript: Transcript) -> tuple[Evidence, ...]:
    """The evidence of the verdict: the finding's evidence, the notices and the nearest precedents."""
    cited = tuple(
        Evidence(
            "precedent",
            f"Precedent ruled {p.case.label.value}: {p.case.summary or p.case.words[:120]}",
            {"case": p.case.id, "label": p.case.label.value, "similarity": round(p.similarity, 3)},
        )
        for p in transcript.briefing.precedents
        if p.bears
    )
    words = transcript.finding.reasoning or RULES[transcript.finding.rule]
    reason = Evidence("measure", words, {"scores": plain(transcript.scores)})
    return (reason, *transcript.finding.evidence, *transcript.prepared.notices, *cited, debate_evidence(transcript))


def debate_evidence(transcript: Transcript) -> Evidence:
    """The debate itself, as the ledger keeps it beside the ruling: what the Curator learns from."""
    report = report_data(transcript)
    speeches = [
        {**{k: t[k] for k in ("role", "round", "score")}, "argument": t["argument"][:_KEPT], "quotes": t["quotes"][:8]}
        for t in report["transcript"]
    ]
    precedents = [{k: p[k] for k in ("id", "label", "summary")} for p in report["precedents"]]
    described = transcript.prepared.description
    data = {
        "transcript": speeches,
        "precedents": precedents,
        "description": "" if described == PLACEHOLDER else described[:_SHOWN],
        "read_text": transcript.prepared.read_text[:_SHOWN],
        "rule": transcript.finding.rule,
        "taxonomy": report["taxonomy"],
    }
    rounds, rule = counted(transcript.rounds, "round"), transcript.finding.rule
    return Evidence(
        DEBATE, f"{rounds} of debate ended with {rule}" if transcript.rounds else "No debate was held.", data
    )
