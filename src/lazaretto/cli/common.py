"""What every command shares: options, output, exit codes and the one place where errors become words."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar

import orjson
import typer
from rich.console import Console

from lazaretto.errors import (
    ChainBroken,
    InputError,
    LazarettoError,
    MissingExtra,
    ModelError,
    RepairRefused,
    StoreError,
)
from lazaretto.types import plain

console = Console()
errors = Console(stderr=True)

EXIT_OK = 0
EXIT_FLAGGED = 1  # it worked, and the answer is bad news: blocked, chain broken, doctor found a fault
EXIT_USAGE = 2  # the input is wrong
EXIT_STORE = 3  # the store cannot serve
EXIT_REFUSED = 4  # a repair was refused
EXIT_MODEL = 5  # a model failed or an optional part is missing
EXIT_INTERRUPTED = 130

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", envvar="LAZARETTO_STORE", help="Store URL, for example sqlite:///crew.db or postgresql://..."
    ),
]
PolicyOption = Annotated[
    str | None, typer.Option("--policy", envvar="LAZARETTO_POLICY", help="Policy file (TOML). Default: built in.")
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", envvar="LAZARETTO_NAMESPACE", help="Tenant to work in.")
]

P = ParamSpec("P")
R = TypeVar("R")


def emit(data: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print ``data`` as JSON when asked, else let ``show`` draw it for a person."""
    if as_json:
        sys.stdout.write(
            orjson.dumps(plain(data), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n"
        )
    else:
        show()


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


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator for every command: what goes wrong is one clear line on stderr and an exit code, never a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except LazarettoError as error:
            errors.print(f"[bold red]error[/] {type(error).__name__}: ", end="")
            errors.print(str(error), markup=False, highlight=False)
            raise typer.Exit(_exit_code(error)) from None
        except KeyboardInterrupt:
            errors.print("interrupted")
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return run
