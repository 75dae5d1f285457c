"""An incident written down: content is data in every format, whatever it says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard, SyncGuard
from lazaretto.cli.incidents import report
from lazaretto.incidents.records import Incident
from lazaretto.incidents.report import to_sarif

HOSTILE = "</td></svg><script>alert(1)</script> `| [x](javascript:alert(2)) \U0001f680 & \"quotes' {{7*7}} copy me"


@pytest.fixture
def incident(open_guard: Callable[..., Guard]) -> tuple[Incident, SyncGuard]:
    guard = open_guard()

    async def happen() -> Incident:
        first = await guard.remember(HOSTILE, agent='eve"><img src=x>')
        await guard.recall("copy", agent="bob")
        copy = await guard.remember(HOSTILE + " again", agent="bob")
        await guard.report("<b>paid</b>", agent="bob", success=False, rests_on=[copy.item])
        await guard.label(copy.item, "harmful", by="carol<script>")
        await guard.repairs.apply(
            await guard.repairs.plan(first.item, "isolate", descendants=True, reason="| `x` <script>")
        )
        return await guard.incidents.one(copy.item)

    return asyncio.run(happen()), SyncGuard(guard)


def test_the_page_holds_no_markup_of_agents(incident: tuple[Incident, SyncGuard]) -> None:
    one, guard = incident
    page = report(one, "html", guard)
    tags = {tag.lower() for tag in re.findall(r"<\s*([a-zA-Z!?][\w-]*)", page)}
    assert not tags & {"script", "img", "b><img", "iframe", "a", "foreignobject"} and page.count("<html") == 1
    assert "&lt;script&gt;alert(1)" in page and one.id in page and one.patient_zero in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:|//|javascript:)", page)


def test_the_text_report_renders_nothing(incident: tuple[Incident, SyncGuard]) -> None:
    one, guard = incident
    text = report(one, "markdown", guard)
    rows = [line for line in text.splitlines() if line.startswith("| `it_")]
    assert len(rows) == 2 and all(row.count(" | ") == 5 for row in rows), "no cell breaks its row"
    outside = "".join(re.split(r"`[^`\n]*`", text))
    assert "<" not in outside and "javascript" not in outside
    assert "cleared" in text.splitlines()[0] and "isolate" in text


def test_the_json_report_is_whole(incident: tuple[Incident, SyncGuard]) -> None:
    one, guard = incident
    data = json.loads(report(one, "json", guard))
    assert data["id"] == one.id and data["items"][0]["text"].startswith("</td>")
    assert data["decisions"][0]["success"] is False and len(data["timeline"]) == len(one.timeline)


def test_sarif_says_what_dashboards_read(incident: tuple[Incident, SyncGuard]) -> None:
    one, _ = incident
    data: dict[str, Any] = json.loads(to_sarif([one]))
    (run,) = data["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert data["version"] == "2.1.0" and len(run["results"]) == len(one.items) == 2
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"] and result["level"] in ("error", "warning", "note")
        assert result["message"]["text"] and result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
        assert 0 <= result.get("rank", 0) <= 100
    assert json.loads(to_sarif([]))["runs"][0]["results"] == []
