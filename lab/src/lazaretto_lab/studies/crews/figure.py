"""The study at a glance: per model and defence, how many tasks the crew still does and how many attacks succeed.

python -m lazaretto_lab.studies.crews.figure lab/results docs/pictures/crews.svg
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.harness.tables import RowResults, load_results
from lazaretto_lab.metrics.intervals import t_interval
from lazaretto_lab.studies.crews.published import DEFENCES, MODELS

_BARS = {
    "tasks done, no attack (more is better)": ("utility", "#1b6e3c"),
    "attacks that succeed (less is better)": ("success", "#c8464a"),
}


def draw(results: Path, path: Path) -> Path:
    """A panel per model, a pair of bars per defence."""
    from matplotlib.figure import Figure

    rows = {row.row.name: row for row in load_results(load_experiment("crews/main"), results)}
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    models = {model: name for model, name in MODELS.items() if f"model={model}, defence=none" in rows}
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, (model, name) in zip(panels, models.items(), strict=True):
        for offset, (words, (measure, colour)) in zip((0.2, -0.2), _BARS.items(), strict=True):
            found = [_interval(rows[f"model={model}, defence={defence}"], measure) for defence in DEFENCES]
            places = [len(DEFENCES) - place + offset for place in range(len(DEFENCES))]
            axes.barh(places, [value for value, _ in found], 0.36, color=colour, label=words)
            for place, (value, _) in zip(places, found, strict=True):
                if math.isfinite(value):
                    axes.text(1, place, f"{value:.0f}", color="white", fontsize=8, va="center_baseline", weight="bold")
            axes.errorbar(
                [value for value, _ in found], places, xerr=[half for _, half in found], fmt="none", ecolor="#333", lw=1
            )
        axes.set_yticks([len(DEFENCES) - place for place in range(len(DEFENCES))], list(DEFENCES.values()))
        axes.set_title(name, loc="left", fontsize=11)
        axes.set_xlim(0, 100)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="#e3e9ee")
        axes.set_axisbelow(True)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.supxlabel("percent of cases, with the t-interval of 95 % over three seeds", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    return path


def _interval(row: RowResults, measure: str) -> tuple[float, float]:
    if not row.results:
        return math.nan, 0.0  # not measured
    found = t_interval(row.values(measure))
    half = found.half_width
    return 100 * found.value, 100 * half if math.isfinite(half) else 0.0  # one seed has no interval


if __name__ == "__main__":
    print(draw(Path(sys.argv[1]), Path(sys.argv[2])))
