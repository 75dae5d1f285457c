"""``lazaretto incidents``, ``incident show`` and ``held``: incidents, and items that wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.actions import show_asked
from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.repair import show_proposal, show_proposed, texts_of
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.gates.memory.claims.conflicts import conflicts_of, quoted
from lazaretto.guard.sync_guard import SyncGuard
from lazaretto.incidents.observed import ObservedLog
from lazaretto.incidents.records import HeldItem, Incident
from lazaretto.incidents.report import moment, to_html, to_json, to_markdown, to_sarif
from lazaretto.provenance.drawing.labels import showable
from lazaretto.types import EventKind, Ruling

family = typer.Typer(help="Show one incident.", no_args_is_help=True)
FORMATS = ("markdown", "html", "json", "sarif")
ENDINGS = {".md": "markdown", ".html": "html", ".json": "json", ".sarif": "sarif"}
SHOWN_WHOLE = 3
"""Proposals whose difference 'held' works out; the others are named."""
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Most rows to show.")]


@with_context()
def incidents(
    context: CommandContext,
    state: Annotated[str | None, typer.Option("--state", help="open, contained or cleared.")] = None,
    limit: LimitOption = 50,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Write them all as SARIF 2.1.0 to this file.")] = None,
) -> None:
    """Incidents: findings that belong together are one incident. Exit code 1 while any is open."""
    with context.open_guard(create=False) as guard:
        found = guard.incidents.all(state, limit=limit)  # type: ignore[arg-type]  # any other word is an InputError
    if sarif is not None:
        _write(sarif, to_sarif(found))

    def show() -> None:
        if not found:
            console.print("no incidents" + (f" that are {state}" if state else ""), highlight=False)
            return
        table = new_table("incident", "state", "patient zero", "brought by", "items", "agents", "decisions", "found")
        for incident in found:
            alarm = " (false alarm)" if incident.false_alarm else ""
            counts = (len(incident.items), len(incident.agents), len(incident.decisions))
            cells = (
                incident.id,
                incident.state + alarm,
                incident.patient_zero,
                showable(incident.brought_by, 40),
                *map(str, counts),
            )
            table.add_row(*cells, moment(incident.found))
        print_table(table)
        print_plain(f"look closer:  lazaretto incident show {found[0].id}")

    context.emit(found, show)
    if any(incident.state == "open" for incident in found):
        raise typer.Exit(EXIT_FLAGGED)


@family.command("show")
@with_context()
def show_incident(
    context: CommandContext,
    incident: Annotated[str, typer.Argument(help="Id of the incident, or of an item that was found in it.")],
    style: Annotated[str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a file; its ending names the format.")] = None,
) -> None:
    """The report of one incident: items, agents, decisions, reproduction number, rulings, repairs."""
    chosen = style or (ENDINGS.get(out.suffix, "") if out is not None else "json" if context.as_json else "markdown")
    if chosen not in FORMATS:
        raise InputError("format", f"{chosen!r} is not known", f"Use {', '.join(FORMATS)}")
    with context.open_guard(create=False) as guard:
        found = guard.incidents.one(incident)
        text = report(found, chosen, guard)
    if out is None:
        typer.echo(text, nl=False)
        return
    _write(out, text)
    context.emit(
        {"incident": found.id, "state": found.state, "written": str(out)},
        lambda: print_plain(f"{found.id} ({found.state}) in {out}"),
    )


def report(incident: Incident, style: str, guard: SyncGuard) -> str:
    """The report in one of ``FORMATS``."""
    if style == "html":
        texts = {item.id: item.text or "picture" for item in (*incident.items, *incident.reached)}
        texts |= {decision.id: decision.what for decision in incident.decisions}
        infected = [*(item.id for item in incident.items), *(decision.id for decision in incident.decisions)]
        return to_html(incident, guard.graph.subgraph(incident.patient_zero, infected=infected, texts=texts, limit=60))
    if style == "sarif":
        return to_sarif([incident])
    return to_json(incident) if style == "json" else to_markdown(incident)


@with_context()
def held(
    context: CommandContext,
    limit: LimitOption = 50,
    would: Annotated[
        bool, typer.Option("--would", help="What a policy in mode observe would have held, until you give it a word.")
    ] = False,
) -> None:
    """Items that wait for a person, disputed rulings first, and how to settle them; then calls of tools and repairs."""
    if would:
        _show_would(context, limit)
        return
    with context.open_guard(create=False) as guard:
        found = guard.held(limit=limit)
        waiting = () if context.as_json else guard.repairs.proposals()
        calls = () if context.as_json else guard.approvals.waiting()
        proposed = [guard.repairs.proposal(proposal.id) for proposal in waiting[:SHOWN_WHOLE]]
        texts = {shown.proposal.id: texts_of(shown, guard.ledger) for shown in proposed}
        against = {} if context.as_json else _against(guard, [item.id for item in found])
        disputes = _disputes(guard, [item.id for item in found if item.appealed])

    def show() -> None:
        if not found and not waiting and not calls:
            console.print("nothing waits for a person", highlight=False)
        for item in found:
            disputed = " (disputed)" if item.appealed else ""
            text = showable(item.text, 160) or "a picture"
            console.print(
                f"{item.id} {item.ruling}{disputed} by {item.rule}, risk {item.risk:.2f}{_times(item)}", highlight=False
            )
            print_plain(f"  {showable(item.agent, 60)}, {moment(item.since)}: {text}")
            for reason in item.reasons[:1]:
                print_plain(f"  why: {showable(reason, 200)}")
            for who, why in disputes.get(item.id, ()):
                print_plain(f"  disputed by {showable(who, 60)}: {showable(why, 200)}")
            for contradicted in against.get(item.id, ()):
                print_plain(f"  contradicts {showable(contradicted, 240)}")
            settle = f"lazaretto release {item.id} --by YOU   or   lazaretto label {item.id} harmful --by YOU"
            if item.ruling == Ruling.REWRITE.label:
                settle = (
                    f"a part of it was removed; lazaretto ledger erase {item.id} --reason WHY, or, if nothing in it "
                    f"has to be hidden, lazaretto label {item.id} benign --by YOU"
                )
                if item.copies:
                    settle += f"; erase each: {', '.join(item.copies)} too"
            print_plain(f"  {settle}")
        for call in calls:
            show_asked(call)
        for repair in proposed:
            show_proposed(repair, texts[repair.proposal.id], most=10)
        for other in waiting[SHOWN_WHOLE:]:
            show_proposal(other)

    context.emit(found, show)


def _times(item: HeldItem) -> str:
    return f", {len(item.copies) + 1} times: one decision settles all" if item.copies else ""


def _show_would(context: CommandContext, limit: int) -> None:
    with context.open_ledger(create=False) as ledger:
        found = ObservedLog(ledger).would(limit)

    def show() -> None:
        if not found:
            console.print("nothing that only the mode observe let through waits for a word", highlight=False)
        for item in found:
            text = showable(item.text, 160) or "a picture"
            console.print(
                f"{item.id} {item.ruling} by {item.rule}, risk {item.risk:.2f}{_times(item)}", highlight=False
            )
            print_plain(f"  {showable(item.agent, 60)}, {moment(item.since)}: {text}")
            for reason in item.reasons[:1]:
                print_plain(f"  why: {showable(reason, 200)}")
            words = f"lazaretto label {item.id} benign --by YOU   or   lazaretto label {item.id} harmful --by YOU"
            print_plain(f"  {words}")

    context.emit(found, show)


def _against(guard: SyncGuard, items: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The items that each item contradicts, in words: a user who can open the store may see both."""
    trust = guard.policy.trust.table()
    found = conflicts_of(guard.ledger, items) if items else {}
    return {item: quoted(others, guard.ledger, trust) for item, others in found.items()}


def _disputes(guard: SyncGuard, items: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """The people who dispute each ruling, with their reasons."""
    found: dict[str, list[tuple[str, str]]] = {}
    for event in guard.ledger.events_about(items, (EventKind.APPEALED,)) if items else ():
        body = event.body or {}
        found.setdefault(event.subject, []).append((str(body.get("by", "")), str(body.get("reason", ""))))
    return found


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError("out", f"{path} cannot be written ({error.strerror})", "Choose another place") from None
