"""All experiments as one HTML page: how far each has run, its table and its plots."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lazaretto import reports
from lazaretto.errors import InputError, LazarettoError
from lazaretto_lab.harness.experiment import Experiment, available, experiment_folder, load_experiment, units
from lazaretto_lab.harness.plots import draw
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.tables import headings, lines, load_results, make_table

RESULTS = "LAZARETTO_RESULTS"
"""Names the folder of results; without it ``./runs``, or ``./lab/results`` of a checkout."""


class Shelf:
    """What was studied, and how it came out."""

    def __init__(self, out: Path | None = None, experiments: Path | None = None) -> None:
        named = os.environ.get(RESULTS)
        places = [Path(named)] if named else [Path("runs"), Path("lab/results")]
        self._out = out or next((place for place in places if place.is_dir()), places[0])
        self._folder = experiments

    def experiments(self) -> Sequence[dict[str, Any]]:
        """Those with results first; one whose file cannot be read is left out."""
        folder = experiment_folder(self._folder)
        rows = []
        for name in available(folder):
            try:
                rows.append(self._row(name, load_experiment(name, folder)))
            except LazarettoError:
                continue
        return sorted(rows, key=lambda row: (not row["done"], row["name"]))

    def _row(self, name: str, experiment: Experiment) -> dict[str, Any]:
        kept = ResultFolder(self._out, experiment.name)
        work = {unit.key for unit in units(experiment)}
        done = len(work & kept.finished())
        told = {"name": name, "title": experiment.title, "units": len(work), "done": done}
        if not done:
            return {**told, "headings": [], "lines": [], "plots": 0}
        table = make_table(experiment, load_results(experiment, self._out))
        return {**told, "headings": headings(table), "lines": lines(table), "plots": len(experiment.plots)}

    def plot(self, name: str, number: int) -> bytes:
        """A plot of an experiment as PNG."""
        experiment = load_experiment(name, self._folder)
        if not 0 <= number < len(experiment.plots):
            raise InputError("number", f"{name} has {len(experiment.plots)} plots", "Choose one of them")
        with tempfile.TemporaryDirectory() as folder:
            made = draw(
                experiment, experiment.plots[number], load_results(experiment, self._out), Path(folder) / "plot"
            )
            return next(path for path in made if path.suffix == ".png").read_bytes()

    def page(self) -> str:
        """Every experiment on one page, with its plots inside it."""
        parts = ["<h1>Experiments</h1>"]
        for one in self.experiments():
            colour = "green" if one["done"] == one["units"] else "amber" if one["done"] else "gray"
            state = reports.badge(
                colour, f"{one['done']} of {one['units']} runs", "Runs with a result, of those planned."
            )
            parts.append(f"<h2>{reports.escape(one['name'])} {state}</h2><p>{reports.escape(one['title'])}</p>")
            if one["lines"]:
                parts.append(reports.table(one["headings"], one["lines"]))
            for number in range(one["plots"]):
                picture = base64.b64encode(self.plot(one["name"], number)).decode()
                parts.append(f"<p><img src='data:image/png;base64,{picture}' alt='{reports.escape(one['name'])}'></p>")
        return reports.page("Experiments", parts)
