"""Every page that people see, in a real browser: light, dark, as wide as a phone; nothing cut off, broken or unseen.

``tools/look_at_pages.py`` opens the pages and has the checks; run by hand it takes pictures, too. Skipped, visibly,
where there is no Chromium.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
pytest.importorskip("jinja2", reason="needs the api extra")
pytest.importorskip("uvicorn", reason="needs the api extra")
pytest.importorskip("playwright.sync_api", reason="needs the dev extra")

from lazaretto.console.app import READ
from lazaretto.console.web import PAGES, texts

pytestmark = pytest.mark.skipif(
    not (os.environ.get("LAZARETTO_CHROMIUM") or shutil.which("chromium")),
    reason="no chromium here: make browser",
)
NO_PAGES = {"/live", "/map/data", "/map/trace", "/texts/{item:path}", "/pictures/{digest}"}
"""What scripts fetch, and what is shown as it is."""
UGLY = """<!doctype html><html lang="en"><head><title>x</title><style>
  .narrow { width: 3rem; overflow-wrap: anywhere; } .cut { width: 2rem; overflow: hidden; white-space: nowrap; }
  .pale { color: #bbb; background: #fff; } a { outline: none !important; } .tiny { font-size: 8px; }
</style></head><body><main><h1>Ugly</h1>
<div style="width: 900px">wide</div><p class="narrow">quarantine</p><p class="cut">all of these words</p>
<p class="pale">hardly to be read</p><p class="tiny">small print</p><span class="badge">held</span>
<p><a href="#x" tabindex="2">unseen</a></p>
<label>Repair <select style="width: 4rem"><option>contain what carries it</option></select></label>
</main></body></html>"""


def load_tool() -> ModuleType:
    """``tools/look_at_pages.py`` as a module."""
    name = "look_at_pages"
    if name not in sys.modules:
        file = Path(__file__).resolve().parents[2] / "tools" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Every page, served."""
    with load_tool().all_pages(tmp_path_factory.mktemp("looks"), notes=24) as made:
        yield made


@pytest.fixture(scope="module")
def browser(pages: list[Any]) -> Iterator[Any]:
    """One Chromium for all; the stores are filled before it, for its loop allows no other beside it."""
    with load_tool().chromium() as opened:
        yield opened


@pytest.mark.parametrize("way", ["light", "dark", "phone", "phone-dark", "tablet"])
def test_nothing_is_wrong_with_any_page(browser: Any, pages: list[Any], way: str) -> None:
    if way != "phone" and not os.environ.get("LAZARETTO_ALL_LOOKS"):
        pytest.skip("takes minutes: make browser")
    looked_at = list(load_tool().look(browser, pages, only=way))
    assert len(looked_at) == len(pages)
    found = {one.name: faults for one, _, faults in looked_at if faults}
    assert not found, "\n".join(f"{where}: {fault}" for where, faults in found.items() for fault in faults)


def test_every_page_is_looked_at(pages: list[Any]) -> None:
    looked_at = {one.route for one in pages}
    assert {path for path, _ in READ} - NO_PAGES <= looked_at, "give the page a line in tools/look_at_pages.py"
    assert {one.name for one in pages} >= {*PAGES, "report-incident", "report-audit", "report-scan"}


def test_the_checks_find_what_is_ugly(browser: Any) -> None:
    tool = load_tool()
    page = browser.new_page(viewport=tool.PHONE)
    page.set_content(UGLY)
    said = "\n".join(tool.wrong(page))
    page.close()
    for word in ("pixels wide", "broken word “quarantine”", "cut off", "color-contrast", "letters of 8px",
                 "badge without", "order of its own", "focus is not seen", "select shows"):  # fmt: skip
        assert word in said, said


def test_every_word_of_a_badge_is_explained() -> None:
    told = texts()
    for group in ("states", "standing", "actions", "statuses"):
        assert set(told["means"][group]) == set(told[group]), group
    assert set(told["means"]) <= set(told["means_titles"])
