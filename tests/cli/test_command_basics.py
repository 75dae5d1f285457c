"""What holds for the command line as a whole: help, version, input, tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lazaretto.cli import build, common

Run = Callable[..., Any]
ID = re.compile(r"it_[0-9a-f]{24}")


def test_version_and_short_help(run: Run) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run("--version"))
    assert "immune system" in run("-h") and "Id of an item" in run("trace", "-h")


def test_text_comes_from_the_option_a_file_or_standard_input(run: Run, empty_world: Path) -> None:
    (empty_world / "page.txt").write_text("from a file")
    for words, stdin in ((("--text", "plain"), None), (("--file", "page.txt"), None), (("--text", "-"), "piped in")):
        assert run("check", "-a", "ada", *words, "--json", stdin=stdin)["ruling"] == "allow"
    texts = [one["text"] for one in run("recall", "-a", "ada", "--json")]
    assert texts == [], "what is only checked is no memory"
    run("remember", "-a", "ada", "--text", "-", stdin="kept from a pipe")
    assert [one["text"] for one in run("recall", "-a", "ada", "--json")] == ["kept from a pipe"]


@pytest.mark.parametrize("command", ["check", "remember"])
@pytest.mark.parametrize(
    ("words", "stdin", "field"),
    [
        (("--text", "x", "--file", "page.txt"), None, "text: is given twice"),
        (("--text", " \n\t "), None, "text: is empty"),
        ((), None, "text: is empty"),
        (("--text", "-"), b"\xff\xfe", "text: byte 0 is not UTF-8"),
        (("--text", "-"), b"x" * 1_000_001, "standard input: 1,000,001 is past the limit"),
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
    monkeypatch.setattr("lazaretto.cli.entry_points", lambda group: ())
    done = CliRunner().invoke(build(), ["bench", "run", "anything"])
    assert done.exit_code == 5 and "pip install lazaretto-lab" in done.stderr
