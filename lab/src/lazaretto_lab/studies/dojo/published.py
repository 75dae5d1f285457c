"""The tables of docs/agentdojo.md: from ``agentdojo/model/units.jsonl.gz`` and ``agentdojo/texts/rows.jsonl``.

Units count up to the first that is missing: those behind it are done because they were quick, which is no fair sample.
A pair that broke under one defence is left out under all, and counted.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto_lab.harness.pages import PageTable, markdown_table
from lazaretto_lab.metrics.intervals import wilson_interval
from lazaretto_lab.studies.dojo.defences import DEFENCES
from lazaretto_lab.studies.dojo.suites import SUITES
from lazaretto_lab.studies.dojo.work import SEED

Row = dict[str, Any]
MODEL, TEXTS = "agentdojo/model", "agentdojo/texts"
NAMES = {"none": "undefended", "gates": "content gates", "actions": "last gate", "both": "both"}
"""As the tables call the defences."""


def in_order(units: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Units up to the first that is missing."""
    by_number = {int(one["unit"]): one for one in units}
    first = next(number for number in range(len(by_number) + 1) if number not in by_number)
    return [by_number[number] for number in range(first)]


def whole(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """Rows of pairs that broke under no defence, and how many pairs broke."""
    listed = list(rows)
    broken = {_pair(row) for row in listed if "fault" in row}
    return [row for row in listed if _pair(row) not in broken], len(broken)


def _pair(row: Row) -> tuple[str, str, str]:
    return row["suite"], row["user"], row["injection"]


def load(results: Path) -> tuple[list[Row], int]:
    """Rows that count, and how many pairs broke."""
    path = results / MODEL / "units.jsonl.gz"
    if not path.is_file():
        raise InputError("results", f"no {MODEL}/units.jsonl.gz")
    units = [orjson.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]
    return whole(row for one in in_order(units) for row in one["rows"])


def made_with(results: Path) -> dict[str, Any]:
    """What made the results, from the file beside them."""
    path = results / MODEL / "made_with.json"
    if not path.is_file():
        raise InputError("results", f"{MODEL} has no made_with.json")
    found: dict[str, Any] = orjson.loads(path.read_bytes())
    return found


def made_line(results: Path, seeds: str) -> str:
    """What stands under a table."""
    made = made_with(results)
    return f"Seeds: {seeds}. Commit: {made['commit']}. Machine: {made['machine']}; {made['device']}.\n"


def share(rows: Sequence[Row], what: str) -> str:
    """``12.5 % (8 to 19)``, with the bounds of a Wilson interval of 95 %."""
    if not rows:
        return "none"
    interval = wilson_interval(sum(bool(row[what]) for row in rows), len(rows))
    return f"{100 * interval.value:.1f} % ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def _ratio(rows: Sequence[Row], part: str, of: str = "") -> str:
    total = sum(row[of] for row in rows) if of else len(rows)
    found = sum(row[part] for row in rows) / total if total else 0.0
    return f"{100 * found:.1f} %" if of else f"{found:.2f}"


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A line per defence, or per defence and suite."""

    by_suite: bool = False
    headings: tuple[str, ...] = (
        "defence", "tasks, pairs", "utility, no attack", "utility, attacked", "attack success", "injection was read",
        "honest results held", "honest calls refused a task",
    )  # fmt: skip

    def markdown(self, results: Path) -> str:
        """From the stored units."""
        rows, _ = load(results)
        lines = []
        for defence in DEFENCES:
            for suite in SUITES if self.by_suite else ("",):
                mine = [row for row in rows if row["defence"] == defence and suite in ("", row["suite"])]
                alone = [row for row in mine if not row["injection"]]
                attacked = [row for row in mine if row["injection"]]
                name = f"{NAMES[defence]}, {suite}" if suite else NAMES[defence]
                lines.append([
                    name, f"{len(alone)}, {len(attacked)}", share(alone, "utility"), share(attacked, "utility"),
                    share(attacked, "attack"), share(attacked, "read"), _ratio(alone, "held", "results"),
                    _ratio(alone, "refused"),
                ])  # fmt: skip
        seeds = f"one run, greedy, the order of the pairs from seed {SEED}"
        return f"{markdown_table(self.headings, lines)}\n{made_line(results, seeds)}"


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What made the results, from the file beside them."""

    headings: tuple[str, ...] = (
        "model", "units", "pairs that broke", "commit", "machine", "device", "torch", "agentdojo", "date",
    )  # fmt: skip

    def markdown(self, results: Path) -> str:
        """One line."""
        made = made_with(results)
        told = [str(made[name]) for name in ("commit", "machine", "device", "torch", "agentdojo", "date")]
        line = [str(made["model"]), str(made["units"]), str(load(results)[1]), *told]
        return markdown_table(self.headings, [line])


@dataclass(frozen=True, slots=True)
class TextsTable:
    """Tool results through the default gates, by suite."""

    headings: tuple[str, ...] = (
        "suite", "results with an injection", "held", "results without one", "held wrongly",
    )  # fmt: skip

    def markdown(self, results: Path) -> str:
        """From the stored rows."""
        path = results / TEXTS / "rows.jsonl"
        if not path.is_file():
            raise InputError("results", f"no {TEXTS}/rows.jsonl")
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        table = markdown_table(self.headings, [self._line(suite, rows) for suite in (*SUITES, "all")])
        return f"{table}\n{made_line(results, 'none, every text once')}"

    @staticmethod
    def _line(suite: str, rows: Sequence[Row]) -> list[str]:
        def part(wanted: Callable[[Row], bool]) -> list[Row]:
            return [row for row in rows if suite in ("all", row["suite"]) and wanted(row)]

        bad, good = part(lambda row: bool(row["injection"])), part(lambda row: not row["injection"])
        return [suite, str(len(bad)), share(bad, "held"), str(len(good)), share(good, "held")]


TABLES: dict[str, PageTable] = {
    "agentdojo/model": ModelTable(),
    "agentdojo/suites": ModelTable(by_suite=True),
    "agentdojo/made_with": MadeWith(),
    "agentdojo/texts": TextsTable(),
}
