"""Published tables. In a page each stands between two marks, and what is between them is made from stored results::

<!-- table memory/main -->
| method | seeds | AUC | ...
<!-- end table -->
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from lazaretto.errors import InputError
from lazaretto_lab.harness.cells import CellText
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.harness.tables import RowResults, load_results

MARKED = re.compile(r"<!-- table (?P<name>\S+) -->\n(?P<body>.*?)<!-- end table -->", re.DOTALL)
_TABLE = re.compile(r"(?:^\|.*\|[ ]*\n)+", re.MULTILINE)
_FIGURE = re.compile(r"^[*_~<>±+− -]*(\d|\.\d)")

Body = Callable[[Mapping[str, RowResults]], list[list[str]]]
"""The lines of a table from the rows of its experiment, by name."""


class PageTable(Protocol):
    """A table as it is published."""

    @property
    def headings(self) -> tuple[str, ...]:
        """What stands in its first line."""
        ...

    def markdown(self, results: Path) -> str:
        """The table, from the results in a folder where it needs them."""
        ...


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """A table from the results of an experiment."""

    experiment: str
    headings: tuple[str, ...]
    body: Body
    right: bool = False
    """Whether figures are set to the right."""
    finished: bool = False
    """Whether rows with seeds still to run are left out; otherwise they are an error."""

    def markdown(self, results: Path) -> str:
        """The table from the results in a folder."""
        experiment = load_experiment(self.experiment)
        rows = {row.row.name: row for row in load_results(experiment, results)}
        pending = [f"{name} ({row.pending})" for name, row in rows.items() if row.pending]
        if self.finished:
            rows = {name: row for name, row in rows.items() if not row.pending}
        elif pending:
            raise InputError("results", f"{self.experiment} is not finished: {', '.join(pending)}")
        made = made_line(list(rows.values()), results / experiment.name)
        return f"{markdown_table(self.headings, self.body(rows), self.right)}\n{made}\n"


@dataclass(frozen=True, slots=True)
class WeightsTable:
    """A table from figures that training wrote beside the weights it made."""

    name: str
    make: Callable[[str], str]
    """From its name to the table."""
    headings: tuple[str, ...] = ()

    def markdown(self, results: Path) -> str:
        """The table; results are not needed."""
        return self.make(self.name) + "\n"


def made_line(rows: Sequence[RowResults], folder: Path) -> str:
    """What stands under a table: seeds, and which commits on which machines made its results.

    Results from before units said so have a ``manifest.json`` beside them.
    """
    beside = folder / "manifest.json"
    known = orjson.loads(beside.read_bytes()) if beside.is_file() else {}
    units = [result for row in rows for result in row.results]

    def told(name: str) -> str:
        said = Counter(unit.made_with.get(name) or str(known.get(name, "")) or "unknown" for unit in units)
        return ", ".join(said if len(said) == 1 else (f"{what} ({count} runs)" for what, count in said.most_common()))

    seeds = sorted({len(row.results) for row in rows})
    many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"Seeds: {many}. Commit: {told('commit')}. Machine: {told('machine')}; {told('device')}."


def markdown_table(headings: Sequence[str], lines: Sequence[Sequence[str]], right: bool = False) -> str:
    """A table as Markdown, figures set to the right or not."""
    rule = "|---|" + ("---:|" if right else "---|") * (len(headings) - 1)
    return "\n".join([_line(headings), rule, *(_line(line) for line in lines)]) + "\n"


def by_row(
    experiment: str,
    first: str,
    columns: Mapping[str, CellText],
    label: Callable[[str], str] = str,
    right: bool = False,
    only: Callable[[str], bool] = bool,
    finished: bool = False,
) -> ExperimentTable:
    """A table with a line per row of the experiment; ``columns`` says what stands under each heading, ``only`` which
    rows, by name."""

    def body(rows: Mapping[str, RowResults]) -> list[list[str]]:
        return [[label(name), *(cell(row) for cell in columns.values())] for name, row in rows.items() if only(name)]

    return ExperimentTable(experiment, (first, *columns), body, right, finished)


def rewrite(text: str, tables: Mapping[str, PageTable], results: Path) -> str:
    """A page with every marked table made anew."""

    def made(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in tables:
            raise InputError("table", f"no table {name!r}", f"There are: {', '.join(tables)}")
        return f"<!-- table {name} -->\n{tables[name].markdown(results)}<!-- end table -->"

    return MARKED.sub(made, text)


def figure_tables(text: str) -> list[str]:
    """The headings of the tables of figures in a page that stand between no marks; a table of figures has figures in
    at least half of its cells."""
    found = []
    for block in _TABLE.findall(MARKED.sub("", text)):
        head, _, *lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        cells = [cell for line in lines for cell in line[1:] if cell]
        if 2 * sum(bool(_FIGURE.match(cell)) for cell in cells) >= len(cells) > 0:
            found.append(" · ".join(cell for cell in head if cell))
    return found


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
