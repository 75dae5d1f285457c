"""Every command works where the options, the environment and the policy say, in that order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lazaretto.cli import LABORATORY, build
from lazaretto.cli.context import CommandContext
from lazaretto.ledger import Ledger, Store

Run = Callable[..., Any]
BREAD = "A recipe for rye bread with caraway, baked slowly over night"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command of the application, with the names of its parameters."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), {parameter.name for parameter in command.params}


APPLICATION = dict(commands(typer.main.get_command(build())))
WITH_STORE = {
    name: parameters
    for name, parameters in APPLICATION.items()
    if "store" in parameters and name.split()[0] not in LABORATORY
}


CALLS: dict[str, tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any, Any], bool], int]] = {
    "check": (lambda c: ("-a", "bob", "-t", "hi", "--parent", c.note), lambda c, got: got["ruling"] == "allow", 0),
    "remember": (lambda c: ("-a", "bob", "-t", "hi", "--parent", c.note), lambda c, got: got["ruling"] == "allow", 0),
    "recall": (lambda c: ("-a", "bob", "berth"), lambda c, got: [one["id"] for one in got] == [c.note], 0),
    "trace": (lambda c: (c.note,), lambda c, got: got["patient_zero"]["agent"] == "ada", 0),
    "contacts": (lambda c: ("bob",), lambda c, got: [one["item"] for one in got["contacts"]] == [c.note], 0),
    "conflicts": (lambda c: (), lambda c, got: got == [], 0),
    "recheck": (lambda c: (), lambda c, got: got["left"] == 0, 0),
    "suspects": (lambda c: (), lambda c, got: got == [], 0),
    "repair plan": (lambda c: ("isolate", c.note), lambda c, got: got["origin"] == c.note, 0),
    "repair apply": (lambda c: (c.plan,), lambda c, got: got["plan"]["origin"] == c.note, 0),
    "repair undo": (lambda c: (c.receipt,), lambda c, got: "already undone" in got, 4),
    "repair list": (lambda c: (), lambda c, got: [one["id"] for one in got] == [c.receipt, c.standing], 0),
    "repair proposals": (lambda c: (), lambda c, got: got == [], 0),
    "repair proposal": (lambda c: ("pr_none",), lambda c, got: "no 'pr_none'" in got, 2),
    "repair accept": (lambda c: ("pr_none", "--by", "dan"), lambda c, got: "no 'pr_none'" in got, 2),
    "repair dismiss": (lambda c: ("pr_none", "--by", "dan"), lambda c, got: "no 'pr_none'" in got, 2),
    "actions list": (lambda c: (), lambda c, got: got == [], 0),
    "actions observed": (lambda c: (), lambda c, got: got == [], 0),
    "actions waiting": (lambda c: (), lambda c, got: got == [], 0),
    "actions endorse": (lambda c: ("DE 1", "--purpose", "pay", "--by", "dan"), lambda c, got: bool(got["receipt"]), 0),
    "authorize": (lambda c: ("pay", "-a", "bob"), lambda c, got: got["agent"] == "bob", 1),
    "release": (lambda c: (c.held,), lambda c, got: got["plan"]["origin"] == c.held, 0),
    "label": (lambda c: (c.note, "harmful", "--by", "dan"), lambda c, got: got["subject"] == c.note, 0),
    "labels": (lambda c: (), lambda c, got: [one["label"] for one in got] == ["harmful"], 0),
    "unlabel": (lambda c: ("1", "--by", "dan"), lambda c, got: "no '1'" in got, 2),
    "appeal": (lambda c: (c.held, "--by", "eve", "--reason", "why"), lambda c, got: got["subject"] == c.held, 0),
    "incidents": (lambda c: (), lambda c, got: c.held in {i["patient_zero"] for i in got}, 1),
    "incident show": (lambda c: (c.held,), lambda c, got: got["patient_zero"] == c.held, 0),
    "held": (lambda c: (), lambda c, got: [one["id"] for one in got] == [c.held], 0),
    "ledger verify": (lambda c: (), lambda c, got: got["checked"] == c.events, 0),
    "ledger rebuild": (lambda c: (), lambda c, got: got["ok"] and got["events"] == c.events, 0),
    "ledger head": (lambda c: (), lambda c, got: (got["namespace"], got["seq"]) == ("crew", c.events), 0),
    "ledger checkpoint": (lambda c: (), lambda c, got: (got["namespace"], got["seq"]) == ("crew", c.events), 0),
    "ledger rotate-key": (lambda c: ("absent",), lambda c, got: "key: absent cannot be read" in got, 2),
    "ledger export": (lambda c: (c.folder / "out.jsonl",), lambda c, got: got["events"] == c.events, 0),
    "ledger import": (lambda c: (c.export,), lambda c, got: got["namespace"] == "other", 0),
    "ledger backup": (lambda c: (c.folder / "saved",), lambda c, got: got["events"] >= c.events, 0),
    "ledger restore": (lambda c: (c.folder / "absent",), lambda c, got: "holds no back-up" in got, 2),
    "ledger stats": (lambda c: (), lambda c, got: got["store"] == c.url and got["items"] == 4, 0),
    "ledger upgrade": (lambda c: (), lambda c, got: got["store"] == c.url, 0),
    "ledger erase": (lambda c: (c.note, "--reason", "asked"), lambda c, got: got["kind"] == "erased", 0),
    "ledger retain": (lambda c: ("--days", "0"), lambda c, got: got["erased"] > 0, 0),
    "doctor": (lambda c: (), lambda c, got: _found(got, "store") == c.url and "'crew'" in _found(got, "chain"), 0),
    "data leak-check": (lambda c: ("--version", c.live), lambda c, got: got["cases"] > 0, 0),
    "data import": (lambda c: ("cases", c.cases, "--no-live", "--no-screen"), lambda c, got: got["merged"] == 1, 0),
    "learn cases": (lambda c: (), lambda c, got: got["live"] == c.live, 0),
    "learn rollback": (lambda c: (), lambda c, got: got["live"] == "starter", 0),
    "learn thresholds": (lambda c: ("--revert", "0"), lambda c, got: (got["was"], got["in_force"]) == (0, 1), 0),
    "learn curate": (lambda c: (), lambda c, got: got["failed"] == 1, 1),
    "observed": (lambda c: (), lambda c, got: got["days"][0]["judged"] == 4, 0),
    "enforce": (lambda c: (), lambda c, got: got == {"mode": "enforce", "changed": False}, 0),
    "tune": (lambda c: (), lambda c, got: "only 4 items were judged" in got, 2),
}
"""How each command is called, what shows that it worked in the crew's namespace, and its exit code."""
ENDLESS = {"serve", "proxy", "mcp serve", "mcp gateway"}
ALONE = {"audit", "tend", *ENDLESS}
"""Commands with a test of their own: one needs a model, one is the old name of ``recheck``, the others do not end."""


def _found(report: Any, part: str) -> str:
    return next(str(one["found"]) for one in report["findings"] if one["part"] == part)


def test_no_command_with_a_store_is_forgotten() -> None:
    assert set(CALLS) | ALONE == set(WITH_STORE)
    whole_store = {name for name, parameters in WITH_STORE.items() if "namespace" not in parameters}
    everybody = {"ledger import", "ledger upgrade", "ledger backup", "ledger restore"}
    assert whole_store == everybody, "these work on every tenant, or on the file's own"
    assert all("policy" in parameters for parameters in WITH_STORE.values())
    assert {name for name, parameters in WITH_STORE.items() if "json" not in parameters} == ENDLESS


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one == "learn curate" else one for one in CALLS]
)
def test_a_command_works_in_the_policys_store_and_namespace(run: Run, crew: Any, name: str) -> None:
    words, sound, code = CALLS[name]
    got = run(*name.split(), *words(crew), "--policy", crew.policy, "--json", code=code)
    assert sound(crew, got), got
    assert not list((crew.folder / "home").rglob("ledger.db")), "the default store was made"
    store = Store.open(crew.url)
    spaces = {space.split(".")[0] for space in store.namespaces()}
    store.close()
    assert spaces <= {"crew"} | ({"other"} if name == "ledger import" else set()), "another namespace was written to"


@pytest.mark.slow
def test_audit_uses_the_policys_case_library(run: Run, crew: Any, stub_url: str) -> None:
    pytest.importorskip("openai", reason="needs the openai extra")
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    model = f'model = "stub"\nbase_url = "{stub_url}"\nretries = 0\n'
    with crew.policy.open("a") as file:
        file.write(f'[gates.content]\njury = "chat"\n[gates.content.models.default]\n{model}')
    report = run("audit", "--text", BREAD, "--policy", crew.policy, "--json", code=1)
    assert "Baking is harmless." in {one["summary"] for one in report["precedents"]}
    assert not list((crew.folder / "home").rglob("ledger.db"))


def test_serve_says_where_it_works(crew: Any) -> None:
    pytest.importorskip("uvicorn", reason="needs the api extra")
    command = [sys.executable, "-m", "lazaretto", "serve", "--port", "0", "--policy", str(crew.policy)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "300"})
    try:
        assert process.stdout is not None
        banner = process.stdout.readline()
    finally:
        process.terminate()
        process.wait(30)
    assert f"store {crew.url}, namespace crew" in banner
    assert "127.0.0.1:0 " not in banner, "it says which port it got"


def test_the_proxy_says_where_it_stands(crew: Any) -> None:
    pytest.importorskip("uvicorn", reason="needs the proxy extra")
    pytest.importorskip("httpx", reason="needs the proxy extra")
    where = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0", "--policy", str(crew.policy))
    command = [sys.executable, "-m", "lazaretto", "proxy", *where]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "300"})
    try:
        assert process.stdout is not None
        banner = process.stdout.readline()
    finally:
        process.terminate()
        process.wait(30)
    assert "Lazaretto before http://127.0.0.1:9: set your crew's base URL to http://127.0.0.1:" in banner


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [("option", "variable", "option"), (None, "variable", "variable"), (None, None, "policy"), (None, "", "policy")],
)
def test_the_option_beats_the_variable_beats_the_policy(
    run: Run,
    empty_world: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    variable: str | None,
    expected: str,
) -> None:
    urls = {name: f"sqlite:///{empty_world / name}.db" for name in ("option", "variable", "policy")}
    for name, url in urls.items():
        Ledger.open(url, name).close()
    (empty_world / "policy.toml").write_text(f'store = "{urls["policy"]}"\nnamespace = "policy"\n')
    monkeypatch.setenv("LAZARETTO_POLICY", "policy.toml")
    if variable is not None:
        monkeypatch.setenv("LAZARETTO_STORE", urls.get(variable, ""))
        monkeypatch.setenv("LAZARETTO_NAMESPACE", variable)
    given = ("--store", urls[option], "--namespace", option) if option else ()
    assert run("ledger", "head", *given, "--json")["namespace"] == expected
    assert run("ledger", "stats", *given, "--json")["store"] == urls[expected]


def test_without_any_setting_it_is_one_file_in_the_users_folder(run: Run, empty_world: Path) -> None:
    run("remember", "--agent", "ada", "--text", "hello")
    assert [path.name for path in (empty_world / "home" / "lazaretto").rglob("*.db")] == ["ledger.db"]
    context = CommandContext.read()
    assert (context.store, context.namespace, context.policy_file, context.as_json) == (None, "default", None, False)


def test_what_is_wrong_in_the_policy_names_its_file(run: Run, empty_world: Path) -> None:
    (empty_world / "mine.toml").write_text("[gates.structure]\nmax_strays = 1\n")
    for words in (("check", "-a", "ada", "-t", "x"), ("trace", "it_1"), ("ledger", "head")):
        (empty_world / "bad.toml").write_text("stor = 1")
        assert "bad.toml: stor" in run(*words, "--policy", "bad.toml", code=2)
    told = run("check", "-a", "ada", "-t", "x", "--policy", "mine.toml", code=2)
    assert "mine.toml: gates.structure.max_strays" in told
