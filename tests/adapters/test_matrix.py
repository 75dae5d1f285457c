"""The table of docs/adapters.md says what tests show, and every one of them exists."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "adapters.md"


@pytest.fixture(scope="module")
def matrix() -> Any:
    spec = importlib.util.spec_from_file_location("adapter_matrix", HERE / "matrix.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_matrix(matrix: Any) -> None:
    assert matrix.written(PAGE.read_text()) == PAGE.read_text(), "run python tests/adapters/matrix.py"


def test_every_cell_has_its_test(matrix: Any) -> None:
    tests: dict[str, set[str]] = {}
    for file in HERE.glob("test_*.py"):
        tree = ast.parse(file.read_text())
        tests[file.name] = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    for framework, cells in matrix.MATRIX.items():
        assert len(cells) == len(matrix.PLACES), framework
        for word, shown_by in cells:
            assert word in ("guarded", "after the fact", "not possible", matrix.NONE), (framework, word)
            if word != matrix.NONE:
                file, _, name = shown_by.partition("::")
                assert name in tests.get(file, ()), f"{framework}: {shown_by} is no test"
