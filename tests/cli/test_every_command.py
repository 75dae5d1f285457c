"""Every command of the product, as people use it: an answer in words, and one clear line for a mistake.

The same commands with ``--json`` stand in ``test_shared_context.py``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lazaretto.cli import FAMILIES, build
from lazaretto.cli.application import add_family

Run = Callable[..., Any]
Words = Callable[[Any], tuple[Any, ...]]

SHOWN: dict[str, tuple[Words, Callable[[Any], str], int]] = {
    "init": (lambda c: ("new.toml",), lambda c: "wrote new.toml; use it with --policy", 0),
    "check": (lambda c: ("-a", "bob", "-t", "hello"), lambda c: "allow it_", 0),
    "remember": (lambda c: ("-a", "eve", "-t", "\u202eolleh\u202c"), lambda c: "quarantine it_", 1),
    "recall": (lambda c: ("-a", "bob", "berth"), lambda c: c.note, 0),
    "trace": (lambda c: (c.note,), lambda c: f"patient zero {c.note}", 0),
    "conflicts": (lambda c: (), lambda c: "no memories are known to contradict each other", 0),
    "contacts": (lambda c: ("bob",), lambda c: "read what it wrote", 0),
    "recheck": (lambda c: (), lambda c: "left 0", 0),
    "suspects": (lambda c: (), lambda c: "more often than chance lets it", 0),
    "repair plan": (lambda c: ("isolate", c.note), lambda c: "price: items 1", 0),
    "repair apply": (lambda c: (c.plan,), lambda c: "take it back with: lazaretto repair undo rc_", 0),
    "repair undo": (lambda c: (c.standing,), lambda c: f"isolate undone: 1 item, receipt {c.standing}", 0),
    "repair list": (lambda c: (), lambda c: c.receipt, 0),
    "repair proposals": (lambda c: (), lambda c: "nothing is proposed", 0),
    "actions endorse": (lambda c: ("US133000000121212121212", "--purpose", "pay", "--by", "dan"), lambda c: "en_", 0),
    "actions list": (lambda c: (), lambda c: "needs", 0),
    "actions observed": (lambda c: (), lambda c: "no call that does more than read was judged", 0),
    "actions waiting": (lambda c: (), lambda c: "no call waits for a person", 0),
    "authorize": (lambda c: ("pay", "-a", "bob"), lambda c: "ask pay (pay)", 1),
    "release": (lambda c: (c.held,), lambda c: "release done: 1 item", 0),
    "label": (lambda c: (c.note, "benign", "--by", "dan"), lambda c: f"recorded: labelled {c.note}", 0),
    "labels": (lambda c: (), lambda c: "decision", 0),
    "appeal": (lambda c: (c.held, "--by", "eve", "--reason", "why"), lambda c: f"recorded: appealed {c.held}", 0),
    "incidents": (lambda c: (), lambda c: "look closer: lazaretto incident show in_", 1),
    "incident show": (lambda c: (c.held, "-o", "i.html"), lambda c: "(contained) in i.html", 0),
    "held": (lambda c: (), lambda c: f"lazaretto release {c.held} --by YOU or lazaretto label {c.held} harmful", 0),
    "ledger verify": (lambda c: (), lambda c: f"good {c.events} events, every link holds", 0),
    "ledger rebuild": (lambda c: (), lambda c: f"rebuilt from {c.events} events", 0),
    "ledger head": (lambda c: (), lambda c: f"crew {c.events} ", 0),
    "ledger checkpoint": (lambda c: ("--to", "file:kept.jsonl"), lambda c: f"crew {c.events} ", 0),
    "ledger export": (lambda c: ("out.jsonl",), lambda c: f"{c.events} events in out.jsonl", 0),
    "ledger import": (lambda c: (c.export,), lambda c: "2 events in namespace other", 0),
    "ledger backup": (lambda c: ("saved",), lambda c: "namespaces in saved; try it: lazaretto ledger restore saved", 0),
    "ledger stats": (lambda c: (), lambda c: c.url, 0),
    "ledger upgrade": (lambda c: (), lambda c: "nothing to do: the schema is the newest", 0),
    "ledger erase": (lambda c: (c.note, "--reason", "asked"), lambda c: f"erased {c.note}: tombstone is event", 0),
    "ledger retain": (lambda c: ("--days", "0"), lambda c: "erased the content of", 0),
    "doctor": (lambda c: (), lambda c: f"{c.events} events in namespace 'crew'", 0),
    "data leak-check": (lambda c: (), lambda c: "0 overlap an evaluation item", 0),
    "data import": (lambda c: ("cases", c.cases, "--no-live", "--no-screen"), lambda c: "0 added, 1 merged", 0),
    "learn cases": (lambda c: (), lambda c: f"* {c.live}", 0),
    "learn rollback": (lambda c: (), lambda c: "live: starter", 0),
    "learn thresholds": (lambda c: (), lambda c: "people's labels ask for no change in force: version 0", 0),
    "observed": (lambda c: (), lambda c: "not quiet: only 4 items were judged in 7 days; 100 are needed", 0),
    "enforce": (lambda c: (), lambda c: "it enforces already", 0),
    "keys add": (
        lambda c: ("ada", "--agent", "ada", "--file", "keys.json"),
        lambda c: "Kept as a hash in keys.json",
        0,
    ),
    "keys list": (lambda c: ("--file", "keys.json"), lambda c: "namespace", 0),
}
"""How a command is called, words of its answer, and its exit code."""
ELSEWHERE = {
    "audit": "test_audit_commands.py",
    "repair proposal": "test_proposals.py",
    "repair accept": "test_proposals.py",
    "repair dismiss": "test_proposals.py",
    "unlabel": "test_unlabel_command.py",
    "mcp pins": "test_pins.py",
    "deep setup": "test_second_reader.py",
    "learn curate": "test_audit_commands.py",
    "tune": "test_tune_command.py",
    "screen": "test_screen_command.py",
    "scan": "test_scanning.py",
    "foresight calibrate": "test_folder_calibration.py",
    "serve": "test_shared_context.py",
    "proxy": "test_shared_context.py",
    "mcp serve": "test_protocol.py",
    "mcp gateway": "test_protocol.py",
    "keys revoke": "test_access.py",
    "ledger key": "test_proofs.py",
    "ledger restore": "test_backup.py",
    "ledger rotate-key": "test_proofs.py",
}
"""Commands that need a model or do not end, and where they are tried."""

WRONG: dict[str, tuple[tuple[Any, ...], int, str]] = {
    "init": (("absent/policy.toml",), 2, "path: absent/policy.toml cannot be written"),
    "check": (("-a", "ada", "-t", "x", "--source", "oracle"), 2, "source: 'oracle' is unknown"),
    "remember": (("-a", "ada", "-t", "x", "--parent", "it_none"), 2, "parents: no 'it_none'"),
    "recall": (("-a", "ada", "--limit", "0"), 2, "limit: is 0"),
    "trace": (("it_none",), 2, "item: no 'it_none'"),
    "contacts": (("bob", "--since", "noon"), 2, "since: 'noon' is not a time"),
    "conflicts": (("--keep", "it_1"), 2, "keep: a pair has two items"),
    "recheck": (("--limit", "0"), 2, "limit: is 0"),
    "suspects": (("--limit", "0"), 2, "limit: is 0"),
    "repair plan": (("isolat", "it_1"), 2, "repair: 'isolat' is unknown. Did you mean 'isolate'?"),
    "repair apply": (("absent.json",), 2, "plan: absent.json cannot be read"),
    "repair undo": (("rc_none",), 2, "receipt: no 'rc_none'"),
    "repair list": (("--store", "nonsense"), 2, "store: 'nonsense' is not a store URL"),
    "repair proposals": (("--store", "nonsense"), 2, "store: 'nonsense' is not a store URL"),
    "repair proposal": (("pr_none",), 2, "proposal: no 'pr_none'"),
    "repair accept": (("pr_none", "--by", "ada"), 2, "proposal: no 'pr_none'"),
    "repair dismiss": (("pr_none", "--by", "ada"), 2, "proposal: no 'pr_none'"),
    "actions endorse": (("", "--purpose", "pay", "--by", "dan"), 2, "value: is empty"),
    "actions list": (("absent.json",), 2, "absent.json"),
    "actions observed": (("--store", "nonsense"), 2, "store: 'nonsense' is not a store URL"),
    "actions waiting": (("--store", "nonsense"), 2, "store: 'nonsense' is not a store URL"),
    "authorize": ((), 2, "tool: give a tool"),
    "mcp pins": (("--pins", "pins.json"), 2, "server: needs exactly one of"),
    "release": (("it_none",), 2, "item: no 'it_none'"),
    "label": (("it_none", "spooky", "--by", "x"), 2, "label: is 'spooky'. Use harmful or benign"),
    "labels": (("--store", "nonsense"), 2, "store: 'nonsense' is not a store URL"),
    "unlabel": (("7", "--by", "x"), 2, "decision: no '7'"),
    "appeal": (("it_none", "--by", "\x01", "--reason", "x"), 2, "by: '\\x01' holds characters"),
    "incidents": (("--state", "closed"), 2, "state: is 'closed'. Use open, contained, cleared"),
    "incident show": (("in_none",), 2, "incident: no 'in_none'"),
    "held": (("--policy", "absent.toml"), 2, "absent.toml: (file)"),
    "ledger verify": (("--head", "absent.json"), 2, "--head: absent.json cannot be read"),
    "ledger rebuild": (("--store", "sqlite:///absent.db"), 3, "no ledger at sqlite:///absent.db"),
    "ledger head": (("--namespace", "x" * 600), 2, "namespace: 600 characters are past the limit"),
    "ledger checkpoint": (("--to", "pigeon"), 2, "witness: 'pigeon' is unknown"),
    "ledger key": (("absent/key",), 2, "key: absent/key cannot be written"),
    "ledger rotate-key": (("absent",), 2, "key: absent cannot be read"),
    "ledger export": (("absent/out.jsonl",), 3, "absent/out.jsonl: cannot be written"),
    "ledger import": (("absent.jsonl",), 2, "absent.jsonl"),
    "ledger backup": (("--store", "sqlite:///absent.db", "saved"), 3, "no ledger at sqlite:///absent.db"),
    "ledger restore": (("absent",), 2, "folder: absent holds no back-up"),
    "ledger stats": (("--store", "sqlite:///absent.db"), 3, "no ledger at sqlite:///absent.db"),
    "ledger upgrade": (("--store", "sqlite:///absent.db"), 3, "no ledger at sqlite:///absent.db"),
    "ledger erase": (("it_none", "--reason", "x"), 2, "it_none"),
    "ledger retain": ((), 2, "days: is missing, and so is before"),
    "doctor": (("--policy", "absent.toml"), 2, "absent.toml: (file)"),
    "data leak-check": (("--against", "absent.jsonl"), 2, "absent.jsonl"),
    "data import": (("csv", "x"), 2, "kind: 'csv' is unknown"),
    "learn cases": (("--version", "v99"), 2, "v99"),
    "learn rollback": (("--to", "v99"), 2, "v99"),
    "learn thresholds": (("--revert", "9"), 2, "revert: there is no version 9"),
    "tune": ((), 2, "history: only 4 items were judged; 100 are needed"),
    "observed": (("--policy", "absent.toml"), 2, "absent.toml: (file)"),
    "enforce": (("--policy", "absent.toml"), 2, "absent.toml: (file)"),
    "learn curate": (("--verdicts", "x"), 2, "verdicts: verdicts and truth go together"),
    "audit": ((), 2, "text: there is nothing to judge"),
    "deep setup": (("e6",), 2, "names: 'e6' is no model of the second reader"),
    "screen": ((), 2, "screen: needs either a text or --batch"),
    "scan": (("absent",), 2, "path: 'absent' does not exist"),
    "foresight calibrate": (("absent", "--model", "x", "--embedder", "absent:x"), 2, "embedder: 'absent:x' cannot"),
    "keys add": (("ada", "--agent", "ada", "--file", "plan.json"), 2, "keys: plan.json"),
    "keys list": (("--file", "."), 2, "keys: . cannot be read"),
    "keys revoke": (("ada", "--file", "absent.json"), 2, "name: no key is named 'ada'"),
    "mcp serve": (("--http", "--host", "0.0.0.0"), 2, "token: is missing, and 0.0.0.0 can be reached by others"),
    "mcp gateway": ((), 2, "server: needs exactly one of a command, --config and --url"),
    "proxy": (
        ("--upstream", "http://localhost", "--host", "0.0.0.0"),
        2,
        "keys: are missing, and 0.0.0.0 can be reached",
    ),
    "serve": (("--host", "0.0.0.0"), 2, "token: is missing, and 0.0.0.0 can be reached by others"),
}
"""A mistake for each command, its exit code and words of the message, the field among them."""


NO_POLICY = {
    "init",
    "deep setup",
    "mcp pins",
    "screen",
    "scan",
    "foresight calibrate",
    "keys add",
    "keys list",
    "keys revoke",
    "ledger key",
}
"""Commands that follow no policy."""


def names(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from names(command, (*path, name))
        elif not command.deprecated:
            yield " ".join((*path, name))


def product_commands() -> set[str]:
    """Every command that the product itself brings, the laboratory's left out."""
    app = typer.Typer()
    for family in FAMILIES:
        add_family(app, family)
    return set(names(typer.main.get_command(app)))


def test_no_command_is_forgotten() -> None:
    assert set(SHOWN) | set(ELSEWHERE) == product_commands() == set(WRONG)
    assert product_commands() <= set(names(typer.main.get_command(build())))


def test_an_old_name_works_and_says_so(run: Run, crew: Any) -> None:
    output = told(run("tend", "--policy", crew.policy))
    assert "The command 'tend' is deprecated" in output and "left 0" in output


def told(output: str) -> str:
    return " ".join(output.split())


@pytest.mark.parametrize("name", SHOWN)
def test_it_answers_in_words(run: Run, crew: Any, name: str) -> None:
    words, expected, code = SHOWN[name]
    where = () if name in NO_POLICY else ("--policy", crew.policy)
    output = run(*name.split(), *words(crew), *where, code=code)
    assert expected(crew) in told(output)
    assert not output.lstrip().startswith("{")


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_clear_line(run: Run, crew: Any, name: str) -> None:
    words, code, message = WRONG[name]
    where = () if name in NO_POLICY or "--policy" in words else ("--policy", crew.policy)
    output = told(run(*name.split(), *words, *where, code=code))
    assert output.startswith("error ") and message in output


def test_init_and_screen_answer_programs_too(run: Run, empty_world: Path) -> None:
    assert run("init", "new.toml", "--json") == {"policy": "new.toml"}
    (empty_world / "none.jsonl").write_text("")
    done = run("screen", "--batch", "none.jsonl", "--out", "out.jsonl", "--json")
    assert done == {"judged": 0, "already": 0, "rulings": {}, "unusable": []}


def test_a_broken_chain_is_bad_news(run: Run, crew: Any) -> None:
    with sqlite3.connect(crew.folder / "crew.db") as store:
        store.execute("update lz_events set agent = 'mallory' where seq = 1")
    assert "broken at event 1" in told(run("ledger", "verify", "--policy", crew.policy, code=1))
    assert run("ledger", "verify", "--policy", crew.policy, "--json", code=1)["first_bad"] == 1


def test_a_dry_run_shows_and_changes_nothing(run: Run, crew: Any) -> None:
    before = run("ledger", "head", "--policy", crew.policy, "--json")
    shown = run("repair", "apply", crew.plan, "--dry-run", "--policy", crew.policy)
    assert crew.note in shown and "hide" in shown and "yes" in shown and "no" in shown
    assert run("ledger", "head", "--policy", crew.policy, "--json") == before


def test_a_plan_may_be_piped(run: Run, crew: Any) -> None:
    done = run("repair", "apply", "-", "--policy", crew.policy, "--json", stdin=crew.plan.read_text())
    assert done["plan"]["id"] == json.loads(crew.plan.read_text())["id"]
    assert "stale" in told(run("repair", "apply", crew.plan, "--policy", crew.policy, code=4))
    assert "plan: " in told(run("repair", "apply", "-", "--policy", crew.policy, stdin="{}", code=2))
