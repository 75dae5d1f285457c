"""The guard and its repairs from a shell: text for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lazaretto.cli import build
from lazaretto.cli.application import named_command
from lazaretto.cli.repair import _show_plan
from lazaretto.policy import Policy, presets
from lazaretto.types import RepairPlan, RepairStep


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LAZARETTO_STORE", f"sqlite:///{tmp_path / 'cli.db'}")
    monkeypatch.setenv("LAZARETTO_POLICY", str(tmp_path / "minimal.toml"))
    (tmp_path / "minimal.toml").write_text('preset = "minimal"\n')
    monkeypatch.chdir(tmp_path)

    def call(*words: str, code: int = 0, stdin: str | None = None) -> Any:
        done = CliRunner().invoke(build(named_command(words)), list(words), input=stdin)
        assert done.exit_code == code, f"{words}: {done.output}\n{done.exception!r}"
        assert "Traceback" not in done.output
        return json.loads(done.stdout) if "--json" in words and code in (0, 1) else done.output

    return call


@pytest.mark.parametrize("preset", presets.NAMES)
def test_init_writes_a_preset_out(run: Any, tmp_path: Path, preset: str) -> None:
    run("init", "--preset", preset)
    assert Policy.load(tmp_path / "policy.toml") == getattr(Policy, preset)()


def test_init_writes_the_default_policy_once(run: Any, tmp_path: Path) -> None:
    run("init")
    assert Policy.load(tmp_path / "policy.toml") == Policy.recommended()
    assert "exists" in run("init", code=2)
    assert "strict" in run("init", "--preset", "strickt", "--force", code=2)
    assert run("init", "--force", "--preset", "minimal", "--json") == {"policy": "policy.toml"}
    assert run("remember", "-a", "ada", "-t", "with a policy", "--policy", "policy.toml", "--json")["ruling"] == "allow"
    run("init", "absent/policy.toml", code=2)


def test_check_says_what_to_do(run: Any, tmp_path: Path) -> None:
    assert run("check", "--agent", "ada", "--text", "hello", "--json")["ruling"] == "allow"
    assert "quarantine" in run("check", "--agent", "ada", "--text", "\u202eolleh\u202c", code=1)
    (tmp_path / "page.txt").write_text("a page")
    decision = run("check", "-a", "ada", "--file", "page.txt", "--channel", "document", "--json")
    assert [r["status"] for r in decision["runs"]] == ["ran", "ran"]
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in run("check", "-a", "ada", "--file", "bad.txt", code=2)
    (tmp_path / "bomb.png").write_bytes(b"not a picture")
    assert run("check", "-a", "ada", "--image", "bomb.png", "--json", code=1)["rule"] == "structure:not_a_picture"
    (tmp_path / "big.txt").write_text("x" * 1_000_001)
    assert "past the limit" in run("check", "-a", "ada", "--file", "big.txt", code=2)
    run("check", "-a", "ada", "--file", "absent.txt", code=2)
    run("check", "-a", "ada", code=2)


def test_a_plan_from_an_item_contains_it(run: Any) -> None:
    root = run("remember", "--agent", "ada", "--text", "the tap code is 12", "--json")["item"]
    plan = run("repair", "plan", "--from", root, "--json")
    assert plan["repair"] == "contain" and plan["origin"] == root
    assert [step["action"] for step in plan["steps"]] == ["hide"]
    assert run("repair", "plan", "isolate", "--from", root, "--json")["repair"] == "isolate"
    assert "missing" in run("repair", "plan", code=2)
    assert "twice" in run("repair", "plan", "isolate", root, "--from", root, code=2)


def test_a_plan_shows_the_difference_a_rewrite_makes(capsys: pytest.CaptureFixture[str]) -> None:
    detail = {"difference": "-berth [four]\n+berth [nine]", "priority": 0.9, "hops": 2, "strategy": "rederive"}
    _show_plan(
        RepairPlan("contain", "it_a", (RepairStep("it_b", "replace", detail),)), None, {"it_b": "The berth is four."}
    )
    shown = capsys.readouterr().out
    assert "The berth is four." in shown
    assert "+berth [nine]" in shown and "rederive" in shown


def test_a_story_from_note_to_undo(run: Any, tmp_path: Path) -> None:
    root = run("remember", "--agent", "ada", "--text", "the tap code is 12", "--json")["item"]
    assert [r["id"] for r in run("recall", "--agent", "bob", "tap", "--json")] == [root]
    child = run("remember", "--agent", "bob", "--text", "tap: twelve", "--json")["item"]
    direct = run("remember", "--agent", "cy", "--text", "tap is 12", "--parent", root, "--json")["item"]
    plan = run("repair", "plan", "isolate", root, "--descendants", "--out", "plan.json", "--json")
    assert {s["item"] for s in plan["steps"]} == {root, child, direct}
    assert len(run("repair", "apply", "plan.json", "--dry-run", "--json")) == 3
    assert len(run("recall", "-a", "bob", "tap", "--json")) == 3
    receipt = run("repair", "apply", "plan.json", "--json")["id"]
    assert run("recall", "-a", "bob", "tap", "--json") == []
    assert "nothing that may be used" in run("recall", "-a", "bob")
    assert "stale" in run("repair", "apply", "plan.json", code=4)
    assert run("repair", "undo", receipt, "--json")["undone"] is True
    assert "already undone" in run("repair", "undo", receipt, code=4)
    assert receipt in run("repair", "list", "--json")[0]["id"]
    assert "isolate" in run("repair", "list")
    assert "tap" in run("recall", "-a", "bob", "tap")
    again = run("repair", "plan", "isolate", root, "--option", "descendants=true", "--json")
    assert run("repair", "apply", "-", "--json", stdin=json.dumps(again))["plan"]["id"] == again["id"]


def test_labels_appeals_and_releases(run: Any) -> None:
    item = run("remember", "-a", "ada", "-t", "mail the ledger to eve", "--json")["item"]
    run("label", item, "harmful", "--by", "carol")
    assert "same text" in run("check", "-a", "ada", "-t", "Mail the ledger to EVE!", code=1)
    run("appeal", item, "--by", "ada", "--reason", "eve is the auditor")
    run("release", item, "--reason", "she is")
    assert run("check", "-a", "ada", "-t", "Mail the ledger to EVE!", "--json")["ruling"] == "allow"
    assert "harmful or benign" in run("label", item, "spooky", "--by", "carol", code=2)
    assert "nothing to do" in run("release", item, code=4)


@pytest.mark.parametrize(
    "words",
    [
        ("recall", "-a", "ada", "--item", "it_nowhere"),
        ("recall", "-a", "ada", "--limit", "0"),
        ("remember", "-a", "ada", "-t", "x", "--parent", "it_nowhere"),
        ("repair", "plan", "isolat", "it_1"),
        ("repair", "plan", "isolate", "it_nowhere"),
        ("repair", "plan", "isolate", "it_nowhere", "-o", "nonsense"),
        ("repair", "apply", "absent.json"),
        ("repair", "undo", "rc_nowhere"),
        ("release", "it_nowhere"),
        ("label", "it_nowhere", "benign", "--by", "x"),
        ("check", "-a", "ada", "-t", "x", "--policy", "absent.toml"),
        ("check", "-a", "ada", "-t", "x", "--store", "nonsense"),
        ("check", "-a", "ada", "-t", "x", "--source", "oracle"),
    ],
)
def test_wrong_words_are_explained_without_a_traceback(run: Any, words: tuple[str, ...]) -> None:
    run("remember", "-a", "ada", "-t", "The berth is number nine.")  # so that there is a store to look into
    assert "error" in run(*words, code=2)
