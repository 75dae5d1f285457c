"""``lazaretto data``: cases in, and the check that none of them is an evaluation item."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lazaretto.cases.casebook import Casebook, Intake
from lazaretto.cases.library import read_cases
from lazaretto.cases.records import Case
from lazaretto.cli.admission import guard_admission
from lazaretto.cli.common import EXIT_FLAGGED, console, print_plain
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.gates.content.gate import live_library
from lazaretto.learn.curate import case_rows, labelled_rows
from lazaretto.names import check_name

family = typer.Typer(help="Bring cases in, and keep evaluation items out.", no_args_is_help=True)

AgainstOption = Annotated[
    list[Path] | None, typer.Option("--against", help="Evaluation items (JSON lines) that no case may overlap.")
]


def protect(book: Casebook, against: list[Path] | None) -> int:
    """Name the items of evaluation files to the casebook; how many are new."""
    items: dict[str, str] = {}
    for path in against or ():
        for item in labelled_rows(path):
            items[item.content.id] = "\n".join(p for p in (item.content.text, item.content.description) if p.strip())
            for part, words in (("text", item.content.text), ("picture", item.content.description)):
                if len(words.split()) >= 12:
                    items[f"{item.content.id} ({part})"] = words
    return book.protect(items)


@family.command("import")
@with_context()
def import_cases(
    context: CommandContext,
    kind: Annotated[
        str, typer.Argument(help="air-bench (Aetheria case files) or cases (JSON lines as exported here).")
    ],
    path: Annotated[Path, typer.Argument(help="A .jsonl file, or a folder of them.")],
    against: AgainstOption = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Use the new version at once.")] = True,
    screen: Annotated[bool, typer.Option("--screen/--no-screen", help="Ask the memory gate about every case.")] = True,
    by: Annotated[str, typer.Option("--by", help="Person who brings them in.")] = "operator",
) -> None:
    """Import cases into the library: near-duplicates merge, evaluation items are refused by name."""
    person = check_name(by, "by", printable=True)
    cases, unread = _read(kind, path), "" if screen else ", without the memory gate"
    with context.open_ledger() as ledger:
        book = Casebook(ledger)
        protected = protect(book, against)
        with guard_admission(context, enabled=screen) as admit:
            intake = book.offer(cases, f"import {kind} {path.name} by {person}{unread}", admit)
        if live:
            book.go_live(intake.version, by=person)
            live_library(book)  # its vectors are made and kept now, so that no verdict waits for them
        body = _summary(intake, len(cases), protected, book.live)
    context.emit(body, lambda: _show(body))


def _read(kind: str, path: Path) -> list[Case]:
    if kind == "air-bench":
        return case_rows(path)
    if kind == "cases":
        if not path.is_file():
            raise InputError("path", f"no file {path}", "Give a .jsonl file of cases")
        return list(read_cases(path.read_bytes(), path.name))
    raise InputError("kind", f"{kind!r} is unknown", "Use air-bench or cases")


def _summary(intake: Intake, offered: int, protected: int, live: str) -> dict[str, Any]:
    return {
        "version": intake.version,
        "live": live,
        "offered": offered,
        "added": len(intake.added),
        "merged": len(intake.merged),
        "refused": [{"case": r.case, "reason": r.reason, "item": r.item} for r in intake.refused],
        "protected": protected,
    }


def _show(body: dict[str, Any]) -> None:
    console.print(
        f"{body['offered']} offered: {body['added']} added, {body['merged']} merged, {len(body['refused'])} refused; "
        f"version {body['version']}, live is {body['live']}",
        highlight=False,
    )
    for refusal in body["refused"][:20]:
        print_plain(f"  refused {refusal['case']}: {refusal['reason']} {refusal['item']}")
    if len(body["refused"]) > 20:
        console.print(f"  ... and {len(body['refused']) - 20} more (--json lists all)")


@family.command("leak-check")
@with_context()
def leak_check(
    context: CommandContext,
    against: AgainstOption = None,
    version: Annotated[str | None, typer.Option("--version", help="Library version; the live one by default.")] = None,
) -> None:
    """Does the case library overlap an evaluation set? Exit code 1, and both names, when it does."""
    with context.open_ledger() as ledger:
        book = Casebook(ledger)
        protect(book, against)
        cases = book.cases(version)
        found = book.leaks(cases)
    body = {"cases": len(cases), "leaks": [{"case": r.case, "item": r.item, "reason": r.reason} for r in found]}

    def show() -> None:
        console.print(f"{len(cases)} cases, {len(found)} overlap an evaluation item", highlight=False)
        for leak in found:
            print_plain(f"  {leak.case} overlaps {leak.item}: {leak.reason}")

    context.emit(body, show)
    if found:
        raise typer.Exit(EXIT_FLAGGED)
