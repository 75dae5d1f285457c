"""What holds for the command line as a whole: help, version, input, tables."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from lazaretto import SyncGuard
from lazaretto.cli import FAMILIES, build, common
from lazaretto.cli.application import add_family, named_command
from lazaretto.learn.lessons import Lessons

Run = Callable[..., Any]
ID = re.compile(r"it_[0-9a-f]{24}")


def test_version_and_short_help(run: Run) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run("--version"))
    assert "immune system" in run("-h") and "Id of an item" in run("trace", "-h")


def test_the_version_loads_no_library() -> None:
    code = "import sys; sys.argv[1:] = ['--version']; from lazaretto.cli import main; main(); print(*sys.modules)"
    version, modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.splitlines()
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", version)
    assert not {"typer", "numpy", "sqlalchemy", "pydantic", "onnxruntime"} & set(modules.split())


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_found_by_its_words(family: str) -> None:
    app = typer.Typer()
    add_family(app, family)
    app.command("another")(lambda: None)  # so that one command is a group, too
    assert set(typer.main.get_group(app).commands) == {*FAMILIES[family], "another"}


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["check", "-h"], "check"),
        (["-q", "-vv", "ledger", "verify"], "ledger"),
        (["--json", "chek"], "chek"),
        (["-h", "check"], None),
        (["--quiet", "--help"], None),
        ([], None),
    ],
)
def test_a_call_names_its_command(words: list[str], command: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_command(words) == command
    monkeypatch.setenv("_LAZARETTO_COMPLETE", "complete_bash")
    assert named_command(words) is None, "a shell that completes has to know all"


def test_a_mistyped_command_is_met_with_the_nearest(run: Run) -> None:
    assert "'check'" in run("chek", code=2) and "No such command 'chek'" in run("chek", code=2)


def test_text_comes_from_the_option_a_file_or_standard_input(run: Run, empty_world: Path) -> None:
    (empty_world / "page.txt").write_text("from a file")
    for words, stdin in ((("--text", "plain"), None), (("--file", "page.txt"), None), (("--text", "-"), "piped in")):
        assert run("check", "-a", "ada", *words, "--json", stdin=stdin)["ruling"] == "allow"
    texts = [one["text"] for one in run("recall", "-a", "ada", "--json")]
    assert texts == [], "what is only checked is no memory"
    run("remember", "-a", "ada", "--text", "-", stdin="kept from a pipe")
    assert [one["text"] for one in run("recall", "-a", "ada", "--json")] == ["kept from a pipe"]


def test_a_dry_run_leaves_no_trace(run: Run, empty_world: Path) -> None:
    def files() -> list[Path]:  # but for what the models keep of themselves
        return sorted(one for one in empty_world.rglob("*") if ".cache" not in one.parts)

    before = files()
    store = ("--store", f"sqlite:///{empty_world}/new/ledger.db")
    for named in ((), store):
        assert run("check", "good morning", "-a", "ada", "--json", "--dry-run", *named)["ruling"] == "allow"
    assert files() == before, "not even an empty store"
    said = ("check", "reversed \u202etxet\u202c one", "-a", "ada", "--json")
    for _ in range(2):
        told = run(*said, "--dry-run", code=1)
        assert told["ruling"] == "quarantine" and not told["rule"].startswith("blocklist:")
    run(*said, code=1)
    assert run(*said, "--dry-run", code=1)["rule"].startswith("blocklist:") and len(run("held", "--json")) == 1
    assert "parent" in run(*said[:-1], "--dry-run", "--parent", "it_a", code=2)


def test_a_dry_run_before_a_store_that_holds_no_ledger_yet_or_an_old_one(run: Run, empty_world: Path) -> None:
    path = empty_world / "crew.db"
    said = ("check", "good morning", "-a", "ada", "--dry-run", "--store", f"sqlite:///{path}")
    path.touch()
    assert run(*said, "--json")["ruling"] == "allow" and path.read_bytes() == b""
    path.unlink()
    run("check", "good morning", "-a", "ada", *said[-2:])
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM lz_steps WHERE step = (SELECT max(step) FROM lz_steps)")
        database.commit()
    before = path.read_bytes()
    assert "lazaretto ledger upgrade" in run(*said, code=3).replace("\n", " ") and path.read_bytes() == before


def test_a_dry_run_leaves_to_others_what_a_dead_process_left(
    run: Run, empty_world: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = empty_world / "crew.db"
    store = ("--store", f"sqlite:///{path}")
    said = ("check", "The back door is painted green.", "-a", "ada", "--json", *store)
    item = run(*said)["item"]
    with monkeypatch.context() as dying:
        dying.setattr(Lessons, "catch_up", lambda self: None)
        with SyncGuard.open(store[1]) as guard:
            guard.label(item, "harmful", by="ops")

    def kept() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [(name, *database.execute(f"SELECT * FROM {name}").fetchall()) for name in sorted(tables)]

    before, files = kept(), sorted(one.name for one in empty_world.iterdir())
    assert run(*said, "--dry-run")["ruling"] == "allow" and "before the gates learnt them" in caplog.text
    assert kept() == before and sorted(one.name for one in empty_world.iterdir()) == files
    assert run(*said, code=1)["rule"].startswith("blocklist:"), "whoever writes finishes it"
    assert run(*said, "--dry-run", code=1)["rule"].startswith("blocklist:")


@pytest.mark.parametrize("command", ["check", "remember"])
@pytest.mark.parametrize(
    ("words", "stdin", "field"),
    [
        (("--text", "x", "--file", "page.txt"), None, "text: is given twice"),
        (("--text", " \n\t "), None, "text: is empty"),
        ((), None, "text: is empty"),
        (("--text", "-"), b"\xff\xfe", "text: byte 0 is not UTF-8"),
        (("--text", "-"), b"x" * 1_000_001, "standard input: 1,000,001 bytes are past the limit"),
        (("--file", "absent.txt"), None, "file: absent.txt cannot be read"),
        (("--image", "absent.png"), None, "image: absent.png cannot be read"),
    ],
)
def test_bad_input_is_named(
    run: Run, empty_world: Path, command: str, words: tuple[str, ...], stdin: bytes | None, field: str
) -> None:
    (empty_world / "page.txt").write_text("a page")
    assert field in " ".join(run(command, "-a", "ada", *words, stdin=stdin, code=2).split())


def test_ids_are_whole_in_every_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = run("remember", "-a", "ada", "-t", "a note with rather many words in it, so that space is short", "--json")
    child = run("remember", "-a", "bob", "-t", "another", "--parent", root["item"], "--json")
    monkeypatch.setenv("COLUMNS", "40")
    for words in (("recall", "-a", "cy"), ("trace", root["item"]), ("repair", "plan", "isolate", child["item"])):
        assert child["item"] in ID.findall(run(*words)), words
    run("recall", "-a", "cy", "--item", root["item"])
    assert root["item"] in ID.findall(run("contacts", "cy"))


def test_a_narrow_terminal_folds_an_id_and_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    narrow = Console(width=20, force_terminal=True, no_color=True)
    table = common.new_table("id", "text")
    table.add_row("it_0123456789abcdef01234567", "[bold]as it is[/]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "console", narrow)
        common.print_table(table)
    cells = [re.split("[│┃]", line)[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert "".join(cell.strip() for cell, _ in cells) == "it_0123456789abcdef01234567"
    assert "[bold]as" in "".join(cell.strip() for _, cell in cells)


def test_without_the_laboratory_its_commands_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazaretto.cli.application.entry_points", lambda group: ())
    done = CliRunner().invoke(build(), ["bench", "run", "anything"])
    assert done.exit_code == 5 and "pip install lazaretto-lab" in done.stderr


def test_text_may_be_an_argument(run: Run, empty_world: Path) -> None:
    (empty_world / "policy.toml").write_text('preset = "minimal"\n')
    for said, stdin in (("plain words", None), ("-", "piped in")):
        decision = run("check", said, "-a", "ada", "--policy", "policy.toml", "--json", stdin=stdin)
        assert decision["allowed"] and "reasons" in decision
    assert "text: is given twice" in " ".join(run("check", "one", "-t", "two", "-a", "ada", code=2).split())


def in_a_process(*words: str, folder: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "lazaretto", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_errors_are_json_where_answers_are(run: Run, empty_world: Path) -> None:
    told = json.loads(run("trace", "it_none", "--store", "sqlite:///none.db", "--json", code=3))["error"]
    assert (told["type"], told["exit_code"]) == ("StoreMissing", 3)
    told = json.loads(run("check", "x", "-a", "ada", "--source", "oracle", "--json", code=2))["error"]
    assert told["field"] == "source" and told["fix"] and told["message"].startswith("source: ")
    code, out, _ = in_a_process("check", "--json", "--no-such-option", folder=empty_world)
    assert code == 2 and json.loads(out)["error"]["type"] == "UsageError"


def test_how_much_is_said_beside_the_answer(empty_world: Path) -> None:
    policy = empty_world / "policy.toml"
    policy.write_text('preset = "minimal"\n[gates.content]\nrounds = 1\n')
    words = ("check", "hello", "-a", "ada", "--policy", "policy.toml", "--store", "sqlite:///a.db", "--json")
    code, plain, said = in_a_process(*words, folder=empty_world)
    assert code == 0 and "gates.content" in said
    code, quiet, unsaid = in_a_process("-q", *words, folder=empty_world)
    assert code == 0 and unsaid == "" and json.loads(quiet).keys() == json.loads(plain).keys()
    code, _, loud = in_a_process("-v", *words, folder=empty_world)
    assert code == 0 and "WARNING lazaretto: " in loud and "a.db, namespace 'default', policy policy.toml" in loud
    assert "is allow by" in loud and "gate structure" not in loud
    code, _, louder = in_a_process("-vv", *words, folder=empty_world)
    assert code == 0 and "DEBUG lazaretto: gate structure: ran" in louder and "hello" not in louder
