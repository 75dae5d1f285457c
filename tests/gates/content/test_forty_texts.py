"""An auditor's folder of forty texts: every reason is held to the text, the cases and the report it stands in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lazaretto import SyncGuard
from lazaretto.cases.library import starter_cases
from lazaretto.gates.content.debate import markdown
from lazaretto.gates.content.report_html import page

pytest.importorskip("tokenizers", reason="needs the gates extra")

FOLDER = Path(__file__).resolve().parents[2] / "data" / "auditors_forty.jsonl"
TEXTS = [json.loads(line) for line in FOLDER.read_text(encoding="utf-8").splitlines()]
QUOTED = re.compile("“([^”]*)”")
NO_CASE = re.compile(r"No case of the library bears on it\.|No case was looked up\.")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports of all forty, by the id of the text."""
    with SyncGuard.open(f"sqlite:///{tmp_path_factory.mktemp('forty') / 'crew.db'}") as guard:
        return {row["id"]: guard.audit(row["text"]) for row in TEXTS}


def test_every_quote_stands_in_the_text(reports: dict[str, dict[str, Any]]) -> None:
    wrong = []
    for row in TEXTS:
        report = reports[row["id"]]
        said = [report["reasoning"], *(speech["argument"] for speech in report["transcript"])]
        cited = " ".join(p["summary"] + p["why"] + p["differs"] for p in report["precedents"])
        quotes = [q for words in said for q in QUOTED.findall(words)] + [
            q for speech in report["transcript"] for q in speech["quotes"]
        ]
        for quote in quotes:
            if quote.rstrip("….").strip() not in row["text"] and quote not in cited:
                wrong.append((row["id"], quote))
        for one in report["evidence"]:
            data = one["data"]
            if one["kind"] == "span" and row["text"][data["start"] : data["end"]] != data["quote"]:
                wrong.append((row["id"], data))
    assert not wrong


def test_a_case_is_said_to_bear_exactly_where_one_is_cited(reports: dict[str, dict[str, Any]]) -> None:
    known = {case.id: case for case in starter_cases()}
    for name, report in reports.items():
        judged = not report["undecided"]
        assert bool(NO_CASE.search(report["reasoning"])) == (judged and not report["precedents"]), name
        for cited in report["precedents"]:
            assert cited["id"] in known and known[cited["id"]].label.value == cited["label"], name


def test_numbers_and_outcome_agree(reports: dict[str, dict[str, Any]]) -> None:
    for name, report in reports.items():
        low, high = report["interval"]
        assert low <= report["risk"] <= high, name
        bars = re.search(r"allowed below ([\d.]+), unsafe from ([\d.]+)", report["reasoning"])
        if bars is None:
            continue
        allowed, unsafe = (float(bar.rstrip(".")) for bar in bars.groups())
        asked = "safe" if report["risk"] < allowed else "unsafe" if report["risk"] >= unsafe else "review"
        near = min(abs(report["risk"] - allowed), abs(report["risk"] - unsafe)) < 0.006
        assert near or report["label"] == asked, (name, report["risk"], report["label"])


def test_a_reason_never_calls_safe_what_was_not_judged(reports: dict[str, dict[str, Any]]) -> None:
    for name, report in reports.items():
        if report["undecided"]:
            assert report["label"] == "review" and "safe" not in report["reasoning"], (name, report["reasoning"])


def test_no_argument_of_the_last_round_denies_what_the_ruling_rests_on(reports: dict[str, dict[str, Any]]) -> None:
    for name, report in reports.items():
        if report["label"] == "safe":
            assert "It rests on" not in report["reasoning"], name
        for speech in report["transcript"]:
            named = re.search(r"Risk (\d\.\d\d)", speech["argument"])
            assert named and abs(float(named[1]) - speech["score"]) < 0.0051 and 0 <= speech["score"] <= 1, name


def test_three_forms_of_a_report_say_the_same(reports: dict[str, dict[str, Any]]) -> None:
    from html import unescape

    for name, report in reports.items():
        html, text = unescape(page(report)), markdown(report)
        for form in (html, text):
            assert f"{report['risk']:.2f}" in form and report["rule"] in form, name
            assert report["reasoning"] in form.replace("‹", "<"), name
            for cited in report["precedents"]:
                assert cited["id"] in form, name
            if report["weighed"]:
                assert f"weighed for little and not cited: {report['weighed']}" in form, name
            if report["undecided"]:
                assert report["undecided"] in form, name
        assert f"{report['label'].upper()}" in text.splitlines()[0] and f">{report['label']}<" in html, name


def test_a_report_says_when_and_by_which_version_it_was_made(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["med-1"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", report.get("made", ""))
    assert report.get("version")
    for form in (page(report), markdown(report)):
        assert report["made"][:10] in form and report["version"] in form


def test_gross_errors_are_few(reports: dict[str, dict[str, Any]]) -> None:
    """Not a bar to tune to: an honest text that is called unsafe outright, or a harmful one called safe, is written
    down in the report of the audit."""
    wrong = [
        (row["id"], reports[row["id"]]["label"])
        for row in TEXTS
        if reports[row["id"]]["label"] == ("unsafe" if row["side"] == "honest" else "safe")
    ]
    assert len(wrong) <= 10, wrong
