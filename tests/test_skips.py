"""A test that is skipped says which target runs it, and that target does: else it runs nowhere and nobody knows."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SKIPPING = {"skip", "skipif", "importorskip", "xfail"}
NAMED = re.compile(r"\bmake ([a-z-]+)")
MAKEFILE = (REPOSITORY / "Makefile").read_text()


def recipe(target: str) -> str:
    """What a target does, with the lists of tests that it names."""
    found = re.search(rf"^{target}:.*?(?=^\S|\Z)", MAKEFILE, re.MULTILINE | re.DOTALL)
    assert found, f"there is no make {target}"
    text = re.sub("##.*", "", found[0])
    if "$(CORE_TESTS)" in text:
        listed = re.search(r"^CORE_TESTS \?= (.*?)(?<!\\)$", MAKEFILE, re.MULTILINE | re.DOTALL)
        assert listed
        text += listed[1]
    if "tools/run_adapters.py" in text:
        told = re.search(r"^TESTS = (\(.*\))$", (REPOSITORY / "tools" / "run_adapters.py").read_text(), re.MULTILINE)
        assert told
        text += " ".join(ast.literal_eval(told[1]))
    return text


@functools.cache
def skips(file: Path) -> list[tuple[int, str]]:
    """Line and words of every call in a file that may skip a test."""
    text = file.read_text()
    if not any(one in text for one in SKIPPING):
        return []
    calls = [
        one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
    ]
    return [(one.lineno, ast.unparse(one)) for one in calls if one.func.attr in SKIPPING]


def files() -> list[Path]:
    return [one for folder in ("tests", "lab/tests") for one in sorted((REPOSITORY / folder).rglob("*.py"))]


def runs(target: str, file: str) -> bool:
    """Whether the tests of a file are among those that a target runs."""
    words = re.findall(r"(?:lab/)?tests[\w/.-]*", recipe(target))
    return any(file == word or file.startswith(f"{word}/") for word in words)


def test_a_target_that_a_skip_names_runs_it() -> None:
    named = [
        (str(file.relative_to(REPOSITORY)), line, target)
        for file in files()
        for line, words in skips(file)
        for target in NAMED.findall(words)
    ]
    assert {target for _, _, target in named} >= {"adapters", "agentdojo", "browser", "test-core"}
    assert [one for one in named if not runs(one[2], one[0])] == []


def test_every_skip_has_a_reason() -> None:
    """``importorskip`` names the module by itself."""
    bare = [
        f"{file.relative_to(REPOSITORY)}:{line}"
        for file in files()
        for line, words in skips(file)
        if "importorskip" not in words and not re.search(r"""reason=|skip\(f?['"]""", words)
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("target", "file", "whether"),
    [
        ("adapters", "tests/adapters/test_mem0.py", True),
        ("adapters", "tests/actions/test_hooks.py", True),
        ("adapters", "tests/actions/test_handed_over.py", False),
        ("browser", "tests/console/test_pages.py", False),
        ("test-core", "tests/test_core_only.py", True),
        ("test-core", "tests/testing/test_contracts.py", True),
    ],
)
def test_what_a_target_runs_is_read_from_it(target: str, file: str, whether: bool) -> None:
    assert runs(target, file) is whether
