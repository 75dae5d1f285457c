"""The documentation site: every page is gathered, every link of it leads somewhere, the references are complete."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import lazaretto
from lazaretto.cli import FAMILIES

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gathered sources."""
    spec = importlib.util.spec_from_file_location("make_docs", REPOSITORY / "tools" / "make_docs.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    out = tmp_path_factory.mktemp("site") / "docs"
    tool.gather(out)
    return out


def test_every_link_leads_somewhere(site: Path) -> None:
    broken = []
    for page in site.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(site)} -> {target}")
    assert not broken


def test_the_menu_names_pages_that_are_there(site: Path) -> None:
    named = re.findall(r"^\s+- (?:[^:\n]+: )?(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) > 25
    assert [page for page in named if not (site / page).is_file()] == []


def test_mkdocs_can_read_its_file() -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]


MOST_WORDS = 1_500


def words_of(page: Path) -> int:
    """All words of a page, those in its blocks of code too."""
    return sum(any(letter.isalnum() for letter in word) for word in page.read_text().replace("|", " ").split())


def test_product_pages_are_short_and_every_page_is_in_the_menu() -> None:
    menu = (REPOSITORY / "mkdocs.yml").read_text().split("\nnav:")[1]
    product, studies = (set(re.findall(r"(\S+\.md)$", part, re.MULTILINE)) for part in menu.split("  - Studies:"))
    pages = {page.relative_to(REPOSITORY / "docs").as_posix(): page for page in (REPOSITORY / "docs").rglob("*.md")}
    assert set(pages) <= product | studies, "not in mkdocs.yml"
    assert not product & studies
    words = {name: words_of(pages[name]) for name in sorted(product & set(pages))}
    assert len(words) > 30
    assert not {name for name, count in words.items() if count > MOST_WORDS}, words


def test_anchors_lead_to_headings() -> None:
    broken = []
    for page in [*(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("*.md"), *REPOSITORY.glob("decisions/*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text()):
            if anchor not in anchors(page.parent / target if target else page):
                broken.append(f"{page.name} -> {target}#{anchor}")
    assert not broken


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = set(re.findall(r'<a id="([^"]+)"', text))
    return named | {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_the_front_pages_are_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 80
    short = (REPOSITORY / "CHANGELOG.md").read_text().split("## The coming version in short")[1]
    assert len(short.split("Every change is below")[0].strip().splitlines()) <= 30


def test_decisions_are_merged_by_topic_and_the_table_says_where_each_is() -> None:
    pages = {page.name: page.read_text() for page in REPOSITORY.glob("decisions/*.md")}
    table = pages.pop("README.md")
    rows = dict(re.findall(r"^\| \[(\d{4})\]\((\S+?)\) \|", table, re.MULTILINE))
    places = {
        number: name if name[:4] == number else f"{name}#{number}"
        for name, text in pages.items()
        for number in re.findall(r"^#{1,2} (\d{4})\b", text, re.MULTILINE)
    }
    assert len(places) > 80
    assert rows == places
    new = [name for name in pages if name[0].isdigit()]
    assert len(pages) - len(new) <= 25 and len(new) <= 10, "merge the new ones by topic"


def test_the_log_has_contents() -> None:
    """Entries after the last line of the contents are new; ``tools/log_contents.py`` adds them."""
    text = (REPOSITORY / "research" / "LOG.md").read_text()
    listed = re.findall(r"^- \[(.+)\]\(#(.+)\)$", text.split("<!-- end of contents -->")[0], re.MULTILINE)
    entries = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(listed) > 90
    assert [heading for heading, _ in listed] == entries[: len(listed)]
    assert {anchor for _, anchor in listed} <= anchors(REPOSITORY / "research" / "LOG.md")


def test_the_references_are_complete(site: Path) -> None:
    commands = (site / "reference" / "commands.md").read_text()
    assert all(f"## lazaretto {name}" in commands for name in ("check", "scan", "mcp gateway", "ledger verify"))
    assert commands.count("\n## lazaretto ") >= len(FAMILIES)
    assert "lazaretto tend" not in commands, "an old name"
    python = (site / "reference" / "python.md").read_text()
    missing = [name for name in lazaretto.__all__ if isinstance(getattr(lazaretto, name), type) and name not in python]
    assert not missing
    guard = python.split("\n## lazaretto.Guard\n")[1].split("\n## ")[0]
    assert all(f"### {call}\n" in guard for call in ("remember", "label", "authorize", "close"))
