"""The picture of one epidemic: cumulative, current and carrying shares over rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lazaretto_lab.harness.plots import PANEL, curve_band, paper_style, save_figure
from lazaretto_lab.worlds.epidemic import Epidemic

CURVES = (("cumulative", "cumulative", "C0"), ("current", "current", "C1"), ("cured", "carrying the cure", "C2"))


def draw_epidemic(run: Epidemic, path: Path) -> list[Path]:
    """Draw the run; with several seeds, means with the middle 90 % of seeds as a band."""
    with paper_style() as pyplot:
        figure, axes = pyplot.subplots(figsize=(PANEL[0] * 1.25, PANEL[1] * 1.1))
        rounds = np.arange(run.scenario.rounds)
        for name, label, colour in CURVES:
            table = run.percent(name)
            if name == "cured" and not table.any():
                continue
            middle, low, high = curve_band(table, "middle90")
            axes.plot(rounds, middle, color=colour, label=label)
            if len(table) > 1:
                axes.fill_between(rounds, low, high, color=colour, alpha=0.16, linewidth=0)
        seeds = f"seed {run.seeds[0]}" if len(run.seeds) == 1 else f"{len(run.seeds)} seeds, band: middle 90 %"
        axes.set_title(f"{run.scenario.agents:,} agents, {run.scenario.infected} infected ({seeds})")
        axes.set_xlabel("round")
        axes.set_ylabel("agents (%)")
        axes.set_ylim(0, 102)
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="center right")
        written = save_figure(figure, path)
        pyplot.close(figure)
    return written
