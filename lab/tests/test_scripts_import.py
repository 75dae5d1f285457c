"""Scripts behind the figures start: what they import of our own packages is there."""

from __future__ import annotations

import ast
import importlib
import operator
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[1]


def imported(file: Path) -> set[tuple[str, str]]:
    """Modules and names of ours that a file imports."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").split(".")[0] in ("lazaretto", "lazaretto_lab")]
    return {(str(node.module), alias.name) for node in ours for alias in node.names}


def is_there(module: str, name: str) -> bool:
    """Whether a module has a name, or a module below it."""
    found = importlib.import_module(module)
    if not hasattr(found, name):
        try:
            importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            return False
    return True


def test_scripts_import_what_is_there() -> None:
    files = sorted((LAB / "benchmarks").rglob("*.py"))
    named = {one for file in files for one in imported(file)}
    assert len(files) > 50 and len(named) > 150
    assert not sorted(one for one in named if not is_there(*one))


def test_parts_whose_time_is_counted_are_those_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that moved would be counted with its caller, without a word."""
    monkeypatch.syspath_prepend(str(LAB / "benchmarks"))
    for _, module, path in importlib.import_module("reading_cost").PARTS:
        assert operator.attrgetter(path)(importlib.import_module(f"lazaretto.{module}")), (module, path)
