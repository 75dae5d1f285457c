"""Plain words: vague words in docstrings, comments, messages, names and pages never become more.

A reader has to look up what "said", "told" or "one" stands for, and a docstring that begins with "What" names nothing.
Write the noun: item, source, ruling, verdict, label, answer, event (docs/glossary.md).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PRODUCT = REPOSITORY / "src/lazaretto"
LIMITS = {
    "ledger": 13,
    "guard": 2,
    "provenance": 0,
    "repair": 0,
    "incidents": 1,
    "actions": 2,
    "api": 0,
    "cli": 0,
    "scan": 1,
    "console": 0,
    "mcp": 0,
    "ingest": 0,
    "reading": 0,
    "agents": 0,
    "policy": 0,
    "gates/engine": 0,
    "gates/*.py": 1,
    "gates/content/*.py": 1,
    "gates/memory/*.py": 1,
    "gates/foresight": 0,
    "gates/content/jury": 1,
    "gates/memory/claims": 7,
    "external_stores": 0,
    "learn": 0,
    "adapters": 1,
    "models": 1,
    "picture_worker": 0,
    "pictures": 0,
    "*.py": 1,
}
"""Uses that each room still has, such as names of stored columns. Lower a number when you remove some. ``*.py``: the
files beside the rooms."""
LABORATORY = {
    "lab/src/lazaretto_lab/attacks": 67,
    "lab/src/lazaretto_lab/cli": 8,
    "lab/src/lazaretto_lab/harness": 36,
    "lab/src/lazaretto_lab/metrics": 1,
    "lab/src/lazaretto_lab/models": 13,
    "lab/src/lazaretto_lab/pocket": 30,
    "lab/src/lazaretto_lab/studies": 341,
    "lab/src/lazaretto_lab/training": 260,
    "lab/src/lazaretto_lab/worlds": 111,
    "lab/benchmarks": 490,
    "tools": 68,
    "examples": 41,
}
"""The same for the laboratory and the tools, where most are the name ``one`` of a loop."""
PAGES = {
    "README.md": 1,
    "ARCHITECTURE.md": 5,
    "docs/*.md": 110,
    "docs/models/*.md": 10,
    "src/lazaretto/console/texts.toml": 2,
    "src/lazaretto/policy/presets/*.toml": 0,
}
"""The same for words of pages and of the console."""
WORDS = re.compile(r"\b(?:said|told|somebody|whoever|whatever|what is)\b", re.I)
NAMES = re.compile(r"^one$|(?:^|_)(?:said|told|somebody|whoever|whatever)(?:_|$)", re.I)
OPENINGS = re.compile(r"(?:What|Who|Whom|Whose|Which|Those|They|It|That)\b")


def _texts(nodes: list[ast.AST], source: str) -> Iterator[tuple[int, str]]:
    """Strings of several words, and comments, each with its line."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value
    if not any("#" in line and WORDS.search(line) for line in source.splitlines()):
        return  # no comment has such a word: reading all tokens takes longer than all else here
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Names that the code binds: variables, parameters, functions, classes, fields and imports under another name."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name


def _openings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The first words of strings that stand alone: docstrings, also those of fields and constants."""
    for node in nodes:
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value.strip()


def vague_words(source: str) -> list[tuple[int, str]]:
    """Every vague word of a module with its line."""
    nodes = list(ast.walk(ast.parse(source)))
    found = [(line, match[0]) for line, text in _texts(nodes, source) for match in WORDS.finditer(text)]
    found += [(line, name) for line, name in _names(nodes) if NAMES.search(name)]
    found += [(line, match[0]) for line, text in _openings(nodes) if (match := OPENINGS.match(text))]
    return sorted(found)


def vague_words_of_page(text: str) -> list[str]:
    """Every vague word of a page of Markdown or TOML, outside of its programs."""
    return [match[0] for match in WORDS.finditer(re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))]


@pytest.mark.parametrize("room", LIMITS)
def test_vague_words_do_not_become_more(room: str) -> None:
    files = sorted(PRODUCT.glob(room) if room.endswith(".py") else (PRODUCT / room).rglob("*.py"))
    assert files, f"there is no room {room}"
    found = [
        f"{path.relative_to(PRODUCT)}:{line}: {word}" for path in files for line, word in vague_words(path.read_text())
    ]
    assert len(found) <= LIMITS[room], f"{len(found)} of at most {LIMITS[room]}; write the noun:\n" + "\n".join(found)


@pytest.mark.parametrize("room", LABORATORY)
def test_vague_words_of_laboratory_and_tools_do_not_become_more(room: str) -> None:
    files = sorted((REPOSITORY / room).rglob("*.py"))
    assert files, f"there is no room {room}"
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {word}"
        for path in files
        for line, word in vague_words(path.read_text())
    ]
    assert len(found) <= LABORATORY[room], f"{len(found)} of at most {LABORATORY[room]}; write the noun:\n" + "\n".join(
        found
    )


@pytest.mark.parametrize("pages", PAGES)
def test_vague_words_of_pages_do_not_become_more(pages: str) -> None:
    files = sorted(REPOSITORY.glob(pages))
    assert files, f"there is no page {pages}"
    found = [f"{path.name}: {word}" for path in files for word in vague_words_of_page(path.read_text())]
    assert len(found) <= PAGES[pages], f"{len(found)} of at most {PAGES[pages]}; write the noun:\n" + "\n".join(found)


def test_vague_words_of_a_page_are_counted_outside_of_its_programs() -> None:
    page = "A text.\n```python\nsaid = 1  # whatever\n```\nHold what is held, whoever wrote it.\n"
    assert vague_words_of_page(page) == ["what is", "whoever"]


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "for one in rows: pass",
        "def f(said): pass",
        "def still_told(): pass",
        "class Said: pass",
        "x.told = 1",
        "raise ValueError('somebody without the key wrote this')",
        "x = f'{a} holds what is held'",
        "x = 1  # whoever reads next",
        '"""Items, whatever their state."""',
        '"""What waits for a person."""',
        'X = 1\n"""Those of the items that are held."""',
    ],
)
def test_vague_words_are_counted(source: str) -> None:
    assert len(vague_words(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "one_text = 1",
        "someone = bold = untold = 1",
        "body = event.told",
        "body['told'] = 1",
        "x = 'said'",
        "x = f'{told}'",
        '"""One transaction for both; the other one waits."""',
        '"""Items with their states: see what isolation does, and what issues remain."""',
        "x = 'the soldier wrote a foretold story'",
        '"""Whether it may be used."""',
        '"""Itemized costs, Whole numbers, Thatched roofs."""',
        "x = 'What waits for a person?'",
    ],
)
def test_plain_words_are_not_counted(source: str) -> None:
    assert vague_words(source) == []
