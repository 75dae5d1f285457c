"""``lazaretto train``: make the weights that ship, each by the script that its model card names."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer

from lazaretto.cli.common import plain_errors
from lazaretto.errors import InputError

SCRIPTS = {
    "jury": "lazaretto_lab.training.jury.train",
    "screener": "lazaretto_lab.training.screener.train",
    "records": "lazaretto_lab.studies.memory.ship_weights",
    "pocket": "lazaretto_lab.training.pocket.train",
}
"""Weights -> the module whose ``main`` makes them."""


@plain_errors
def train_command(
    context: typer.Context, weights: Annotated[str, typer.Argument(help=f"One of {', '.join(SCRIPTS)}.")]
) -> None:
    """Make one set of weights; what follows the name goes to its script (try --help there)."""
    if weights not in SCRIPTS:
        raise InputError("weights", f"{weights!r} is unknown", f"Use one of {', '.join(SCRIPTS)}")
    sys.argv = [f"lazaretto train {weights}", *context.args]
    importlib.import_module(SCRIPTS[weights]).main()


def register(app: typer.Typer) -> None:
    """Add the command; its own --help stands before the name, the script's after it."""
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command("train", context_settings=settings)(train_command)
