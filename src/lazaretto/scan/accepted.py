"""Findings that a person accepted: a baseline file, and marks in the notes themselves.

An attacker could plant a mark too, so marks count only where the caller asks for them. Accepted findings
stay in every report, set apart.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import orjson

from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.scan.files import NOTES
from lazaretto.scan.records import NOT_JUDGED, Accepted, ScanFinding
from lazaretto.scan.run import ScanReport

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
