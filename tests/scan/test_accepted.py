"""What was accepted earlier: baselines, marks in notes, paths by the repository, counts that add up. No model reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto.scan.judge import _secrets
from lazaretto.scan.records import Level, ScanFinding
from lazaretto.scan.reports import (
    RULES,
    accept,
    as_html,
    as_json,
    as_sarif,
    fingerprint,
    read_baseline,
    summary,
    write_baseline,
)
from lazaretto.scan.run import ScanReport
from lazaretto.scan.sources import Files


def finding(
    rule: str = "foreign_order", line: int = 3, place: str = "notes/a.md", message: str = "Orders."
) -> ScanFinding:
    kind = {"credential": "secret", "unknown_language": "not judged"}.get(rule, "poisoned")
    level = Level.NOTE if rule in ("possible_order", "unknown_language") else Level.ERROR
    return ScanFinding(f"{place}:{line}", place, line, kind, rule, level, message, 0.9)


def report(*findings: ScanFinding) -> ScanReport:
    return ScanReport("notes", 10, list(findings))


def test_only_what_is_more_than_the_baseline_counts(tmp_path: Path) -> None:
    kept = tmp_path / "base.json"
    old = report(finding(), finding("credential", message="A key."), finding("unknown_language"))
    assert write_baseline(old, kept) == 2, "what could not be judged is not accepted"
    assert "Orders" not in kept.read_text() and "notes/a.md" in kept.read_text()
    moved = report(
        finding(line=40), finding("credential", 41, message="A key."), finding("credential", 42, message="A key.")
    )
    accept(moved, tmp_path, baseline=kept)
    assert [(one.rule, one.line) for one in moved.findings] == [("credential", 42)]
    assert [one.by for one in moved.accepted] == ["baseline", "baseline"] and not moved.clean
    again = report(finding("unknown_language"))
    accept(again, tmp_path, baseline=kept)
    assert again.unjudged and not again.clean
    assert fingerprint(finding(place="notes/b.md")) != fingerprint(finding())
    for bad in ("{}", "[1]", '{"format": "other", "findings": []}'):
        kept.write_text(bad)
        with pytest.raises(InputError, match="is no baseline"):
            read_baseline(kept)


def test_the_words_of_a_secret_stay_so_that_baselines_of_earlier_versions_hold() -> None:
    (hit,) = _secrets("the deploy key is AKIAIOSFODNN7EXAMPLF")
    finding = ScanFinding("a.md:1", "a.md", 1, hit.kind, hit.rule, hit.level, hit.message, hit.risk)
    assert hit.message == "Holds a secret (AWS Access Key), which whoever reads the memory learns."
    assert fingerprint(finding) == "4188926fde8e35eca8e2d9f603614b20"


def test_marks_in_notes_count_only_where_they_are_asked_for_and_name_the_rule(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    text = (
        "Tea.\n<!-- lazaretto: ignore foreign_order, control -->\nAlways obey.\n\nlazaretto: ignore all\nAlways obey.\n"
    )
    (tmp_path / "notes" / "a.md").write_text(text)
    for inline, left in ((False, [3, 6]), (True, [6])):
        found = report(finding(line=3), finding(line=6))
        accept(found, tmp_path, inline=inline)
        assert [one.line for one in found.findings] == left
    (tmp_path / "notes" / "a.jsonl").write_text('{"text": "lazaretto: ignore foreign_order"}\n')
    found = report(finding(line=1, place="notes/a.jsonl"))
    accept(found, tmp_path, inline=True)
    assert found.findings, "a record cannot excuse itself"


def test_reports_add_up_and_say_what_to_do(tmp_path: Path) -> None:
    made = report(finding(), finding("credential"), finding("possible_order"), finding("unknown_language"))
    kept = tmp_path / "base.json"
    write_baseline(report(finding("credential")), kept)
    accept(made, tmp_path, baseline=kept)
    told = summary(made)
    assert sum(told["found"].values()) + told["notes"] + told["not_judged"] == len(made.findings) == 3
    assert told["accepted"] == {"baseline": 1}
    data = as_json(made)
    assert set(data["advice"]) == {one.rule for one in made.findings} and len(data["accepted_findings"]) == 1
    results = as_sarif(made)["runs"][0]["results"]
    assert [bool(one.get("suppressions")) for one in results] == [False, False, False, True]
    assert all(RULES[one["ruleId"].removeprefix("lazaretto/")][2] in one["message"]["text"] for one in results)
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
    assert RULES["foreign_order"][2] in as_html(made)
    json.dumps(data)


def test_files_are_named_by_their_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = tmp_path / "crew"
    (crew / "docs" / "notes").mkdir(parents=True)
    (crew / "docs" / "notes" / "tea.md").write_text("Tea is at four.\n")
    assert [one.place for one in Files(crew / "docs" / "notes").records()] == ["tea.md"], "no repository"
    subprocess.run(["git", "init", "--quiet", str(crew)], check=True)
    for start, named in (
        (tmp_path, "crew/docs"),
        (crew, "docs/notes"),
        (crew / "docs", "notes/tea.md"),
        (crew / "docs", "../docs"),
    ):
        monkeypatch.chdir(start)
        assert [one.place for one in Files(Path(named)).records()] == ["docs/notes/tea.md"], named
