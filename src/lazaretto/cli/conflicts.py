"""``lazaretto conflicts``: pairs of memories that contradict each other, and which of them holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lazaretto.cli.common import console, new_table, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.gates.memory.claims.conflicts import Conflict, open_conflicts, scan
from lazaretto.ledger import Ledger
from lazaretto.policy import read_settings
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import plain

_QUOTED = 120


@with_context()
def conflicts(
    context: CommandContext,
    keep: Annotated[str | None, typer.Option("--keep", help="The item of a pair that stays in use.")] = None,
    over: Annotated[str | None, typer.Option("--over", help="The item of a pair that is replaced.")] = None,
    by: Annotated[str, typer.Option("--by", help="Person who decides.")] = "operator",
    scan_all: Annotated[
        bool, typer.Option("--scan", help="Compare all memories first: for stores that were filled without the gate.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Pairs to list.")] = 50,
) -> None:
    """List pairs of memories that contradict each other, strongest first; or settle one: --keep ID --over ID."""
    if (keep is None) != (over is None):
        raise InputError("keep", "a pair has two items", "Give both: --keep ID --over ID")
    if keep is not None and over is not None:
        with context.open_guard(create=False) as guard:
            guard.settle(keep, over=over, by=by)
        context.emit({"kept": keep, "ended": over}, lambda: console.print(f"{keep} holds, {over} is replaced by it"))
        return
    with context.open_ledger(create=False) as ledger:
        if scan_all:
            scan(ledger, _judge(context))
        pairs = open_conflicts(ledger)[:limit]
        rows = [_row(pair, ledger, ProvenanceGraph(ledger), context) for pair in pairs]
    context.emit(rows, lambda: _show(rows))


def _judge(context: CommandContext) -> Any:
    from lazaretto.gates.memory.claims.judge import ClaimJudge
    from lazaretto.gates.memory.gate import MemorySettings

    settings = read_settings(MemorySettings, context.policy.gates.get("memory", {}), key="gates.memory").claims
    return ClaimJudge(settings.rule(), settings.little_trust)


def _row(pair: Conflict, ledger: Ledger, graph: ProvenanceGraph, context: CommandContext) -> dict[str, Any]:
    trust = context.policy.trust.table()
    row: dict[str, Any] = {"strength": round(pair.strength, 3), "sensitive": pair.sensitive}
    for side, item in (("new", pair.new), ("old", pair.old)):
        seen = ledger.item(item)
        row[side] = {
            "id": item,
            "agent": seen.agent,
            "source": plain(seen.source),
            "trust": graph.trust(item, trust).value,
            "held": item in pair.held,
            "text": seen.text,
        }
    return row


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        console.print("no memories are known to contradict each other")
        return
    table = new_table("strength", "memory", "by", "trust", "stands", "text")
    for row in rows:
        for side in ("new", "old"):
            memory = row[side]
            strength = f"{row['strength']:.2f}{' !' if row['sensitive'] else ''}" if side == "new" else ""
            table.add_row(
                strength, memory["id"], memory["agent"], f"{memory['trust']:.2g}",
                "held" if memory["held"] else "in use", memory["text"][:_QUOTED],
            )  # fmt: skip
        table.add_section()
    print_table(table)
    console.print("settle a pair with: lazaretto conflicts --keep ID --over ID   (! moves money, access or safety)")
