"""``lazaretto recheck | suspects``: memories are judged again; suspects behind failed decisions."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from lazaretto.cli.common import console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.trace import clock
from lazaretto.guard.rechecking import Rechecked
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.suspects import Suspect


@with_context()
def recheck(
    context: CommandContext,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", help="Most memories to judge again. Default: the policy's.")
    ] = None,
) -> None:
    """Judge memories again: release clean ones, hold missed ones, propose repairs of items made
    from them."""
    with context.open_guard(create=False) as guard:
        done = guard.recheck(limit=limit)
    context.emit(done, lambda: _show_rechecked(done))


def _show_rechecked(done: Rechecked) -> None:
    words = f"looked at {done.looked}, held {len(done.held)}, released {len(done.released)}"
    words += f", rewritten {len(done.rewritten)}, proposed {len(done.proposed)}, left {done.left}"
    console.print(f"{words}, new cases {len(done.cases)}" if done.cases else words, highlight=False)
    named = (
        ("held", done.held),
        ("released", done.released),
        ("rewritten", done.rewritten),
        ("unjudged", done.unjudged),
    )
    for name, items in named:
        for item in items:
            print_plain(f"{name} {item}")
    for name in done.proposed:
        print_plain(f"proposed {name}: look at it with: lazaretto repair proposal {name}")


@with_context()
def suspects(
    context: CommandContext,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most rows to show.")] = 10,
) -> None:
    """List items that failed decisions share and the others do not, the strongest suspicion first."""
    with context.open_guard(create=False) as guard:
        found = guard.incidents.suspects(limit=limit)
    context.emit(found, lambda: _show_suspects(found))


def _show_suspects(found: tuple[Suspect, ...]) -> None:
    if not found:
        console.print("nothing stands behind failed decisions more often than chance lets it")
        return
    table = new_table("item", "by", "time", "failed", "succeeded", "by chance", "unexplained")
    for suspect in found:
        chance = "nothing to compare" if suspect.chance is None else f"{suspect.chance:.2g}"
        counts = (str(suspect.failed), str(suspect.succeeded), chance, str(suspect.unexplained))
        table.add_row(suspect.item, Text(showable(suspect.agent)), clock(suspect.time), *counts)
    print_table(table)
