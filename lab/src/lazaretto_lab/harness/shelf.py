"""The shelf that the console shows: every experiment, how far it has run, its table and its plots."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
        done = sum(kept.file(key).exists() for key in work)
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
