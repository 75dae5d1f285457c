"""Sliders for rates: the counts of ``lazaretto tune``, dry, by mouse, by key and without scripts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
pytest.importorskip("jinja2", reason="needs the api extra")
uvicorn = pytest.importorskip("uvicorn", reason="needs the api extra")

from starlette.testclient import TestClient
from tests.api.conftest import serving
from tests.scored_gate import Rate, Scored

from lazaretto import Guard
from lazaretto.api.app import create_app
from lazaretto.console import activity
from lazaretto.gates.protocol import Gate

POLICY = {"preset": "minimal", "mode": "observe", "channels": {"message": {"stages": [["one", "two"]]}}}
HONEST, HARMFUL = 100, 4


def make(name: str, table: Mapping[str, Any]) -> Gate | None:
    return Scored(name, Rate(**table)) if name in ("one", "two") else None


@pytest.fixture
def crew(open_guard: Callable[..., Guard], monkeypatch: pytest.MonkeyPatch) -> Guard:
    """100 honest messages with numbers from 0 to .99 of one gate, and four findings near 1."""
    monkeypatch.setattr(activity.Histories.__init__, "__defaults__", (make,))
    guard = open_guard(POLICY, gates={name: Scored(name, Rate()) for name in ("one", "two")})

    async def work() -> None:
        for n in range(HONEST):
            await guard.check(f"crate {n} one={n / 100}", agent="ada", channel="message")
        for n in range(HARMFUL):
            said = await guard.check(f"worm {n} one={0.955 + n / 100}", agent="eve", channel="message")
            await guard.label(said.item, "harmful", by="dan")

    guard.run(work())
    return guard


def numbers(page: str) -> list[tuple[str, str]]:
    """Honest items and findings of the rows of the sum."""
    part = page[page.index('id="sum"') : page.index("</section>", page.index('id="sum"'))]
    return re.findall(
        r'<td class="number"[^>]*>([\d,]+)</td><td class="number"[^>]*>[\d.]+ %</td><td class="number"[^>]*>(\d+) /',
        part,
    )


def test_each_place_of_a_slider_is_counted_and_nothing_is_written(crew: Guard) -> None:
    with TestClient(create_app(crew), base_url="http://127.0.0.1/console/") as client:
        page = client.get("/tune").text
        head = crew.ledger.head()
        assert page.count('type="range"') == 2 and numbers(page) == [("4", "4"), ("4", "4")]
        milder = client.get("/tune?one.rate=1").text
        assert numbers(milder) == [("4", "4"), ("1", "1")]
        assert "would have let pass 3 findings" in milder and "0.02" in milder and 'id="lines"' not in milder
        stricter = client.get("/tune?one.rate=3&two.rate=0").text
        assert numbers(stricter) == [("4", "4"), ("9", "4")] and "would have let pass" not in stricter
        lines = client.get("/tune?one.rate=3&lines=1").text
        assert "[gates.one]\nrate = 0.1" in lines and "writes no policy" in lines
        assert crew.ledger.head() == head and crew.policy.gates == {}
        for wrong in ("one.rate=9", "one.rate=-1", "one.rate=x", f"one.rate={'9' * 5000}"):
            assert client.get(f"/tune?{wrong}").status_code == 422


def test_a_month_is_read_once_until_asked(crew: Guard) -> None:
    with TestClient(create_app(crew), base_url="http://127.0.0.1/console/") as client:
        before = numbers(client.get("/tune").text)
        crew.run(crew.check("crate x one=0.99", agent="ada", channel="message"))
        assert numbers(client.get("/tune").text) == before
        assert numbers(client.get("/tune?anew=1").text)[0] == ("5", "4")


def test_too_little_says_so(open_guard: Callable[..., Guard]) -> None:
    with TestClient(create_app(open_guard()), base_url="http://127.0.0.1/console/") as client:
        told = client.get("/tune")
        assert told.status_code == 200 and "only 0 items were judged in 30 days; 100 are needed" in told.text


@pytest.fixture
def address(crew: Guard) -> Iterator[str]:
    with serving(create_app(crew)) as base:
        yield f"{base}/console"


CHROMIUM = os.environ.get("LAZARETTO_CHROMIUM") or shutil.which("chromium") or ""
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
WAIT_MS = 60_000
WATCH = """
window.broken = [];
document.addEventListener("securitypolicyviolation", (event) => window.broken.push(event.violatedDirective));
"""


@pytest.mark.skipif(not CHROMIUM, reason="no chromium here: make browser")
@pytest.mark.parametrize("scripts", [True, False])
def test_sliders_move_by_key_in_a_browser(crew: Guard, address: str, scripts: bool) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the dev extra")
    head = crew.ledger.head()
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        context = browser.new_context(java_script_enabled=scripts, reduced_motion="reduce")
        context.set_default_timeout(WAIT_MS)
        if scripts:
            context.add_init_script(WATCH)
        page = context.new_page()
        page.goto(f"{address}/tune")
        slider = page.locator('input[name="one.rate"]')
        slider.focus()
        slider.press("ArrowLeft")
        if scripts:
            playwright.expect(page.locator("#then td").nth(1)).to_have_text("1")
            assert slider.get_attribute("aria-valuetext") == "0.02"
            assert page.locator("fieldset output").first.text_content() == "0.02"
            assert page.evaluate("window.broken") == [], "nothing breaks the page's own rules"
        else:
            slider.press("Enter")  # as every form: the first button counts
        playwright.expect(page.locator("#lost")).to_contain_text("3 findings")
        page.get_by_role("button", name="Lines for the policy").press("Enter")
        playwright.expect(page.locator("#lines pre")).to_contain_text("rate = 0.02")
        browser.close()
    assert crew.ledger.head() == head, "nothing was written"
