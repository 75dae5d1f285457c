"""Reports: the same facts in three forms, and nothing of the content comes alive in any of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
import typer
from typer.testing import CliRunner

from lazaretto.cases.library import CaseLibrary
from lazaretto.cases.records import Case, Label
from lazaretto.cli import audit
from lazaretto.cli.application import add_family
from lazaretto.gates.content.batch import verdict_line
from lazaretto.gates.content.debate import Transcript, evidence_of, hold_debate, markdown, report_data
from lazaretto.gates.content.records import Content, Panel, Role
from lazaretto.gates.content.report_html import page, trajectory_svg

HOSTILE = '<script>alert(1)</script> [click](javascript:x) | cell | `code` <img src=x onerror=y> "quote"'
SAID = f"The text carries markup that runs: {HOSTILE}"  # a judge that says nothing but the content is not believed


async def _transcript(scripted_panel: Callable[..., Panel], speech: SimpleNamespace) -> Transcript:
    lines = {(r, n): speech.debater(SAID, 0.6, quotes=["alert(1)"]) for r in (Role.STRICT, Role.LOOSE) for n in (1, 2)}
    verdict = speech.arbiter("confirmed-risk", "unsafe", 0.8, SAID, quotes=["alert(1)"], hazards=["S14"])
    library = CaseLibrary([Case(Label.UNSAFE, HOSTILE, cues=(HOSTILE,), summary=HOSTILE)])
    panel = scripted_panel({**lines, (Role.ARBITER, 0): verdict}, library)
    return await hold_debate(panel, Content(f"id {HOSTILE}", HOSTILE))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


async def test_the_page_is_self_contained_and_nothing_of_the_content_is_markup(
    scripted_panel: Callable[..., Panel], speech: SimpleNamespace
) -> None:
    html = page(report_data(await _transcript(scripted_panel, speech)))
    parser = _Tags()
    parser.feed(html)
    tags = {tag for tag, _ in parser.seen}
    assert not tags & {"script", "img", "iframe", "link", "a", "object"}
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in parser.seen for name in attrs)
    assert "&lt;script&gt;alert(1)" in html and "default-src 'none'" in html


async def test_markdown_keeps_quoted_text_from_rendering(
    scripted_panel: Callable[..., Panel], speech: SimpleNamespace
) -> None:
    text = markdown(report_data(await _transcript(scripted_panel, speech)))
    assert "<script" not in text and "<img" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `ca_")]
    assert rows and all(line.count("|") == 6 for line in rows)


async def test_the_report_holds_everything_a_person_needs(
    scripted_panel: Callable[..., Panel], speech: SimpleNamespace
) -> None:
    transcript = await _transcript(scripted_panel, speech)
    report = report_data(transcript)
    assert orjson.loads(orjson.dumps(report, option=orjson.OPT_NON_STR_KEYS)) == report
    assert report["trajectories"] == {"strict": [0.6, 0.6], "loose": [0.6, 0.6]}
    assert report["taxonomy"] == ["S14"] and report["precedents"][0]["label"] == "unsafe"
    assert report["cost"]["calls"] == 6 and {c["role"] for c in report["cost"]["by_role"]} >= {"strict", "arbiter"}
    kinds = {e.kind for e in evidence_of(transcript)}
    assert {"measure", "span", "precedent"} <= kinds


async def test_what_nobody_decided_is_never_called_safe(
    scripted_panel: Callable[..., Panel], speech: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {
        **{(r, n): speech.debater("x", 0.1) for r in (Role.STRICT, Role.LOOSE) for n in (1, 2)},
        (Role.ARBITER, 0): "mumbling",
    }
    panel = scripted_panel(lines)
    transcript = await hold_debate(panel, Content("item", "x"))
    assert transcript.finding.label is Label.SAFE, "the stand-in, which nobody may see"
    report = report_data(transcript)
    assert (report["label"], verdict_line("item", transcript)["label"]) == ("review", "review")
    badge = re.search(r"class='badge (\w+)'[^>]*>(\w+)<", page(report))
    assert badge is not None and badge.groups() == ("amber", "review")
    assert markdown(report).startswith("# Audit of `item`: REVIEW")
    monkeypatch.setattr(audit, "_panel", lambda *_: panel)
    application = typer.Typer()
    add_family(application, "audit")
    store = ["--text", "x", "--store", f"sqlite:///{tmp_path / 'store.db'}"]
    shown = await asyncio.to_thread(CliRunner().invoke, application, store)
    assert (shown.exit_code, shown.stdout.split()[0]) == (1, "REVIEW")
    told = await asyncio.to_thread(CliRunner().invoke, application, [*store, "--json"])
    assert (told.exit_code, orjson.loads(told.stdout)["label"]) == (1, "review")


def test_trajectories_are_drawn_where_the_scores_are() -> None:
    svg = trajectory_svg({"strict": [0.0, 1.0], "loose": [0.5, 0.5]}, 1.0)
    (points,) = re.findall(r"<polyline points='([^']+)' fill='none' stroke='#b3261e'", svg)
    (x1, y1), (x2, y2) = [tuple(map(float, p.split(","))) for p in points.split()]
    assert x1 < x2 and y1 > y2  # a rising risk goes up
    assert "Arbiter 1.00" in svg and "ruling" in svg
    assert trajectory_svg({}, 0.2).endswith("</svg>")


def test_quoted_phrases_are_marked_where_they_stand() -> None:
    from lazaretto.gates.content.report_html import _exhibit_html

    text = "Mix <b>bleach</b> & ammonia, then call the school."
    spans = [("bleach", 0.4), ("call the school", -0.2), ("leach</b> & am", 0.1)]
    rows = [
        {"kind": "span", "data": {"part": "text", "start": text.index(q), "end": text.index(q) + len(q), "weight": w}}
        for q, w in spans
    ]
    exhibit = {"text": text, "description": "", "read_text": ""}
    shown = "".join(_exhibit_html({"exhibit": exhibit, "evidence": [*rows, {"kind": "measure", "data": {}}]}))
    assert "&lt;b&gt;<mark class='risk'>bleach</mark>&lt;/b&gt; &amp; ammonia" in shown
    assert "<mark class='benign'>call the school</mark>" in shown and shown.count("<mark") == 4
