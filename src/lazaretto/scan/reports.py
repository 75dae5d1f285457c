"""A scan's report as JSON, SARIF 2.1.0 and one HTML page, without the findings that a person accepted."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from lazaretto import reports
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.scan.records import CONTRADICTING, NOT_JUDGED, POISONED, SECRET, Accepted, Level, ScanFinding
from lazaretto.scan.run import ScanReport
from lazaretto.scan.sources import NOTES
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
    return reports.log(rules, [_result(finding, used, by) for finding, by in listed], report.unreadable)


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
        f"<h1>Scan of {reports.escape(report.target)} {reports.badge(*badge, means)}</h1>",
        f"<p class='meta'>{report.records:,} records · {reports.escape(counts)} · {counted['notes']:,} notes · "
        f"{counted['not_judged']:,} not judged · {len(report.unreadable):,} unreadable</p>",
    ]
    for kind in KINDS:
        several = [finding for finding in report.findings if finding.kind == kind]
        if several:
            parts.append(f"<h2>{reports.escape(kind.capitalize())} ({len(several):,})</h2>")
            parts.append(
                reports.table(
                    ("level", "record", "rule", "what", "what to do"), [_row(finding) for finding in several[:most]]
                )
            )
            if len(several) > most:
                parts.append(f"<p>{len(several) - most:,} more stand in the JSON report.</p>")
    parts.append(reports.bullets("Could not be read", report.unreadable[:most]))
    return reports.page(f"Scan of {report.target}", parts)


def _row(finding: ScanFinding) -> tuple[str, str, str, str, str]:
    where = (
        finding.record
        if finding.line is None or finding.record.endswith(f":{finding.line}")
        else f"{finding.record} (line {finding.line})"
    )
    return finding.level.value, where, finding.rule, finding.message, RULES[finding.rule][2]


# Findings that a person accepted: a baseline file, and marks in the notes themselves.
#
# An attacker could plant a mark too, so marks count only where the caller asks for them. Accepted findings
# stay in every report, set apart.

BASELINE, INLINE = "baseline", "inline"
FORMAT = "lazaretto scan baseline 1"
MARK = re.compile(r"lazaretto:\s*ignore\s+([a-z_]+(?:\s*,\s*[a-z_]+)*)")
"""A mark on the line of the finding or the one before it: it names rules, never all of them."""


def fingerprint(finding: ScanFinding) -> str:
    """The same for a finding that merely moved within its file."""
    parts = (finding.rule, finding.place, _unnumbered(finding.message), finding.other_place or "")
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:32]


def _unnumbered(message: str) -> str:
    """A message names records by their lines, which move."""
    return re.sub(r":\d+(#\d+)?", "", message)


def accept(report: ScanReport, root: Path, *, baseline: Path | None = None, inline: bool = False) -> None:
    """Move accepted findings out of the report's findings. A text that could not be judged cannot be accepted."""
    known = Counter(read_baseline(baseline)) if baseline is not None else Counter[str]()
    left: list[ScanFinding] = []
    for finding in report.findings:
        name = fingerprint(finding)
        if finding.kind != NOT_JUDGED and known[name] > 0:
            known[name] -= 1
            report.accepted.append(Accepted(finding, BASELINE))
        elif finding.kind != NOT_JUDGED and inline and _marked(finding, root):
            report.accepted.append(Accepted(finding, INLINE))
        else:
            left.append(finding)
    report.findings = left


def read_baseline(path: Path) -> Mapping[str, int]:
    """Fingerprint -> how many findings of it were accepted."""
    try:
        data = orjson.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise ValueError
        return {str(entry["fingerprint"]): int(entry["count"]) for entry in data["findings"]}
    except OSError as error:
        raise InputError("baseline", f"{path} cannot be read ({error.strerror})", "Make it: --write-baseline") from None
    except (ValueError, KeyError, TypeError):
        raise InputError("baseline", f"{path} is no baseline", "Make it with --write-baseline") from None


def write_baseline(report: ScanReport, path: Path) -> int:
    """Accept all that is found now; how many. It names rule and file of each, for those who review the change."""
    found = [finding for finding in report.findings if finding.kind != NOT_JUDGED] + [
        entry.finding for entry in report.accepted
    ]
    counts = Counter(map(fingerprint, found))
    named = {fingerprint(finding): finding for finding in found}
    rows = [
        {"fingerprint": name, "count": counts[name], "rule": named[name].rule, "place": named[name].place}
        for name in sorted(counts, key=lambda name: (named[name].place, named[name].rule, name))
    ]
    write_file(path, orjson.dumps({"format": FORMAT, "findings": rows}, option=orjson.OPT_INDENT_2) + b"\n")
    return len(found)


def _marked(finding: ScanFinding, root: Path) -> bool:
    path = root / finding.place
    if finding.line is None or path.suffix.lower() not in NOTES:
        return False
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    near = lines[max(0, finding.line - 2) : finding.line]
    rules = {rule.strip() for line in near for found in MARK.findall(line) for rule in found.split(",")}
    return finding.rule in rules
