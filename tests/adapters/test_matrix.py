"""The table of docs/adapters-matrix.md says what tests show, and every one of them exists."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "adapters-matrix.md"


@pytest.fixture(scope="module")
def matrix() -> Any:
    spec = importlib.util.spec_from_file_location("adapter_matrix", HERE / "matrix.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_matrix(matrix: Any) -> None:
    assert matrix.written(PAGE.read_text()) == PAGE.read_text(), "run python tests/adapters/matrix.py"


def test_the_page_shows_what_make_adapters_came_to(matrix: Any) -> None:
    """From at least three environments, every cell of every framework, with the tests as they are now."""
    told = json.loads(matrix.OUTCOME.read_text())
    assert set(told["frameworks"]) == set(matrix.MATRIX) and all(row["shown in"] for row in told["frameworks"].values())
    assert len(told["environments"]) >= 3 and not any(one["failed"] for one in told["environments"].values())
    for framework, row in told["frameworks"].items():
        needed = {test for word, test in matrix.MATRIX[framework] if word in matrix.SHOWN}
        assert needed <= set(told["environments"][row["shown in"][0]]["passed"]), "run make adapters"
        for version in row["versions"]:
            assert f"| {framework} | `{row['package']}` {version} |" in PAGE.read_text(), "run make adapters"


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
            assert word in (*matrix.SHOWN, matrix.NONE, matrix.NOT_SHOWN), (framework, word)
            if word in matrix.SHOWN:
                file, _, name = shown_by.partition("::")
                assert name in tests.get(file, ()), f"{framework}: {shown_by} is no test"
