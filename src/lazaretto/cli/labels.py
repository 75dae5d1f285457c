"""``lazaretto labels`` and ``unlabel``: what people decided about items, and taking it back."""

from __future__ import annotations

import datetime
from typing import Annotated

import typer

from lazaretto.cli.common import console, new_table, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.learn.withdrawals import Withdrawal


@with_context()
def labels(
    context: CommandContext,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Decisions to list.")] = 50,
) -> None:
    """List what people called harmful or benign, the newest first; 'unlabel' takes one back by its number."""
    with context.open_guard() as guard:
        found = guard.labels(limit=limit)

    def show() -> None:
        table = new_table("decision", "when (UTC)", "item", "label", "by")
        for one in found:
            when = datetime.datetime.fromtimestamp(one.time, datetime.UTC).strftime("%Y-%m-%d %H:%M")
            said = f"{one.label} (taken back)" if one.taken_back else one.label
            table.add_row(str(one.decision), when, one.item, said, one.by)
        print_table(table)

    context.emit([*found], show)


@with_context()
def unlabel(
    context: CommandContext,
    decisions: Annotated[list[int], typer.Argument(help="Numbers of decisions, as 'labels' lists them.")],
    by: Annotated[str, typer.Option("--by", help="Person who takes them back.")],
) -> None:
    """Take back labels: everything is as before them, and what cannot be put back is named.

    Several are taken back newest first; where one is refused (exit code 4), those before it are done and printed.
    """
    done: list[Withdrawal] = []

    def show() -> None:
        for one in done:
            _show(one)

    with context.open_guard() as guard:
        try:
            for decision in sorted(set(decisions), reverse=True):
                done.append(guard.unlabel(decision, by=by))
        finally:
            if done:
                context.emit(done, show)


def _show(done: Withdrawal) -> None:
    console.print(f"taken back: {done.item} was called {done.label} (decision {done.decision})", highlight=False)
    for word, items in (("as before", done.restored), ("released", done.released), ("held", done.held)):
        for item in items:
            console.print(f"  {word}: {item}", markup=False, highlight=False)
    for item, why in done.left.items():
        console.print(f"  left: {item}: {why}", markup=False, highlight=False)
    for note in done.notes:
        console.print(f"  {note}", markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(labels)
    app.command()(unlabel)
