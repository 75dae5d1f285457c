"""``lazaretto tune`` from a shell: the table, the picture, the policy file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Policy, SyncGuard
from lazaretto.gates.memory.gate import MemoryGate, MemorySettings, make
from lazaretto.gates.memory.text_screener import Calibration, Screening

Run = Callable[..., Any]
POLICY = """# ours
preset = "minimal"
mode = "observe"
[channels.message]
stages = [["memory"]]
[gates.memory]
review_rate = 0.02  # a person looks
[gates.memory.claims]
compare = false
"""


class NumberScreener:
    """Reads a text's number in it, instead of the text."""

    calibration = Calibration({"0.001": 9.0, "0.01": 5.0, "0.02": 2.0}, (0.0, 10.0), (0.0, 1.0), 0.5, ("en",))

    def screen(self, texts: list[str], most_seconds: float = 0.0) -> list[Screening]:
        numbers = [float(text.split("=")[1]) for text in texts]
        return [Screening(one / 10, (0.0, 1.0), one, "en", True, (), True) for one in numbers]


@pytest.fixture
def month(empty_world: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A policy and a store: 110 quiet items, 5 loud honest ones, 2 findings, labelled."""
    monkeypatch.setattr("lazaretto.gates.memory.gate.shared_screener", NumberScreener)
    policy, store = empty_world / "policy.toml", f"sqlite:///{empty_world}/month.db"
    policy.write_text(POLICY)
    with SyncGuard.open(store, policy, gates={"memory": made()}) as guard:
        for number in range(110):
            guard.check(f"quiet {number} =0.5", agent="ada", channel="message", source="tool_output_external")
        for number in range(5):
            item = guard.check(f"loud {number} =3", agent="ada", channel="message", source="agent_message").item
            guard.label(item, "benign", by="dan")
        for number in range(2):
            item = guard.check(f"ill {number} =9.5", agent="eve", channel="message", source="agent_message").item
            guard.label(item, "harmful", by="dan")
    return policy, store


def made() -> MemoryGate:
    gate: MemoryGate = make({"review_rate": 0.02, "claims": {"compare": False}})
    assert isinstance(gate.settings, MemorySettings)
    return gate


def test_two_commands_lead_to_a_tuned_policy(run: Run, month: tuple[Path, str]) -> None:
    policy, store = month
    shown = " ".join(run("tune", "--store", store, "--policy", policy, "--plot", "month.svg").split())
    assert "117 items were judged; people called 2 harmful" in shown
    assert "now: 5 honest items held (4.35%), 2 of 2 findings" in shown
    assert "advised: 0 honest items held (0.00%), 2 of 2 findings" in shown
    assert "[gates.memory] review_rate = 0.01" in shown
    assert Path("month.svg").read_text().startswith("<svg")
    told = run("tune", "--store", store, "--policy", policy, "--write", "tuned.toml", "--json")
    assert told["written"] == "tuned.toml" and told["ruled_otherwise_today"] == 0
    assert told["advice"]["changes"] == {"gates.memory.review_rate": 0.01}
    assert Path("tuned.toml").read_text() == POLICY.replace("0.02  #", "0.01  #")
    assert Policy.load("tuned.toml").mode == "observe"
    again = run("tune", "--store", store, "--policy", "tuned.toml", "--json")
    assert again["advice"]["changes"] == {} and again["ruled_otherwise_today"] == 5


def test_no_policy_is_written_where_nobody_called_anything_harmful(run: Run, month: tuple[Path, str]) -> None:
    policy, store = month
    with SyncGuard.open(store, policy, gates={"memory": made()}) as guard:
        for item in guard.ledger.items(any_state=True, limit=None):
            if item.text.startswith("ill"):
                guard.label(item.id, "benign", by="dan")
    told = run("tune", "--store", store, "--policy", policy, "--write", "tuned.toml", code=2)
    assert "nobody called any item harmful" in told and not Path("tuned.toml").exists()
