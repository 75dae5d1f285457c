"""``lazaretto tune``: fewer false alarms, from recorded rulings and people's labels."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.learn.tuning import FEWEST, Counts, Tuner, Tuning, draw, judged_items
from lazaretto.policy import Policy
from lazaretto.policy.written_out import edited
from lazaretto.types import plain


@with_context()
def tune(
    context: CommandContext,
    target: Annotated[
        float, typer.Option("--target", min=0.0, max=0.5, help="Share of honest items that may be held.")
    ] = 0.01,
    days: Annotated[float, typer.Option("--days", min=0.0, help="Only what came in the last days; 0: all.")] = 0.0,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw it: an SVG file.")] = None,
    write: Annotated[Path | None, typer.Option("--write", help="Write the policy with the advised settings.")] = None,
) -> None:
    """Counts what other rates would have held of the judged items, and finds the nearest that holds fewer honest items.

    Nothing is read again: it counts from the numbers that rulings keep. An item that nobody called harmful counts as
    honest, so label held items first (lazaretto held, or held --would). No advice loses a finding.
    """
    found = _tuned(context, target, days)
    if plot is not None:
        _save(plot, draw(found, target), "plot")
    written = _written(context, found, write) if write is not None else {}
    context.emit({**_body(found, target), **written}, lambda: _show(found, target, plot, write))
    if not found.advice.reached:
        raise typer.Exit(EXIT_FLAGGED)


def _tuned(context: CommandContext, target: float, days: float) -> Tuning:
    with context.open_ledger(create=False) as ledger:
        items = judged_items(ledger, time.time() - days * 86_400 if days else 0.0)
        if len(items) < FEWEST:
            advice = 'Let it run for a while, mode = "observe" if you like'
            raise InputError("history", f"only {len(items)} items were judged; {FEWEST} are needed", advice)
        return Tuner(items, context.policy, Thresholds(ledger, context.policy.learn)).tune(target)


def _written(context: CommandContext, found: Tuning, to: Path) -> dict[str, Any]:
    """Write the policy; refused where nothing says what would be missed."""
    if not found.findings:
        words = "nobody called any item harmful, so nothing tells what milder settings would miss"
        raise InputError("write", words, "Label some first: lazaretto label ITEM harmful --by YOU")
    before = (
        Path(context.policy_file).read_text(encoding="utf-8")
        if context.policy_file
        else f'preset = "{context.policy.preset}"\n'
    )
    text = edited(before, {(f"gates.{gate}", name): value for (gate, name), value in found.advice.changes.items()})
    _save(to, text, "write")
    Policy.load(to)  # the written file must be a policy
    return {"written": str(to)}


def _save(path: Path, text: str, field: str) -> None:
    try:
        write_file(path, text.encode("utf-8"))
    except OSError as error:
        raise InputError(field, f"{path} cannot be written ({error.strerror})", "Choose another place") from None


def _body(found: Tuning, target: float) -> dict[str, Any]:
    def with_share(counts: Counts) -> dict[str, Any]:
        return {**plain(counts), "honest_share": round(found.rate(counts), 6)}

    return {
        "target": target,
        "items": found.honest + found.findings,
        "honest": found.honest,
        "findings": found.findings,
        "ruled_otherwise_today": found.differing,
        "honest_held_without_rate": dict(found.without_rate),
        "now": with_share(found.now),
        "rows": [
            {"gate": r.gate, "setting": r.setting, "value": r.value, "now": r.now, **with_share(r.counts)}
            for r in found.rows
        ],
        "advice": {
            "reached": found.advice.reached,
            "changes": {f"gates.{gate}.{name}": value for (gate, name), value in found.advice.changes.items()},
            **with_share(found.advice.counts),
        },
    }


def _show(found: Tuning, target: float, plot: Path | None, write: Path | None) -> None:
    console.print(
        f"{found.honest + found.findings:,} items were judged; people called {found.findings:,} harmful",
        highlight=False,
    )
    if found.differing:
        console.print(f"{found.differing:,} would be ruled otherwise today than they were", highlight=False)
    table = new_table("gate", "setting", "value", "honest held", "share", "findings held", "not sure")
    for row in found.rows:
        numbers = (row.counts.honest, f"{found.rate(row.counts):.2%}", f"{row.counts.findings} of {found.findings}")
        named = f"{row.value:g}" + (" (now)" if row.now else "")
        table.add_row(row.gate, row.setting, named, *map(str, numbers), str(row.counts.unsure))
    print_table(table)
    advice = found.advice
    console.print(f"now: {_counts_line(found, found.now)}", highlight=False)
    if advice.changes:
        console.print(f"advised: {_counts_line(found, advice.counts)}", highlight=False)
    for (gate, name), value in advice.changes.items():
        print_plain(f"  [gates.{gate}] {name} = {value:g}")
    if not advice.reached:
        console.print(f"no rates hold at most {target:.2%} without losing a finding", highlight=False)
        for rule, number in found.without_rate[:5]:
            print_plain(f"  {number} honest items are held by {rule} at any rates")
    elif not advice.changes:
        console.print(f"that is within {target:.2%}: nothing to change", highlight=False)
    for path in (plot, write):
        if path is not None:
            print_plain(f"written: {path}")
    if write is None and advice.changes:
        console.print("take it:  lazaretto tune --write policy.toml", highlight=False)


def _counts_line(found: Tuning, counts: Counts) -> str:
    unsure = f", {counts.unsure} only reading again could tell" if counts.unsure else ""
    kept = f"{counts.findings} of {found.findings} findings"
    return f"{counts.honest} honest items held ({found.rate(counts):.2%}), {kept}{unsure}"
