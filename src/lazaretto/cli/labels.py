"""``lazaretto label``, ``labels`` and ``unlabel``: people's labels on items, and taking them back."""

from __future__ import annotations

import datetime
import sys
from typing import Annotated

import typer

from lazaretto.cli.common import console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.repair import ByOption, elsewhere, read_texts
from lazaretto.errors import InputError, UnknownItem
from lazaretto.learn.lessons import LABELS
from lazaretto.learn.withdrawals import Withdrawal
from lazaretto.types import Event

MOST_IDS = 1_000_000
"""Characters of ids that are read from standard input."""


@with_context()
def label(
    context: CommandContext,
    items: Annotated[list[str], typer.Argument(help="Ids of items; - reads them from standard input.")],
    label: Annotated[str, typer.Argument(help="harmful or benign.")],
    by: ByOption,
) -> None:
    """Label items: harmful ones are held and listed, benign ones released; copies that wait with them.

    Unknown ids are refused before anything is done. Where one is refused later (exit code 4), those before it are done
    and printed; the last line takes all of it back.
    """
    if label not in LABELS:
        fix = f"Use {' or '.join(LABELS)}"
        for swapped in LABELS.keys() & {*items}:
            others = " ".join(name for name in (*items, label) if name != swapped)
            fix = f"The ids come first: lazaretto label {others} {swapped} --by YOU"
        raise InputError("label", f"is {label!r}", fix)
    ids = _read_ids(items)
    done: list[Event] = []
    notes: list[str] = []
    with context.open_guard(create=False) as guard:
        for item in guard.ledger.unknown(ids):
            raise UnknownItem(item, guard.ledger.namespace)
        try:
            for item in ids:
                if not any(item in _copies(event) for event in done):  # it was settled with its copy
                    done.append(guard.label(item, label, by=by))  # type: ignore[arg-type]  # else an InputError
                    notes.append(elsewhere(guard.ledger, item))
        finally:
            if done:
                data: Event | list[Event] = done[0] if len(ids) == 1 else done
                context.emit(data, lambda: _show_recorded(done, notes))


def _read_ids(items: list[str]) -> list[str]:
    """Ids as given, each once; a ``-`` stands for those on standard input."""
    given = [name for item in items for name in (sys.stdin.read(MOST_IDS).split() if item == "-" else [item])]
    if not given:
        raise InputError("items", "none is given", "Give ids, or pipe them in and give -")
    return list(dict.fromkeys(given))


def _copies(event: Event) -> list[str]:
    return list((event.body or {}).get("copies", ()))


def _show_recorded(done: list[Event], notes: list[str]) -> None:
    for event, note in zip(done, notes, strict=False):
        more = f" with {len(_copies(event))} that say the same" if _copies(event) else ""
        word = (event.body or {}).get("label", "")
        print_plain(f"recorded: {event.kind.value} {event.subject} {word}{more}{note and f'; {note}'}")
    numbers = " ".join(str(event.seq) for event in done)
    print_plain(f"to take it back: lazaretto unlabel {numbers} --by YOU")


@with_context()
def labels(
    context: CommandContext,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Decisions to list.")] = 50,
) -> None:
    """List people's labels (harmful or benign), the newest first; 'unlabel' takes one back by its number."""
    with context.open_guard(create=False) as guard:
        found = guard.labels(limit=limit)
        texts = {} if context.as_json else read_texts([row.item for row in found], guard.ledger)

    def show() -> None:
        if not found:
            console.print("nobody has called anything harmful or benign", highlight=False)
            return
        table = new_table("decision", "when (UTC)", "item", "label", "by", "text")
        for row in found:
            when = datetime.datetime.fromtimestamp(row.time, datetime.UTC).strftime("%Y-%m-%d %H:%M")
            label = f"{row.label}, as {row.copy_of}" if row.copy_of else row.label
            label += " (taken back)" if row.taken_back else ""
            table.add_row(str(row.decision), when, row.item, label, row.by, texts.get(row.item, ""))
        print_table(table)

    context.emit([*found], show)


@with_context()
def unlabel(
    context: CommandContext,
    decisions: Annotated[list[int], typer.Argument(help="Numbers of decisions, as 'labels' lists them.")],
    by: Annotated[str, typer.Option("--by", help="Person who takes them back.")],
) -> None:
    """Take back labels: everything is as before them, and changes that cannot be undone are named.

    Several are taken back newest first; where one is refused (exit code 4), those before it are done and printed.
    """
    done: list[Withdrawal] = []

    def show() -> None:
        for event in done:
            _show(event)

    with context.open_guard(create=False) as guard:
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
            print_plain(f"  {word}: {item}")
    for item, why in done.left.items():
        print_plain(f"  left: {item}: {why}")
    for note in done.notes:
        print_plain(f"  {note}")
