"""Files, functions and parameter lists stay short enough to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_PARAMETERS = 600, 80, 8
PUBLIC = {("src/lazaretto/guard/guard.py", "check"), ("src/lazaretto/guard/guard.py", "remember")}
"""Public calls with more parameters. Commands have theirs as options."""


def files() -> list[Path]:
    return sorted(file for folder in ("src", "lab/src") for file in (REPOSITORY / folder).rglob("*.py"))


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in given)


@pytest.mark.parametrize("package", ["src/lazaretto", "lab/src/lazaretto_lab"])
def test_files_functions_and_parameter_lists_are_short(package: str) -> None:
    long = []
    for file in files():
        name = file.relative_to(REPOSITORY).as_posix()
        if not name.startswith(package + "/"):
            continue
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES:
            long.append(f"{name} has {lines} lines")
        for one in functions(file):
            length = (one.end_lineno or one.lineno) - one.lineno + 1
            if length > MOST_LINES_OF_A_FUNCTION:
                long.append(f"{name}: {one.name} has {length} lines")
            if parameters(one) > MOST_PARAMETERS and "/cli/" not in name and (name, one.name) not in PUBLIC:
                long.append(f"{name}: {one.name} has {parameters(one)} parameters")
    assert not long, long


def test_every_exception_is_still_one() -> None:
    counted = {(name, one.name): parameters(one) for name, _ in PUBLIC for one in functions(REPOSITORY / name)}
    assert all(counted[one] > MOST_PARAMETERS for one in PUBLIC)


def test_the_guard_is_read_in_five_minutes() -> None:
    assert len((REPOSITORY / "src/lazaretto/guard/guard.py").read_text(encoding="utf-8").splitlines()) < 350


SHARED_NAMES = {"Role", "Content", "GuardedHistory"}
"""Part of public interfaces: roles of keys and of debates, a request's and a debate's content, an adapter's history."""


def test_a_type_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for file in (REPOSITORY / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(file.relative_to(REPOSITORY).as_posix())
    assert len(places) > 600
    assert {name: files for name, files in places.items() if len(files) > 1}.keys() == SHARED_NAMES
