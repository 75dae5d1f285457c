"""``lazaretto drill``: four threats at once, undefended and defended, through the guard as it is installed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lazaretto import Guard, SyncGuard
from lazaretto.cli.common import EXIT_FLAGGED, JsonFlag, console, emit, errors, plain_errors
from lazaretto.cli.incidents import report
from lazaretto.files import write_file
from lazaretto_lab.studies.drill.run import DrillResult, as_json, drill
from lazaretto_lab.studies.drill.scripted import calibration
from lazaretto_lab.studies.drill.tables import NAMES, load, markdown, plot, save

MADE = ("drill.db*", "results/*.json", "incident-*.html", "table.md", "drill_spread.*")
"""What a drill writes into its folder; the next one begins without it."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("drill")(drill_command)


@plain_errors
def drill_command(
    seed: Annotated[int, typer.Option("--seed", min=0, help="The (first) seed: it chooses the threats.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds, counting up.")] = 1,
    store: Annotated[
        str | None, typer.Option("--store", help="Store URL; default: a fresh SQLite file in the output folder.")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Policy file; default: what is installed.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for reports, plot and results.")] = Path(
        "runs/drill"
    ),
    json: JsonFlag = False,
) -> None:
    """A crew with shared memory and albums meets a text worm, a poisoned fact, a virus picture and a harmful post.

    Each seed is played without any defence and with the guard as it is installed. Exit code 1 when anything planted was
    not found, traced, repaired and kept out, or too much that is honest was lost.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in (found for pattern in MADE for found in out.glob(pattern)):
        old.unlink()
    where = store or f"sqlite:///{out / 'drill.db'}"
    results = [asyncio.run(_one(where, number, out, policy)) for number in range(seed, seed + seeds)]
    rows = load(out / "results")
    write_file(out / "table.md", markdown(rows))
    plot(rows, out / "drill_spread.svg")
    plot(rows, out / "drill_spread.png")

    def show() -> None:
        for result in results:
            console.print(_table(result), soft_wrap=False)
        console.print(f"reports: {out}/incident-*.html, plot: {out}/drill_spread.svg, table: {out}/table.md")
        console.print(f"look further: lazaretto incidents --store {where} -n drill-{seed}", highlight=False)

    emit([as_json(result) for result in results], json, show)
    if not all(result.passed for result in results):
        raise typer.Exit(EXIT_FLAGGED)


async def _one(store: str, seed: int, out: Path, policy: str | None) -> DrillResult:
    known = await calibration()

    def progress(number: int, text: str) -> None:
        errors.print(f"  seed {seed}, round {number + 1}, agents that fell for it: {text}", highlight=False)

    result = await drill(store, seed, known, progress, policy)
    save(out / "results", as_json(result))
    await asyncio.to_thread(_reports, store, seed, out)
    return result


def _reports(store: str, seed: int, out: Path) -> None:
    """The report of every incident, as pages; the crew's own gates are not needed for reading."""
    with SyncGuard(Guard.open(store, {"channels": {}}, f"drill-{seed}")) as guard:
        for incident in guard.incidents.all():
            write_file(out / f"incident-{seed}-{incident.id}.html", report(incident, "html", guard))


def _table(result: DrillResult) -> Table:
    table = Table(title=f"seed {result.seed} on {result.store}", title_justify="left")
    for name in ("threat", "undefended", "defended", "found by", "in round", "traced", "repaired", "came back"):
        table.add_column(name)
    for one in result.threats:
        cells: list[Any] = [
            NAMES[one.threat], f"{one.undefended} of 8 agents", f"{one.defended} of 8", one.found_by,
            "-" if one.found_in is None else one.found_in + 1, _yes(one.traced), _yes(one.repaired),
            f"{one.came_back} of {one.tries}",
        ]  # fmt: skip
        table.add_row(*map(str, cells))
    kept = f"{result.kept} of {result.honest} honest items in use, {result.released} released by the desk on the way"
    table.caption = f"{kept}; {result.incidents} incidents; {result.seconds:.0f} s"
    return table


def _yes(done: bool) -> str:
    return "yes" if done else "NO"
