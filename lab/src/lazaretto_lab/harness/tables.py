"""From results to tables: mean and 95 % interval over seeds, outcomes counted, expectations checked."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import Outcome, UnitResult
from lazaretto_lab.harness.experiment import Column, Expectation, Experiment, Row, units
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.metrics.intervals import Interval, t_interval, wilson_interval

STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "sd": statistics.stdev,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of one row over its seeds."""

    interval: Interval | None
    """None when no seed has a number."""
    missing: int
    """Finished seeds in which it did not happen (the measure is None)."""
    digits: int = 2

    def words(self) -> str:
        """The cell as text: mean ± half width, and how often it happened where it did not always."""
        if self.interval is None:
            return "–"
        text = f"{self.interval.value:.{self.digits}f}"
        if self.interval.n > 1 and math.isfinite(self.interval.half_width):
            text += f" ± {self.interval.half_width:.{self.digits}f}"
        return text + (f" ({self.interval.n}/{self.interval.n + self.missing})" if self.missing else "")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of the table."""

    name: str
    outcomes: Counter[Outcome]
    pending: int
    """Seeds that have not run yet."""
    cells: tuple[Cell, ...]
    reasons: tuple[str, ...]
    """Distinct reasons of void units."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation and what came of it."""

    expectation: Expectation
    row: str
    outcome: Outcome
    found: float | None
    """The statistic; None when there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Everything a table shows."""

    experiment: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    checks: tuple[ExpectationResult, ...]


@dataclass(frozen=True, slots=True)
class RowResults:
    """The finished units of one row."""

    row: Row
    results: tuple[UnitResult, ...]
    pending: int

    def values(self, measure: str) -> list[float]:
        """The numbers of a measure over the seeds that have one; void units have none."""
        found = (r.measures.get(measure) for r in self.results if r.outcome is not Outcome.VOID)
        return [float(v) for v in found if isinstance(v, (int, float))]


def load_results(experiment: Experiment, out: Path, seeds: int | None = None) -> tuple[RowResults, ...]:
    """All results of an experiment, row by row."""
    folder = ResultFolder(out, experiment.name)
    found: dict[str, list[UnitResult | None]] = {}
    for unit in units(experiment, seeds):
        found.setdefault(unit.row, []).append(folder.read(unit))
    out_rows = []
    for row in experiment.expanded_rows():
        done = tuple(r for r in found.get(row.name, []) if r is not None)
        out_rows.append(RowResults(row, done, len(found.get(row.name, [])) - len(done)))
    if not any(r.results for r in out_rows):
        raise InputError(
            "experiment", f"{experiment.name} has no results in {out}", f"First: lazaretto bench run {experiment.name}"
        )
    return tuple(out_rows)


def estimate(values: Sequence[float], booleans: bool) -> Interval | None:
    """Mean with an interval: Wilson's for yes/no measures, else Student's t (a percentile bootstrap over five seeds is
    too narrow)."""
    if not values:
        return None
    if booleans:
        return wilson_interval(int(sum(values)), len(values))
    return t_interval(values)


def make_table(experiment: Experiment, results: Sequence[RowResults]) -> ResultTable:
    """The table and the verdict on every expectation."""
    columns = experiment.columns or _all_columns(results)
    rows = tuple(_table_row(experiment, result, columns) for result in results)
    checks = tuple(
        check(expectation, result)
        for expectation in experiment.expect
        for result in results
        if expectation.row in (None, result.row.name)
    )
    return ResultTable(experiment.name, experiment.title, columns, rows, checks)


def _all_columns(results: Sequence[RowResults]) -> tuple[Column, ...]:
    names = {
        m: None for r in results for unit in r.results for m, v in unit.measures.items() if isinstance(v, (int, float))
    }
    return tuple(Column(measure=name) for name in names)


def _table_row(experiment: Experiment, result: RowResults, columns: Sequence[Column]) -> TableRow:
    finished = [r for r in result.results if r.outcome is not Outcome.VOID]
    cells = []
    for column in columns:
        raw = [r.measures.get(column.measure) for r in finished]
        values = result.values(column.measure)
        booleans = bool(values) and all(isinstance(v, bool) for v in raw if v is not None)
        missing = len(finished) - len(values)
        cells.append(Cell(estimate(values, booleans), missing, column.digits))
    reasons = tuple(dict.fromkeys(r.reason for r in result.results if r.outcome is Outcome.VOID))
    return TableRow(result.row.name, Counter(r.outcome for r in result.results), result.pending, tuple(cells), reasons)


def check(expectation: Expectation, result: RowResults) -> ExpectationResult:
    """Judge one expectation on one row. Pending or void seeds make it void: half a row proves nothing."""
    values = result.values(expectation.measure)
    void = result.pending or any(r.outcome is Outcome.VOID for r in result.results) or not values
    if void or (expectation.of == "sd" and len(values) < 2):
        return ExpectationResult(expectation, result.row.name, Outcome.VOID, None)
    if expectation.of == "every":
        wrong = [v for v in values if not expectation.accepts(v)]
        found = wrong[0] if wrong else values[0]
        return ExpectationResult(expectation, result.row.name, Outcome.BREACHED if wrong else Outcome.HELD, found)
    found = float(STATISTICS[expectation.of](values))
    outcome = Outcome.HELD if expectation.accepts(found) else Outcome.BREACHED
    return ExpectationResult(expectation, result.row.name, outcome, found)


def headings(table: ResultTable) -> list[str]:
    """The column titles, in order."""
    return ["row", "seeds", *(c.label or c.measure for c in table.columns)]


def lines(table: ResultTable) -> list[list[str]]:
    """The body as text."""
    return [[row.name, outcome_words(row), *(cell.words() for cell in row.cells)] for row in table.rows]


def outcome_words(row: TableRow) -> str:
    """How the row's seeds ended: ``5 held``, ``3 held, 1 breached, 1 void``, ``2 held, 3 pending``."""
    counts = [(row.outcomes[outcome], outcome.value) for outcome in Outcome] + [(row.pending, "pending")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "none"


def as_markdown(table: ResultTable) -> str:
    """The table for a page, expectations under it."""
    head = headings(table)
    body = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    body += ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines(table)]
    voids = [f"- void in {row.name}: {reason}" for row in table.rows for reason in row.reasons]
    checks = [f"- {c.outcome.value}: {check_words(c)}" for c in table.checks]
    return "\n".join([f"**{table.title}**", "", *body, "", *voids, *checks]).rstrip() + "\n"


def as_csv(table: ResultTable) -> str:
    """One line per row and measure, with full precision, for whoever computes on."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "held", "breached", "void", "pending", "measure", "mean", "low", "high", "n", "missing"])
    for row in table.rows:
        counts = [*(row.outcomes[o] for o in Outcome), row.pending]
        for column, cell in zip(table.columns, row.cells, strict=True):
            i = cell.interval
            numbers = ["", "", "", 0] if i is None else [i.value, *(_finite(b) for b in (i.low, i.high)), i.n]
            writer.writerow([row.name, *counts, column.measure, *numbers, cell.missing])
    return out.getvalue()


def as_data(table: ResultTable) -> dict[str, Any]:
    """The table as JSON data."""
    return {
        "experiment": table.experiment,
        "title": table.title,
        "rows": [
            {
                "name": row.name,
                "outcomes": {outcome.value: row.outcomes[outcome] for outcome in Outcome},
                "pending": row.pending,
                "void_reasons": list(row.reasons),
                "measures": {
                    column.measure: None
                    if cell.interval is None
                    else {
                        "mean": cell.interval.value,
                        "low": _finite(cell.interval.low),
                        "high": _finite(cell.interval.high),
                        "n": cell.interval.n,
                        "missing": cell.missing,
                    }
                    for column, cell in zip(table.columns, row.cells, strict=True)
                },
            }
            for row in table.rows
        ],
        "expectations": [
            {"row": c.row, "expected": check_words(c), "outcome": c.outcome.value, "found": c.found}
            for c in table.checks
        ],
    }


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def check_words(checked: ExpectationResult) -> str:
    """An expectation as a sentence."""
    e = checked.expectation
    found = "nothing to judge yet" if checked.found is None else f"found {checked.found:.6g}"
    why = f" ({e.why})" if e.why else ""
    return f"{checked.row}: {e.of} of {e.measure} {e.words()}{why}; {found}"
