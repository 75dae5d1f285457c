"""``lazaretto bench``: run experiments, and draw tables and plots from what they left."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    EXIT_INTERRUPTED,
    JsonFlag,
    console,
    emit,
    errors,
    plain_errors,
    print_table,
)
from lazaretto.errors import InputError
from lazaretto_lab.harness import pages as bench_pages
from lazaretto_lab.harness import plots as bench_plots
from lazaretto_lab.harness import tables
from lazaretto_lab.harness.context import Outcome, UnitResult
from lazaretto_lab.harness.experiment import Experiment, Unit, available, experiment_folder, load_experiment, units
from lazaretto_lab.harness.results import PACKED, ResultFolder
from lazaretto_lab.harness.run import RunCallbacks, RunOptions, run_experiment
from lazaretto_lab.harness.runners import ESTIMATES, find_estimate
from lazaretto_lab.harness.shelf import Shelf
from lazaretto_lab.studies.published import TABLES

Name = Annotated[str, typer.Argument(help="family/name, a unique name, or the path of a .toml file.")]
Experiments = Annotated[
    Path | None,
    typer.Option(
        "--experiments",
        help="Folder of experiments. Default: $LAZARETTO_EXPERIMENTS, ./experiments, the studies that ship.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder of results.")]
Seeds = Annotated[
    int | None, typer.Option("--seeds", help="First so many seeds of each row. Default: as the file says.")
]

COLOURS = {Outcome.HELD: "green", Outcome.BREACHED: "red", Outcome.VOID: "yellow"}


def register(app: typer.Typer) -> None:
    """Add the family to the application."""
    bench = typer.Typer(help="Experiments: run, table, plot.", no_args_is_help=True)
    bench.command("list")(list_)
    bench.command("run")(run)
    bench.command("table")(table)
    bench.command("plot")(plot)
    bench.command("pages")(pages)
    bench.command("shelf")(shelf)
    bench.command("pack")(pack)
    app.add_typer(bench, name="bench")


@plain_errors
def list_(
    experiments: Experiments = None,
    out: Out = Path("runs"),
    json: JsonFlag = False,
) -> None:
    """All experiments, and how much of each has run."""
    folder = experiment_folder(experiments)
    rows = []
    for name in available(folder):
        experiment = load_experiment(name, folder)
        results = ResultFolder(out, experiment.name)
        work = {unit.key for unit in units(experiment)}
        done = len(work & results.finished())
        rows.append({"name": name, "title": experiment.title, "units": len(work), "finished": done})

    def show() -> None:
        view = RichTable("experiment", "title", "finished", title=f"experiments in {folder}")
        for row in rows:
            view.add_row(str(row["name"]), escape(str(row["title"])), f"{row['finished']}/{row['units']}")
        console.print(view, soft_wrap=False)

    emit(rows, json, show)


@plain_errors
def run(
    name: Name,
    seeds: Seeds = None,
    rows: Annotated[str, typer.Option("--rows", help="Only rows with this text in their name.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only so many items a row (debates).")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes (or Ray workers) at once.")] = 1,
    ray: Annotated[bool, typer.Option("--ray", help="Spread the work over Ray.")] = False,
    out: Out = Path("runs"),
    retry_void: Annotated[bool, typer.Option("--retry-void", help="Do units again that ended void.")] = False,
    experiments: Experiments = None,
    json: JsonFlag = False,
) -> None:
    """Do what is not done yet. Interrupt it at any time and run it again to go on. Exit code 1 when a unit is void."""
    sys.path.insert(0, str(Path.cwd()))  # so that a runner of your own, named module:function, is found
    experiment = load_experiment(name, experiments)
    if limit is not None:
        find_estimate(experiment.runner)
        experiment = experiment.limited(limit)
    options = RunOptions(out, seeds, rows, workers, ray, retry_void)
    _say_the_price(experiment, options)
    screen = _Screen(experiment.name, quiet=json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to stop ends the workers too
    try:
        with screen.progress:
            outcomes = run_experiment(experiment, options, screen.callbacks())
    except KeyboardInterrupt:
        errors.print(f"interrupted; what was finished is kept. Run it again to go on: lazaretto bench run {name}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    counts = {outcome.value: outcomes[outcome] for outcome in Outcome}

    def show() -> None:
        words = ", ".join(f"[{COLOURS[o]}]{counts[o.value]} {o.value}[/]" for o in Outcome)
        console.print(f"{experiment.name}: {words}. Table: lazaretto bench table {escape(name)}")
        for reason, times in screen.voids.items():
            console.print(f"[yellow]void[/] {times} times: {escape(reason)}")

    emit({"experiment": experiment.name, "outcomes": counts, "void_reasons": screen.voids}, json, show)
    if outcomes[Outcome.VOID]:
        raise typer.Exit(EXIT_FLAGGED)


def _say_the_price(experiment: Experiment, options: RunOptions) -> None:
    """What the units that are not finished will ask of language models, before anything is asked."""
    if experiment.runner not in ESTIMATES:
        return
    estimate, results = find_estimate(experiment.runner), ResultFolder(options.out, experiment.name)
    work = {unit.key: unit for unit in units(experiment, options.seeds) if options.rows in unit.row}
    finished = results.finished()
    left = [unit for key, unit in work.items() if key not in finished]
    prices = [estimate(unit.settings, unit.seed) for unit in left]
    items, calls = sum(price[0] for price in prices), sum(price[1] for price in prices)
    if calls:
        errors.print(
            f"to do: {len(left)} units, {items} debates, up to {calls} calls of a language model", markup=False
        )


class _Screen:
    """The moving picture of a run: one bar for all units, one line for each in flight."""

    def __init__(self, title: str, quiet: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=errors,
            disable=quiet,
        )
        self._all = self.progress.add_task(title, total=None, note="")
        self._lines: dict[str, TaskID] = {}
        self.voids: dict[str, int] = {}

    def callbacks(self) -> RunCallbacks:
        """What the runner should call."""
        return RunCallbacks(self._started, self._unit_done, self._unit_progress)

    def _started(self, finished: int, total: int) -> None:
        self.progress.update(self._all, total=total, completed=finished)

    def _unit_done(self, result: UnitResult) -> None:
        if line := self._lines.pop(result.unit, None):
            self.progress.remove_task(line)
        if result.outcome is Outcome.VOID:
            self.voids[result.reason] = self.voids.get(result.reason, 0) + 1
        self.progress.update(self._all, advance=1)

    def _unit_progress(self, unit: Unit, share: float, note: str) -> None:
        if not share and not note:
            return
        if unit.key not in self._lines:
            self._lines[unit.key] = self.progress.add_task(
                f"  {escape(unit.row)} · seed {unit.seed}", total=100, note=""
            )
        self.progress.update(self._lines[unit.key], completed=int(100 * share), note=escape(note))


@plain_errors
def table(
    name: Name,
    format: Annotated[str, typer.Option("--format", help="rich, markdown, csv or json.")] = "rich",
    seeds: Seeds = None,
    out: Out = Path("runs"),
    experiments: Experiments = None,
    json: JsonFlag = False,
) -> None:
    """Mean and 95 % interval over seeds, and what became of the expectations. Exit code 1 when one is not held."""
    if format not in ("rich", "markdown", "csv", "json"):
        raise InputError("format", f"{format!r} is not a format", "Use rich, markdown, csv or json")
    experiment = load_experiment(name, experiments)
    made = tables.make_table(experiment, tables.load_results(experiment, out, seeds))
    if format in ("markdown", "csv"):
        sys.stdout.write(tables.as_markdown(made) if format == "markdown" else tables.as_csv(made))
    else:
        emit(tables.as_data(made), json or format == "json", lambda: _show_table(made))
    if any(c.outcome is not Outcome.HELD for c in made.checks):
        raise typer.Exit(EXIT_FLAGGED)


def _show_table(made: tables.ResultTable) -> None:
    view = RichTable(title=made.title)
    for place, heading in enumerate(tables.headings(made)):
        view.add_column(heading, justify="left" if place < 2 else "right")
    for line in tables.lines(made):
        view.add_row(*line)
    print_table(view)
    for row in made.rows:
        for reason in row.reasons:
            console.print(f"[yellow]void[/] in {escape(row.name)}: {escape(reason)}")
    for checked in made.checks:
        console.print(f"[{COLOURS[checked.outcome]}]{checked.outcome.value:9}[/]{escape(tables.check_words(checked))}")


@plain_errors
def plot(
    name: Name,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder for the pictures. Default: beside the results.")
    ] = None,
    seeds: Seeds = None,
    out: Out = Path("runs"),
    experiments: Experiments = None,
    json: JsonFlag = False,
) -> None:
    """Draw the experiment's figures as SVG and PNG."""
    experiment = load_experiment(name, experiments)
    if not experiment.plots:
        raise InputError("plots", f"{experiment.name} names no plots", "Add a [[plots]] table to its file")
    results = tables.load_results(experiment, out, seeds)
    folder = to or ResultFolder(out, experiment.name).path
    stem = experiment.name.split("/")[-1]
    written = [
        str(path)
        for figure in experiment.plots
        for path in bench_plots.draw(experiment, figure, results, folder / f"{stem}_{figure.name}")
    ]
    emit({"files": written}, json, lambda: console.print("\n".join(escape(path) for path in written)))


@plain_errors
def pages(
    docs: Annotated[Path, typer.Option("--docs", help="Folder of pages.")] = Path("docs"),
    out: Out = Path("lab/results"),
    json: JsonFlag = False,
) -> None:
    """Make every marked table of the pages anew from stored results."""
    if not docs.is_dir():
        raise InputError("docs", f"no folder {docs}", "Run it in a checkout, or name the folder with --docs")
    changed = []
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = bench_pages.rewrite(text, TABLES, out)
        if made != text:
            page.write_text(made, encoding="utf-8")
            changed.append(str(page))
    emit({"changed": changed}, json, lambda: console.print("\n".join(changed) or "every table is as stored"))


@plain_errors
def shelf(
    to: Annotated[Path, typer.Argument(help="The HTML file to write.")] = Path("experiments.html"),
    out: Out = Path("lab/results"),
    experiments: Experiments = None,
    json: JsonFlag = False,
) -> None:
    """Write all experiments, their tables and their plots as one HTML page."""
    to.write_text(Shelf(out, experiments).page(), encoding="utf-8")
    emit({"file": str(to)}, json, lambda: console.print(f"wrote {to}", markup=False, highlight=False))


@plain_errors
def pack(
    name: Annotated[str, typer.Argument(help="family/name: the folder of one experiment's results.")],
    out: Out = Path("lab/results"),
    json: JsonFlag = False,
) -> None:
    """Put the results of an experiment into one compressed file, as lab/results keeps them."""
    folder = ResultFolder(out, name)
    if not folder.finished():
        raise InputError("name", f"no results in {folder.path}", "Name an experiment that has run")
    with folder.run_lock():
        count = folder.pack()
    words = f"{count} results in {folder.path / PACKED}"
    emit({"experiment": name, "results": count}, json, lambda: console.print(words, markup=False, highlight=False))
