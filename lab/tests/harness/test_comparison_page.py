"""The table of docs/comparison.md is what the stored rows say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[3]


def benchmark() -> ModuleType:
    path = REPOSITORY / "lab" / "benchmarks" / "comparison.py"
    spec = importlib.util.spec_from_file_location("comparison_benchmark", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_stored_rows_say() -> None:
    module = benchmark()
    table = module.table()
    assert table.count("\n") >= 7 and "| lazaretto " in table
    assert module.START + table + module.END in module.PAGE.read_text()


def test_every_tool_was_given_every_text() -> None:
    module = benchmark()
    wanted = [line["id"] for line in module.lines()]
    assert len(wanted) == len(set(wanted)) == 290
    paths = sorted(module.RESULTS.glob("*.json"))
    assert len(paths) >= 4
    for path in paths:
        kept = json.loads(path.read_text())
        assert kept["processor_ms_a_text"], path.name
        for setting in kept["processor_ms_a_text"]:
            assert [row["id"] for row in kept["rows"] if row["setting"] == setting] == wanted, (path.name, setting)
