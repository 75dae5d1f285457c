"""docs/reproduce-llava.md needs weights and a GPU; what can be held to it without them is held to it here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from lazaretto.cli import build
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.outbreak.settings import read_settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reproduce-llava.md"
LINES = [
    line for block in re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.M | re.S) for line in block.splitlines()
]
NAMES = dict(line.removeprefix("export ").split("=", 1) for line in LINES if line.startswith("export "))
COMMANDS = [line for line in LINES if line.startswith("lazaretto ")]


def words(line: str) -> list[str]:
    return [re.sub(r"\$(\w+)", lambda found: NAMES[found[1]], word) for word in shlex.split(line)[1:]]


def parsed(arguments: list[str]) -> click.Context:
    """The command's own context, with every option read and nothing run."""
    command, name = typer.main.get_command(build()), "lazaretto"
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group):
        found, command_, arguments = command.resolve_command(context, arguments)
        assert command_ is not None, found
        command, context = command_, click.Context(command_, info_name=found, parent=context)
    return command.make_context(context.info_name, arguments, parent=context.parent)


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_parses(line: str) -> None:
    values = parsed(words(line)).params
    if "embedder" in values:
        assert values["chat"] == NAMES["LLAVA"] and values["embedder"] == NAMES["CLIP"] and values["device"] == "cuda"


def test_the_worlds_name_the_pictures_that_are_made() -> None:
    made = {words(line)[2] for line in COMMANDS if " craft " in line}
    experiment = load_experiment("foresight/llava")
    rows = [read_settings({**experiment.settings, **row.settings}) for row in experiment.rows]
    assert {row.attack.picture for row in rows} == made and len(rows) == 24
    assert {(row.models.chat, row.models.embedder) for row in rows} == {(NAMES["LLAVA"], NAMES["CLIP"])}
