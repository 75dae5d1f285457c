"""What is said of orders with both scores comes from the stored scores."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn")

LAB = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fused_orders() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fused_orders", LAB / "benchmarks" / "fused_orders.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fused_orders"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["fused_orders"]
    return module


def test_the_stored_figures_are_those_of_the_stored_scores(fused_orders: ModuleType) -> None:
    stored = json.loads((LAB / "results" / "orders" / "fused.json").read_text())
    again = fused_orders.measured()
    assert again["texts"] == stored["texts"]
    for name, row in stored["rules"].items():
        assert again["rules"][name]["found"] == pytest.approx(row["found"], abs=0.006)
        assert again["rules"][name]["honest held"] == pytest.approx(row["honest held"], abs=0.006)
    for name, row in stored["auc"].items():
        assert again["auc"][name] == pytest.approx(row, abs=0.002)


def test_a_rule_that_asks_more_holds_no_less(fused_orders: ModuleType) -> None:
    rules = json.loads((LAB / "results" / "orders" / "fused.json").read_text())["rules"]
    for fewer, more in (("now", "asked more"), ("asked more", "always asked")):
        assert all(rules[more]["found"][name] >= share for name, share in rules[fewer]["found"].items())
