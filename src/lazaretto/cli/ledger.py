"""``lazaretto ledger``: prove the record, carry it elsewhere, let it forget."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from lazaretto.cli.common import EXIT_FLAGGED, console, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.types import Head

commands = typer.Typer(no_args_is_help=True, help="The record of what happened: verify, export, import, erase.")


def register(app: typer.Typer) -> None:
    """Add the family to the application."""
    app.add_typer(commands, name="ledger")


def _read_head(path: Path) -> Head:
    try:
        data = orjson.loads(path.read_bytes())
        return Head(str(data["namespace"]), int(data["seq"]), str(data["hash"]))
    except OSError as error:
        raise InputError("--head", f"{path} cannot be read: {error.strerror}") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise InputError("--head", f"{path} holds no head", "Use a file that 'ledger head --out' wrote") from None


@commands.command()
@with_context()
def verify(
    context: CommandContext,
    head: Annotated[Path | None, typer.Option(help="A head kept earlier by 'ledger head --out'.")] = None,
) -> None:
    """Check every event, and all that is derived from them. Exit code 1 when anything was altered, removed or cut."""
    kept = None if head is None else _read_head(head)
    with context.open_ledger(read_only=True) as ledger:
        found = ledger.verify(kept)

    def show() -> None:
        if found.ok:
            console.print(f"[green]good[/] {found.checked:,} events, every link holds")
        else:
            where = "the store" if found.first_bad is None else f"event {found.first_bad}"
            console.print(f"[bold red]broken[/] at {where}: ", end="")
            console.print(found.reason, markup=False, highlight=False)

    context.emit(found, show)
    if not found.ok:
        raise typer.Exit(EXIT_FLAGGED)


@commands.command()
@with_context()
def head(
    context: CommandContext,
    out: Annotated[Path | None, typer.Option(help="Also write it to this file.")] = None,
) -> None:
    """The end of the chain. Keep it elsewhere: 'ledger verify --head FILE' then proves that no tail was cut off."""
    with context.open_ledger(read_only=True) as ledger:
        found = ledger.head()
    if out is not None:
        _write(out, orjson.dumps({"namespace": found.namespace, "seq": found.seq, "hash": found.hash}) + b"\n")
    context.emit(found, lambda: console.print(f"{found.namespace} {found.seq} {found.hash}", highlight=False))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError("--out", f"{path} cannot be written: {error.strerror}") from error


@commands.command()
@with_context()
def export(
    context: CommandContext,
    path: Annotated[Path, typer.Argument(help="File to write (JSON lines).")],
) -> None:
    """Write one namespace, with its pictures, to a file."""
    with context.open_ledger(read_only=True) as ledger:
        count = ledger.export(path)
    context.emit({"path": str(path), "events": count}, lambda: console.print(f"{count:,} events in {path}"))


@commands.command(name="import")
@with_context(namespace=False)
def import_(
    context: CommandContext,
    path: Annotated[Path, typer.Argument(help="A file that 'ledger export' wrote.")],
) -> None:
    """Read an exported namespace into a store, verifying every link: all of it or nothing."""
    with Ledger.import_(path, context.store) as ledger:
        found = ledger.head()
    context.emit(found, lambda: console.print(f"{found.seq:,} events in namespace {found.namespace}"))


@commands.command()
@with_context()
def stats(
    context: CommandContext,
) -> None:
    """How much a namespace holds."""
    with context.open_ledger(read_only=True) as ledger:
        data: dict[str, Any] = {"store": ledger.url, **ledger.stats()}

    def show() -> None:
        table = Table(show_header=False)
        for name, value in data.items():
            words = ", ".join(f"{kind} {number:,}" for kind, number in value.items()) if name == "kinds" else value
            table.add_row(name.replace("_", " "), f"{words:,}" if isinstance(words, int) else str(words))
        print_table(table)

    context.emit(data, show)


@commands.command()
@with_context(namespace=False)
def upgrade(
    context: CommandContext,
) -> None:
    """Bring an old store to the newest schema. Any command that writes does it too."""
    opened = context.open_store()
    try:
        steps = opened.upgrade()
    finally:
        opened.close()

    def show() -> None:
        for step in steps:
            console.print(f"added: {step}")
        if not steps:
            console.print("nothing to do: the schema is the newest")

    context.emit({"store": opened.url, "steps": steps}, show)


@commands.command()
@with_context()
def erase(
    context: CommandContext,
    item: Annotated[str, typer.Argument(help="Id of an item or a decision.")],
    reason: Annotated[str, typer.Option(help="Why; it stays readable in the tombstone.")],
) -> None:
    """Remove the content of an item for good. Its id, agent and time stay, and so does the chain."""
    with context.open_ledger(create=False) as ledger:
        event = ledger.erase(item, reason)
    context.emit(event, lambda: console.print(f"erased {item}: tombstone is event {event.seq}", markup=False))


@commands.command()
@with_context()
def retain(
    context: CommandContext,
    days: Annotated[float | None, typer.Option(help="Keep the content of the last so many days.", min=0)] = None,
    before: Annotated[datetime | None, typer.Option(help="Erase what was recorded before this moment.")] = None,
) -> None:
    """Erase the content of everything older than a limit."""
    if (days is None) == (before is None):
        raise InputError("--days", "give either --days or --before")
    moment = before.timestamp() if before is not None else time.time() - 86_400 * (days or 0)
    with context.open_ledger(create=False) as ledger:
        count = ledger.retain(moment)
    context.emit({"erased": count, "before": moment}, lambda: console.print(f"erased the content of {count:,} items"))
