"""The application: its families of commands, all of them or the one that a call needs."""

from __future__ import annotations

import gc
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lazaretto.cli import COMMANDS, FAMILIES, LABORATORY, OLD_NAMES
from lazaretto.cli.common import EXIT_MODEL, EXIT_USAGE, emit, errors


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("lazaretto"))
        raise typer.Exit


class Commands(TyperGroup):
    """The commands by name. The error for an unknown one names the family that has it: ``ledger verify``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As in ``TyperGroup``."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
            found = [f"'{ctx.command_path} {name} {args[0]}'" for name in groups if args[0] in groups[name].commands]
            if found and hasattr(error, "message"):
                error.message = f"No such command {args[0]!r}. Did you mean {' or '.join(found)}?"
            raise


def build(command: str | None = None) -> typer.Typer:
    """The application: whole, or as far as it needs to be for one of its commands."""
    app = typer.Typer(
        name="lazaretto",
        cls=Commands,
        help="An immune system for multi-agent AI: inspect, hold, clean and release what agents read, keep and say.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    holding = [family for family, names in FAMILIES.items() if command in names]
    for family in holding or FAMILIES:
        add_family(app, family)
    if holding:
        return app
    added = {point.name: point for point in entry_points(group=COMMANDS)}
    for point in added.values():
        point.load()(app)
    for name in LABORATORY:
        if name not in added:
            _without_laboratory(app, name)
    return app


def add_family(app: typer.Typer, family: str) -> None:
    """Add the commands of a family, as ``FAMILIES`` names them."""
    module = importlib.import_module(f"lazaretto.cli.{family}")
    for name in FAMILIES[family]:
        command = getattr(module, OLD_NAMES.get(name, name), None)
        if inspect.isfunction(command):
            app.command(name, hidden=name in OLD_NAMES, deprecated=name in OLD_NAMES)(command)
        else:
            app.add_typer(module.family, name=name)


def _set_verbosity(verbose: int, quiet: bool) -> None:
    """Set the messages on standard error besides the answer: warnings, unless more or less is asked for."""
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
        int, typer.Option("--verbose", "-v", count=True, help="Log each step on standard error; -vv: each gate too.")
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


def run() -> None:
    """Run the command of the process's arguments."""
    app = build(named_command(sys.argv[1:]))
    gc.freeze()  # imported objects stay; from here on garbage is collected as usual
    gc.enable()
    if "--json" not in sys.argv:
        app()
        return
    try:
        code = app(standalone_mode=False)
    except Exception as error:  # wrong usage; the command itself reported everything else
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        emit(
            {"error": {"type": "UsageError", "message": format_message(), "exit_code": EXIT_USAGE}}, True, lambda: None
        )
        code = EXIT_USAGE
    sys.exit(code if isinstance(code, int) else 0)


def named_command(words: Sequence[str]) -> str | None:
    """The command that a call names; None where it asks for help with all of them. Options before it take no value."""
    if os.environ.get("_LAZARETTO_COMPLETE"):  # a shell asks for completions
        return None
    for word in words:
        if word in ("-h", "--help"):
            return None
        if not word.startswith("-"):
            return word
    return None
