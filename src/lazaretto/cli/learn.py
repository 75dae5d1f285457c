"""``lazaretto learn``: the Curator, the case library's versions, and the way back."""

from __future__ import annotations

import asyncio
import random
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from lazaretto.cases.casebook import Casebook, Intake
from lazaretto.cases.records import Label
from lazaretto.cli.admission import guard_admission
from lazaretto.cli.audit import content_policy
from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.gates.content.gate import ContentSettings, make_panel, role_model_for, text_embedder, vector_cache
from lazaretto.gates.content.records import Role
from lazaretto.gates.engine.thresholds import Cut, Thresholds
from lazaretto.learn.curate import (
    ChatCurator,
    FailedCase,
    LabelledContent,
    LibraryPreview,
    Writer,
    curate,
    extract_lesson,
    failures,
    labelled_rows,
    preview,
    reviewed,
)
from lazaretto.learn.tuning import calibrate
from lazaretto.ledger import Ledger
from lazaretto.names import check_name
from lazaretto.reports import spelled

family = typer.Typer(
    help="Learn from mistakes: curate cases, list versions, roll back, move thresholds.", no_args_is_help=True
)
SAMPLE_SEED = 5


def _verdicts(path: Path) -> list[dict[str, Any]]:
    try:
        return [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError("verdicts", f"cannot read {path} ({error})", "Give the output of audit --batch") from None


def _writer(settings: ContentSettings) -> Writer:
    wanted = settings.models.get(Role.CURATOR.value)
    return ChatCurator(role_model_for(Role.CURATOR, wanted)) if wanted is not None else extract_lesson


def _wrong(ledger: Ledger, verdicts: Path | None, truth: Path | None) -> list[FailedCase]:
    """Failed items of a labelled batch, or rulings that people overturned or confirmed as harmful in the ledger."""
    if (verdicts is None) != (truth is None):
        raise InputError("verdicts", "verdicts and truth go together", "Give --verdicts and --truth, or neither")
    if verdicts is None or truth is None:
        return [case for case in reviewed(ledger) if case.ruled != case.truth or case.truth is Label.UNSAFE]
    known = {item.content.id: item for item in labelled_rows(truth)}
    return failures(_verdicts(verdicts), known)


def _sample(path: Path | None, size: int, wrong: list[FailedCase]) -> list[LabelledContent]:
    """A held-out sample: never an item that is being learnt."""
    if path is None:
        return []
    learnt = {failed.content.id for failed in wrong}
    rows = [item for item in labelled_rows(path) if item.content.id not in learnt]
    random.Random(SAMPLE_SEED).shuffle(rows)
    return rows[:size]


@family.command("curate")
@with_context()
def curate_command(
    context: CommandContext,
    verdicts: Annotated[Path | None, typer.Option("--verdicts", help="Output of audit --batch.")] = None,
    truth: Annotated[Path | None, typer.Option("--truth", help="The same items with their labels.")] = None,
    held_out: Annotated[Path | None, typer.Option("--held-out", help="Labelled items for the preview.")] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Items of the preview.")] = 50,
    force: Annotated[bool, typer.Option("--force", help="Go live even if the preview is worse or absent.")] = False,
    by: Annotated[str, typer.Option("--by", help="Person who decides.")] = "operator",
) -> None:
    """Turn mistakes into cases; they go live when a preview on held-out items is no worse.

    Without --verdicts and --truth, rulings that people overturned or confirmed as harmful are learnt. Every case
    passes the memory gate.
    """
    settings, person = content_policy(context), check_name(by, "by", printable=True)
    with context.open_ledger() as ledger:
        book = Casebook(ledger)
        wrong = _wrong(ledger, verdicts, truth)
        lessons = asyncio.run(curate(wrong, _writer(settings)))
        with guard_admission(context) as admit:
            intake = book.offer(lessons, f"curated from {len(wrong)} reviewed items", admit)
        rows = _sample(held_out, sample, wrong)
        seen = _preview(settings, book, intake, rows) if rows and (intake.added or intake.merged) else None
        live = bool(intake.added or intake.merged) and (force or (seen is not None and not seen.worse))
        if live:
            book.go_live(intake.version, by=person, preview=asdict(seen) if seen else None)
    body = _body(intake, wrong, seen, live)
    context.emit(body, lambda: _show(body))
    if wrong and not live:
        raise typer.Exit(EXIT_FLAGGED)


def _preview(settings: ContentSettings, book: Casebook, intake: Intake, rows: list[LabelledContent]) -> LibraryPreview:
    encoder, cache = text_embedder(), vector_cache()
    old = make_panel(settings, book.library(encoder, cache_folder=cache))
    new = make_panel(settings, book.library(encoder, intake.version, cache))
    return asyncio.run(preview(old, new, rows, settings.debate))


def _body(intake: Intake, learnt: list[FailedCase], seen: LibraryPreview | None, live: bool) -> dict[str, Any]:
    shown = {**asdict(seen), "f1_before": seen.before.f1, "f1_after": seen.after.f1} if seen else None
    refused = [{"case": r.case, "reason": r.reason, "item": r.item} for r in intake.refused]
    return {
        "failed": sum(case.ruled != case.truth for case in learnt),
        "confirmed": sum(case.ruled == case.truth for case in learnt),
        "version": intake.version,
        "added": len(intake.added),
        "merged": len(intake.merged),
        "refused": refused,
        "preview": shown,
        "live": live,
    }


def _show(body: dict[str, Any]) -> None:
    counts = f"{body['added']} new cases, {body['merged']} merged, {len(body['refused'])} refused"
    read = f"{body['failed']} failed items, {body['confirmed']} confirmed"
    console.print(f"{read}: {counts}", highlight=False)
    if body["preview"]:
        seen = body["preview"]
        console.print(
            f"preview on {seen['before']['items']} held-out items: F1 {seen['f1_before']:.3f} -> "
            f"{seen['f1_after']:.3f}, "
            f"{len(seen['mended'])} mended, {len(seen['broken'])} broken",
            highlight=False,
        )
    if body["live"]:
        console.print(f"live: {body['version']}", highlight=False)
    elif body["failed"] or body["confirmed"]:
        console.print(f"not live: {body['version']} (give --held-out, or --force to go live anyway)", highlight=False)


@family.command("cases")
@with_context()
def cases_command(
    context: CommandContext,
    version: Annotated[str | None, typer.Option("--version", help="Library version; the live one by default.")] = None,
    export: Annotated[Path | None, typer.Option("--export", help="Write the cases as JSON lines.")] = None,
) -> None:
    """List the versions of the case library, or write one to a file."""
    with context.open_ledger() as ledger:
        book = Casebook(ledger)
        cases, versions, live = book.cases(version), book.versions(), book.live
    if export is not None:
        from lazaretto.types import plain

        export.write_bytes(b"".join(orjson.dumps(plain(case)) + b"\n" for case in cases))
    rows = [
        {
            "version": v.name,
            "live": v.name == live,
            "cases": len(v.cases),
            "parent": v.parent,
            "reason": v.reason,
            "time": datetime.fromtimestamp(v.time, UTC).isoformat(timespec="seconds") if v.time else "",
            "by": v.by,
        }
        for v in versions
    ]

    def show() -> None:
        table = new_table("version", "cases", "from", "reason", "made", "put in use by")
        for row in rows:
            name = ("* " if row["live"] else "  ") + str(row["version"])
            shown = (spelled(str(row[key])) for key in ("cases", "parent", "reason", "time", "by"))
            table.add_row(name, *shown)
        print_table(table)
        if export is not None:
            print_plain(f"{len(cases)} cases written to {export}")

    context.emit({"live": live, "versions": rows, "written": len(cases) if export else 0}, show)


@family.command("rollback")
@with_context()
def rollback_command(
    context: CommandContext,
    to: Annotated[str | None, typer.Option("--to", help="Version; the live one's parent by default.")] = None,
    by: Annotated[str, typer.Option("--by", help="Person who decides.")] = "operator",
) -> None:
    """Go back to an earlier version of the case library."""
    with context.open_ledger() as ledger:
        now = Casebook(ledger).roll_back(to, by=check_name(by, "by", printable=True))
    context.emit({"live": now}, lambda: console.print(f"live: {now}", highlight=False))


@family.command("thresholds")
@with_context()
def thresholds_command(
    context: CommandContext,
    apply: Annotated[bool, typer.Option("--apply", help="Put the proposal in force.")] = False,
    revert: Annotated[int | None, typer.Option("--revert", help="Go back to a version; 0 is as shipped.")] = None,
    by: Annotated[str, typer.Option("--by", help="Person who decides.")] = "operator",
) -> None:
    """The line between warn and review by people's labels, and the line in force.

    Without an option nothing changes: the difference is shown. The policy's table [learn] has the bounds.
    """
    if apply and revert is not None:
        raise InputError("revert", "stands beside --apply", "Give one of them")
    with context.open_ledger() as ledger:
        book = Thresholds(ledger, context.policy.learn)
        before = book.versions()[-1]
        proposed = dict(before.cuts) if revert is not None else calibrate(ledger, context.policy.learn)
        after = before
        if revert is not None:
            after = book.revert(revert, by=by)
            proposed = dict(after.cuts)
        elif apply and proposed != before.cuts:
            after = book.set(proposed, by=by)
        versions = [{"version": version.number, "by": version.by} for version in book.versions()]
    rows = [
        {"gate": gate, "now": before.cuts.get(gate, Cut()), "then": proposed.get(gate, Cut())}
        for gate in sorted({*before.cuts, *proposed})
    ]
    body = {"in_force": after.number, "was": before.number, "changes": rows, "versions": versions}

    def show() -> None:
        table = new_table("gate", "clears up to", "asks from", "labels")
        for row in rows:
            now, then = row["now"], row["then"]
            assert isinstance(now, Cut) and isinstance(then, Cut)
            asks = f"{_number(now.reviews_from)} -> {_number(then.reviews_from)}"
            clears = f"{_number(now.clears_up_to or None)} -> {_number(then.clears_up_to or None)}"
            table.add_row(str(row["gate"]), clears, asks, str(then.labels))
        if rows:
            print_table(table)
        else:
            console.print("people's labels ask for no change", highlight=False)
        console.print(f"in force: version {after.number}", highlight=False)
        if after is before and proposed != before.cuts:
            console.print("put it in force with: lazaretto learn thresholds --apply", highlight=False)

    context.emit(body, show)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
