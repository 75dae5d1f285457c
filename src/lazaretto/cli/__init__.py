"""The command line. Each file of this folder holds one family of commands and adds it with ``register(app)``."""

from __future__ import annotations

import importlib
import logging
import sys
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from lazaretto.cli.common import EXIT_MODEL, EXIT_USAGE, emit, errors

FAMILIES: tuple[str, ...] = (
    "guard",
    "actions",
    "trace",
    "tend",
    "conflicts",
    "repair",
    "incidents",
    "ledger",
    "doctor",
    "deep",
    "serve",
    "mcp",
    "proxy",
    "keys",
    "audit",
    "data",
    "learn",
    "screen",
    "scan",
    "foresight",
)
"""Modules of this folder, in the order ``--help`` lists them."""
COMMANDS = "lazaretto.commands"
"""The entry point group through which other distributions add families: ``register(app)`` each."""
LABORATORY = ("bench", "epidemic", "attack", "train", "drill")
"""Commands of the laboratory, which say how to install it where it is absent."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("lazaretto"))
        raise typer.Exit


def build() -> typer.Typer:
    """The whole application."""
    app = typer.Typer(
        name="lazaretto",
        help="An immune system for multi-agent AI: inspect, hold, clean and release what agents read, keep and say.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for family in FAMILIES:
        importlib.import_module(f"lazaretto.cli.{family}").register(app)
    added = {point.name: point for point in entry_points(group=COMMANDS)}
    for point in added.values():
        point.load()(app)
    for name in LABORATORY:
        if name not in added:
            _without_laboratory(app, name)
    return app


def _set_verbosity(verbose: int, quiet: bool) -> None:
    """What is said on standard error besides the answer: warnings, unless more or less is asked for."""
    if not verbose and not quiet:
        return
    log = logging.getLogger("lazaretto")
    log.setLevel(logging.ERROR if quiet else logging.INFO if verbose == 1 else logging.DEBUG)
    if not quiet and not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        log.addHandler(handler)


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say on standard error what is done; -vv: each gate too.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No warnings on standard error, only errors.")] = False,
) -> None:
    _set_verbosity(verbose, quiet)


def _without_laboratory(app: typer.Typer, name: str) -> None:
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(name, context_settings=anything, hidden=True)
    def missing() -> None:
        errors.print(f"'lazaretto {name}' belongs to the laboratory: pip install lazaretto-lab", markup=False)
        raise typer.Exit(EXIT_MODEL)


def main() -> None:
    """Entry point of the ``lazaretto`` command."""
    if "--json" not in sys.argv:
        build()()
        return
    try:
        code = build()(standalone_mode=False)
    except Exception as error:  # wrong usage; everything else was said by the command itself
        told = getattr(error, "format_message", None)
        if told is None:
            raise
        emit({"error": {"type": "UsageError", "message": told(), "exit_code": EXIT_USAGE}}, True, lambda: None)
        code = EXIT_USAGE
    sys.exit(code if isinstance(code, int) else 0)
