"""What ``lazaretto`` shows is what it promises."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lazaretto
from lazaretto import Decision, RepairView, Ruling, errors, policy
from lazaretto.incidents import records
from lazaretto.ledger.ledger import OLD_NAMES, Ledger
from lazaretto.provenance.graph import ProvenanceGraph


def test_all_is_what_is_visible() -> None:
    assert dir(lazaretto) == sorted(lazaretto.__all__)
    assert set(lazaretto._HOME) == set(lazaretto.__all__)
    for name in lazaretto.__all__:
        assert getattr(lazaretto, name).__name__ == name


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(lazaretto))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("lazaretto.")
        for alias in node.names
    }
    assert seen == lazaretto._HOME


def test_every_error_can_be_caught_from_the_front_door() -> None:
    tree = {name for name, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__}
    assert tree <= set(lazaretto.__all__)
    assert all(issubclass(getattr(lazaretto, name), lazaretto.LazarettoError) for name in tree)
    assert all(name in (errors.__doc__ or "") for name in tree), "the tree is drawn whole"


def test_old_names_warn_and_are_the_new_ones(tmp_path: Path) -> None:
    for old, new in lazaretto._OLD_NAMES.items():
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(lazaretto, old) is getattr(lazaretto, new)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        for old, new in OLD_NAMES.items():
            with pytest.warns(DeprecationWarning, match=new):
                assert getattr(ledger, old) == getattr(ledger, new)
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            _ = ledger.nonsense
    with pytest.warns(DeprecationWarning, match="LedgerProofPolicy"):
        assert policy.Record is policy.LedgerProofPolicy  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="HeldItem"):
        assert records.Held is records.HeldItem  # type: ignore[attr-defined]
    with (
        Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger,
        pytest.warns(DeprecationWarning, match="any_state"),
    ):
        assert ledger.items(hidden=True) == ledger.items(any_state=True) == []
        view = RepairView(ledger, ProvenanceGraph(ledger))
    with pytest.warns(DeprecationWarning, match="objection"):
        assert view.judge is view.objection
    with pytest.warns(DeprecationWarning, match="objection") as caught:
        old: Any = RepairView(ledger, view.graph, judge=lambda _: "no")  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    assert old.objection(None) == "no" and replace(old, objection=lambda _: "yes").objection(None) == "yes"
    decision = Decision("it_1", Ruling.ALLOW, 0.0, (0.0, 1.0), "structure:fine")
    with pytest.warns(DeprecationWarning, match="active_verdicts"):
        assert decision.standing == decision.active_verdicts == ()
    old_place = importlib.import_module("lazaretto.plugins")
    with pytest.warns(DeprecationWarning, match=r"lazaretto\.policy\.plugins"):
        assert old_place.PluginTable is policy.plugins.PluginTable
    with pytest.raises(AttributeError, match="nonsense"):
        _ = old_place.nonsense


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gaurd'"):
        _ = lazaretto.Gaurd  # type: ignore[attr-defined]


def test_one_record_does_not_load_the_database() -> None:
    code = "import sys, lazaretto; lazaretto.Ruling; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
