"""``lazaretto trace | contacts``: an item's lineage and reach, and contacts of agents."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lazaretto.cli.common import console, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError, UnknownItem
from lazaretto.incidents.incidents import Incidents
from lazaretto.incidents.shown_texts import shown_texts
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.drawing import pictures
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.drawing.subgraph import Subgraph
from lazaretto.provenance.graph import ProvenanceGraph

SHOWN = 20
"""Rows of each list that the text view prints."""


class Format(StrEnum):
    """The format of a trace."""

    TEXT = "text"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


def clock(time: float) -> str:
    """A time as people read it, in UTC."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{time:g}"


def moment(text: str | None, field: str) -> float | None:
    """A time from the command line: seconds since the epoch, or a date with or without a time (UTC)."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(field, f"{text!r} is not a time", "Use 2026-11-15, 2026-11-15T09:30 or seconds") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _texts(ledger: Ledger, graph: ProvenanceGraph, item: str, limit: int) -> dict[str, str]:
    names = [node.id for node in graph.subgraph(item, limit=limit).nodes if node.kind == "item"]
    return shown_texts(ledger, names, picture="")


def _report(graph: ProvenanceGraph, item: str, policy: Policy, history: bool) -> dict[str, Any]:
    return {
        "item": item,
        "lineage": graph.lineage(item),
        "blast_radius": graph.blast_radius(item, history=history),
        "patient_zero": graph.patient_zero([item]),
        "trust": graph.trust(item, policy.trust.table()),
    }


def _incident(ledger: Ledger, graph: ProvenanceGraph, item: str) -> dict[str, str] | None:
    """The incident that an item belongs to, and its patient zero; None without one."""
    try:
        found = Incidents(ledger, graph).one(item)
    except UnknownItem:
        return None
    return {"id": found.id, "patient_zero": found.patient_zero}


def _rows(title: str, rows: Any, texts: dict[str, str]) -> Table:
    table = Table(title=f"{title} ({len(rows)})", title_justify="left", box=None, pad_edge=False)
    table.add_column("hops", justify="right", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("id", overflow="fold", min_width=28)  # a whole id, while there is room for it
    table.add_column("text", overflow="ellipsis", no_wrap=True)
    for row in rows[:SHOWN]:
        # Text, not str: an id must not be read as markup, nor send control codes to the terminal
        words = Text(showable(texts.get(row.id, ""), 60))
        table.add_row(str(row.hops), clock(row.time), Text(showable(row.id)), words)
    if len(rows) > SHOWN:
        table.add_row("", "", Text(f"... {len(rows) - SHOWN} more: use --json"), "")
    return table


def _show(report: dict[str, Any], texts: dict[str, str]) -> None:
    zero, trust, radius = report["patient_zero"], report["trust"], report["blast_radius"]
    lines = (
        ("item", report["item"], texts.get(report["item"], "")),
        (
            "patient zero",
            zero.item,
            f"by {zero.agent or 'unknown'}, {clock(zero.time)} UTC: {texts.get(zero.item, '')}",
        ),
        ("trust", f"{trust.value:g}", "set by " + " <- ".join(trust.path)),
    )
    for name, value, more in lines:
        console.print(Text.assemble((f"{name:<13}", "bold"), showable(value), "  ", (showable(more, 100), "dim")))
    incident = report["incident"]
    if incident is not None and incident["patient_zero"] != zero.item:
        words = f"{incident['id']} begins at {incident['patient_zero']}"
        why = "the first that carried what was found; patient zero above is the first of all that it came from"
        console.print(Text.assemble((f"{'incident':<13}", "bold"), showable(words), "  ", (why, "dim")))
    for title, rows in (
        ("came from", report["lineage"].items),
        ("reached items", radius.items),
        ("reached agents", radius.agents),
        ("touched decisions", radius.decisions),
    ):
        if len(rows):
            console.print()
            print_table(_rows(title, rows, texts))


def _write(subgraph: Subgraph, style: Format, out: Path | None) -> None:
    """Put a drawing into a file, or on standard output as it is."""
    try:
        if out is not None and out.suffix == ".png":
            out.write_bytes(pictures.to_png(subgraph))
        elif out is not None:
            out.write_text(pictures.draw(subgraph, style), encoding="utf-8")
        else:
            typer.echo(pictures.draw(subgraph, style), nl=False)
    except OSError as error:
        raise InputError("out", f"cannot write {str(out)!r}: {error.strerror}", "Choose another place") from None


@with_context()
def trace(
    context: CommandContext,
    item: Annotated[str, typer.Argument(help="Id of an item or decision.")],
    style: Annotated[Format | None, typer.Option("--format", help="How to write it; --out x.svg implies svg.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a drawing here; .svg and .png need the plot extra.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Include links that repairs have stopped.")] = False,
    limit: Annotated[int, typer.Option(help="Most items in a drawing, nearest first.")] = 120,
) -> None:
    """Show an item's lineage and reach, or draw it."""
    kinds = {".json": Format.JSON, ".dot": Format.DOT, ".gv": Format.DOT, ".mmd": Format.MERMAID}
    if style is None and out is not None:
        style = kinds.get(out.suffix, Format.SVG)
    with context.open_ledger(create=False) as ledger:
        graph = ProvenanceGraph(ledger, context.policy.trust.table())
        texts = _texts(ledger, graph, item, limit)
        if style is not None and style is not Format.TEXT:
            _write(graph.subgraph(item, limit=limit, texts=texts), style, out)
            if out is None:
                return
            context.emit({"written": str(out)}, lambda: console.print(f"wrote {out}", markup=False))
            return
        report = _report(graph, item, context.policy, history)
        report["incident"] = _incident(ledger, graph, item)
        context.emit(report, lambda: _show(report, texts))


@with_context()
def contacts(
    context: CommandContext,
    agent: Annotated[str, typer.Argument(help="Name of an agent.")],
    since: Annotated[str | None, typer.Option(help="First moment: a date and time (UTC) or seconds.")] = None,
    until: Annotated[str | None, typer.Option(help="Last moment: a date and time (UTC) or seconds.")] = None,
) -> None:
    """List contacts of an agent: whom it read and who read it."""
    with context.open_ledger(create=False) as ledger:
        met = ProvenanceGraph(ledger).contacts(agent, moment(since, "since"), moment(until, "until"))

    def show() -> None:
        if not met:
            print_plain(f"{showable(agent, 40)} has read nobody, and nobody has read {showable(agent, 40)}")
            return
        table = Table(title=f"contacts of {showable(agent, 40)} ({len(met)})", title_justify="left", box=None)
        for column in ("time (UTC)", "direction", "agent", "item"):
            table.add_column(column, overflow="fold")
        for contact in met:
            way = "read what it wrote" if contact.direction == "in" else "was read by"
            table.add_row(clock(contact.time), way, Text(showable(contact.agent)), Text(showable(contact.item)))
        print_table(table)

    context.emit({"agent": agent, "contacts": met}, show)
