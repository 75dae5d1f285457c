"""A scan's report as JSON, as SARIF 2.1.0 for code scanning, and as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lazaretto.reports import html, sarif
from lazaretto.scan.accepted import INLINE, fingerprint
from lazaretto.scan.records import CONTRADICTING, NOT_JUDGED, POISONED, SECRET, Level, ScanFinding
from lazaretto.scan.run import ScanReport
from lazaretto.types import plain

KINDS = (POISONED, SECRET, CONTRADICTING, NOT_JUDGED)
RULES: Mapping[str, tuple[str, str, str]] = {
    "foreign_order": (
        "Order in a memory",
        "A memory orders agents about; an agent that recalls it may obey.",
        "Take the order out, or the whole note; find out who wrote it (git log) and who has read it.",
    ),
    "possible_order": (
        "Possible order in a memory",
        "A memory may be an order to an agent.",
        "Read it. If it is honest, say it as a fact, not as an order.",
    ),
    "secret_from_user": (
        "Secrecy towards the user",
        "Instructions ask agents to keep something from the user.",
        "Take it out: instructions that keep something from the user do not serve the user.",
    ),
    "casts_off_instructions": (
        "Cast-off instructions",
        "Instructions ask agents to drop other instructions.",
        "Take it out, or say which rule is replaced by which.",
    ),
    "asks_for_keys": (
        "Keys asked for",
        "Instructions ask agents to read what holds keys, and to pass it on.",
        "Take it out; keys belong in a store for secrets, and agents need not read them.",
    ),
    "changes_other_work": (
        "Orders about other work",
        "Instructions reach into work that is not their own.",
        "Say it in the instructions of the work it is about, or take it out.",
    ),
    "hidden_message": (
        "Hidden message",
        "A message is written in characters that nobody sees.",
        "Delete the invisible characters; retype the line rather than copy it.",
    ),
    "override": (
        "Direction override",
        "The text reads differently from what it is.",
        "Delete the direction marks; retype the line.",
    ),
    "invisible": (
        "Invisible characters",
        "Invisible characters stand where no script needs them.",
        "Delete the invisible characters; retype the line.",
    ),
    "control": (
        "Control characters",
        "Control characters or terminal commands stand in the text.",
        "Delete the control characters.",
    ),
    "mixed_script": (
        "Look-alike letters",
        "Words mix letters of several alphabets that look alike.",
        "Retype the word in one alphabet.",
    ),
    "credential": (
        "Secret in a memory",
        "A memory holds a key, token or password.",
        "Revoke the key, then take it out, out of the history too.",
    ),
    "contradicts": (
        "Contradiction",
        "Two memories cannot both hold.",
        "Find out which holds, and delete or date the other.",
    ),
    "unknown_language": (
        "Language not judged",
        "The screener was not made for the language of the text.",
        "Let a person read it who knows the language, or set up a reader: lazaretto deep setup e5.",
    ),
    "too_long_to_read_whole": ("Not read whole", "Only parts of the text were judged.", "Split the note into parts."),
}
"""Each rule of a scan: its name, its meaning, and the advice."""


def summary(report: ScanReport) -> dict[str, Any]:
    """The counts of a scan: found, notes and not judged are together all that it lists."""
    counts = Counter(finding.kind for finding in report.of(Level.ERROR, Level.WARNING))
    return {
        "target": report.target,
        "clean": report.clean,
        "complete": report.complete,
        "records": report.records,
        "found": {kind: counts[kind] for kind in KINDS if kind != NOT_JUDGED},
        "notes": sum(finding.kind != NOT_JUDGED for finding in report.of(Level.NOTE)),
        "not_judged": len(report.unjudged),
        "accepted": dict(Counter(entry.by for entry in report.accepted)),
        "skipped_files": report.skipped_files,
        "skipped_folders": report.skipped_folders,
        "unreadable": report.unreadable,
    }


def as_json(report: ScanReport) -> dict[str, Any]:
    """The whole report."""
    advised = {finding.rule: RULES[finding.rule][2] for finding in report.findings}
    kept = [{**plain(entry.finding), "by": entry.by} for entry in report.accepted]
    return {**summary(report), "findings": plain(report.findings), "accepted_findings": kept, "advice": advised}


def as_sarif(report: ScanReport) -> dict[str, Any]:
    """The report in the format that code hosts and editors read."""
    listed = [(finding, "") for finding in report.findings] + [(entry.finding, entry.by) for entry in report.accepted]
    used = sorted({finding.rule for finding, _ in listed})
    rules = [
        {
            "id": f"lazaretto/{rule}",
            "name": "".join(word.capitalize() for word in rule.split("_")),
            "shortDescription": {"text": RULES[rule][0]},
            "fullDescription": {"text": RULES[rule][1]},
            "help": {"text": RULES[rule][2]},
            "properties": {"tags": ["security", "agent-memory", "ASI06"]},
        }
        for rule in used
    ]
    return sarif.log(rules, [_result(finding, used, by) for finding, by in listed], report.unreadable)


def _result(finding: ScanFinding, used: list[str], accepted: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f"lazaretto/{finding.rule}",
        "ruleIndex": used.index(finding.rule),
        "level": finding.level.value,
        "message": {"text": f"{finding.message} {RULES[finding.rule][2]}"},
        "locations": [_location(finding.record, finding.place, finding.line)],
        "partialFingerprints": {"finding/v2": fingerprint(finding)},
        "properties": {"kind": finding.kind, "risk": finding.risk},
    }
    if accepted:
        result["suppressions"] = [{"kind": "inSource" if accepted == INLINE else "external"}]
    if finding.other is not None:
        result["relatedLocations"] = [_location(finding.other, finding.other_place or "", finding.other_line)]
    return result


def _location(record: str, place: str, line: int | None) -> dict[str, Any]:
    from urllib.parse import quote

    found: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(place), "uriBaseId": "%SRCROOT%"}},
        "logicalLocations": [{"fullyQualifiedName": record, "kind": "member"}],
    }
    if line is not None:
        found["physicalLocation"]["region"] = {"startLine": line}
    return found


def as_html(report: ScanReport, most: int = 5_000) -> str:
    """The report as one page: no script, nothing from outside, everything from the store escaped."""
    counted = summary(report)
    found = report.of(Level.ERROR, Level.WARNING)
    badge = ("red", "findings") if found else ("green", "nothing found")
    means = "Something of what was read needs a person." if found else "Everything was read and judged."
    if not found and not report.clean:
        open_ = "not all read" if report.records else "nothing read"
        badge = ("amber", "not all judged" if report.complete else open_)
        means = "Nothing was found in what was judged; the rest is not known."
    counts = " · ".join(f"{count:,} {kind}" for kind, count in counted["found"].items())
    parts = [
        f"<h1>Scan of {html.escape(report.target)} {html.badge(*badge, means)}</h1>",
        f"<p class='meta'>{report.records:,} records · {html.escape(counts)} · {counted['notes']:,} notes · "
        f"{counted['not_judged']:,} not judged · {len(report.unreadable):,} unreadable</p>",
    ]
    for kind in KINDS:
        several = [finding for finding in report.findings if finding.kind == kind]
        if several:
            parts.append(f"<h2>{html.escape(kind.capitalize())} ({len(several):,})</h2>")
            parts.append(
                html.table(
                    ("level", "record", "rule", "what", "what to do"), [_row(finding) for finding in several[:most]]
                )
            )
            if len(several) > most:
                parts.append(f"<p>{len(several) - most:,} more stand in the JSON report.</p>")
    parts.append(html.bullets("Could not be read", report.unreadable[:most]))
    return html.page(f"Scan of {report.target}", parts)


def _row(finding: ScanFinding) -> tuple[str, str, str, str, str]:
    where = (
        finding.record
        if finding.line is None or finding.record.endswith(f":{finding.line}")
        else f"{finding.record} (line {finding.line})"
    )
    return finding.level.value, where, finding.rule, finding.message, RULES[finding.rule][2]
