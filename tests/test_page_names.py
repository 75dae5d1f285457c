"""Files and modules that the pages name are there: a page that sends its reader to a moved file fails here."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from lazaretto.errors import MissingExtra

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "decisions/*.md", "lab/*.md", "lab/src/**/*.md", "lab/benchmarks/**/*.md")
    for page in REPOSITORY.glob(pattern)
    if page.name != "CHANGELOG.md" and "**Status:** superseded" not in page.read_text()  # they name things as they were
)
ROOTS = ("", "src", "src/lazaretto", "lab", "lab/src", "lab/src/lazaretto_lab", "lab/src/lazaretto_lab/studies")
"""What a page may leave out before a path: the repository, a package, or the folder of the studies."""
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+(?:[\w-][\w.-]*\.(?:py|toml|md|json|jsonl|txt|safetensors|svg|png|mplstyle))?")
MODULE = re.compile(r"lazaretto(?:_lab)?(?:\.[A-Za-z_]\w*)+")
NOT_OURS = re.compile(r"^(runs|\.\.|\.venv|games|shared)/|^[\w.-]+/$")
"""Folders that commands make, examples of a reader's own files, and a folder named alone (a room, or a reader's)."""


def words_in_code(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {word.strip("\"'(),;:") for code in CODE.findall(text) for word in code.split()}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_every_path_on_a_page_exists(page: Path) -> None:
    named = {word for word in words_in_code(page) if PATH.fullmatch(word) and not NOT_OURS.match(word)}
    places = [page.parent, *(REPOSITORY / root for root in ROOTS)]
    missing = sorted(word for word in named if not any((place / word).exists() for place in places))
    assert not missing, f"{page.name} names files that do not exist: {missing}"


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or something inside one."""
    module, rest = dotted, []
    while "." in module and not _is_module(module):
        module, _, last = module.rpartition(".")
        rest.insert(0, last)
    try:
        thing: object = importlib.import_module(module)
    except MissingExtra:  # an adapter whose framework has an environment of its own: it is there
        return True
    for name in rest:
        if not hasattr(thing, name):
            return False
        thing = getattr(thing, name)
    return True


def _is_module(dotted: str) -> bool:
    try:
        return find_spec(dotted) is not None
    except ModuleNotFoundError:
        return False


ENTRY_POINTS = {"lazaretto.gates", "lazaretto.repairs", "lazaretto.commands", "lazaretto.runners"}


def test_every_module_on_a_page_exists() -> None:
    pytest.importorskip("lazaretto_lab", reason="needs the laboratory")
    named = {(page.name, w) for page in PAGES for w in words_in_code(page) if MODULE.fullmatch(w)}
    missing = sorted(f"{page}: {name}" for page, name in named if name not in ENTRY_POINTS and not exists(name))
    assert not missing


def test_the_glossary_names_classes_that_are_there() -> None:
    source = "\n".join(file.read_text() for root in ("src", "lab/src") for file in (REPOSITORY / root).rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    text = "".join((REPOSITORY / "docs" / page).read_text() for page in ("glossary.md", "glossary-more.md"))
    named = set(re.findall(r"`([A-Z]\w+)[`.]", text))
    assert len(named) > 30
    assert not named - classes
