"""Shared by all commands: options, output, exit codes and the one place where errors become messages."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from lazaretto.errors import (
    ChainBroken,
    InputError,
    LazarettoError,
    MissingExtra,
    ModelError,
    RepairRefused,
    StoreError,
    TooLarge,
)
from lazaretto.reports import spelled, spelled_json
from lazaretto.types import plain

if TYPE_CHECKING:
    from rich.progress import Progress

console = Console(soft_wrap=True)  # the terminal breaks long lines, so copied text is whole
errors = Console(stderr=True, soft_wrap=True)

EXIT_FLAGGED = 1  # it worked, and the answer is bad news: blocked, chain broken, doctor found a fault
EXIT_USAGE = 2  # the input is wrong
EXIT_STORE = 3  # the store cannot serve
EXIT_REFUSED = 4  # a repair was refused
EXIT_MODEL = 5  # a model failed or an optional part is missing
EXIT_INTERRUPTED = 130

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

P = ParamSpec("P")
R = TypeVar("R")


def emit(data: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print ``data`` as JSON when asked, else let ``show`` draw it for a person."""
    if as_json:
        written = orjson.dumps(plain(data), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
        sys.stdout.write(f"{spelled_json(written)}\n")
    else:
        show()


def read_file(path: Path, field: str, limit: int, setting: str = "") -> bytes:
    """A file's bytes, never more than the limit, which a ``setting`` of the policy may give."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
            size = path.stat().st_size
    except OSError as error:
        raise InputError(field, f"{path} cannot be read ({error.strerror})", "Check the path") from None
    if len(data) > limit:
        raise TooLarge(field, max(size, len(data)), limit, setting=setting)
    return data


def printable(text: str) -> str:
    """A text of strangers as it may stand in a line on a terminal or in a log: signs that act are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def standard_input(limit: int) -> bytes:
    """The text that is piped in, never more than the limit."""
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise TooLarge("standard input", len(data), limit, setting="limits.max_text_bytes")
    return data


def progress_bar(off: bool = False) -> Progress:
    """How far a long command is, on standard error; nothing where that is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=errors, transient=True, disable=off or not errors.is_terminal)


def new_table(*columns: str, title: str | None = None) -> Table:
    """A table that folds cells too wide for the terminal: an id that is cut off cannot be used. No cell is markup."""
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def print_plain(words: str) -> None:
    """Print words as they are: brackets are no markup, nothing is coloured, and signs that act are spelled out."""
    console.print(spelled(words), markup=False, highlight=False)


def print_table(table: Table) -> None:
    """Print a table; into a pipe or a file, which have no width to fit into, as wide as it needs to be."""
    if console.is_terminal:
        console.print(table, markup=False, soft_wrap=False)
        return
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    Console(file=sys.stdout, width=max(console.width, needed)).print(table, markup=False)


def _exit_code(error: LazarettoError) -> int:
    table: tuple[tuple[type[LazarettoError], int], ...] = (
        (ChainBroken, EXIT_FLAGGED),
        (InputError, EXIT_USAGE),
        (StoreError, EXIT_STORE),
        (RepairRefused, EXIT_REFUSED),
        (ModelError, EXIT_MODEL),
        (MissingExtra, EXIT_MODEL),
    )
    return next((code for kind, code in table if isinstance(error, kind)), EXIT_USAGE)


def error_data(error: LazarettoError) -> dict[str, Any]:
    """An error for programs: its kind, its words, and the facts it carries."""
    facts = {name: value for name, value in vars(error).items() if isinstance(value, (str, int, float, bool))}
    return {"error": {"type": type(error).__name__, "message": str(error), "exit_code": _exit_code(error), **facts}}


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator for every command: an error is one clear line on stderr and an exit code, never a traceback.

    With ``--json`` it is a JSON document on standard output, like every other answer.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except LazarettoError as error:
            if kwargs.get("json") is True or str(kwargs.get("json")) == "-":
                emit(error_data(error), True, lambda: None)
                raise typer.Exit(_exit_code(error)) from None
            errors.print(f"[bold red]error[/] {type(error).__name__}: ", end="")
            errors.print(spelled(str(error)), markup=False, highlight=False)
            raise typer.Exit(_exit_code(error)) from None
        except KeyboardInterrupt:
            errors.print("interrupted")
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return run
