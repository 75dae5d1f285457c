"""Figures from results: curves over rounds, lines over a setting, bars per row, clouds, points; SVG and PNG in one
style."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra
from lazaretto.files import replacing
from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.experiment import Experiment, Plot
from lazaretto_lab.harness.tables import RowResults, estimate
from lazaretto_lab.metrics.intervals import Interval, t_interval

STYLE = Path(__file__).with_name("paper.mplstyle")
PANEL = (3.5, 2.55)
"""Width and height of one panel in inches."""
LABEL_HEIGHT = 0.03
"""Where a curve 100 x^K is labelled, as a share of its height."""


@contextmanager
def paper_style() -> Iterator[Any]:
    """matplotlib.pyplot in the house style, without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("drawing plots", "plot") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.style.context(STYLE):
        yield pyplot


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Write a figure as the suffix says, or as both SVG and PNG when it has none. The same data give the same SVG
    bytes."""
    suffix = path.suffix.lower()
    if suffix not in ("", ".svg", ".png", ".pdf"):
        raise InputError("plot", f"cannot write {path.suffix!r} files", "Use .svg, .png or .pdf")
    paths = [path] if suffix else [path.with_name(path.name + end) for end in (".svg", ".png")]
    path.parent.mkdir(parents=True, exist_ok=True)
    for target in paths:
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(target.suffix.lower())
        with replacing(target) as file:
            figure.savefig(file, format=target.suffix.lower()[1:], metadata=metadata)
    return paths


def draw(experiment: Experiment, plot: Plot, results: Sequence[RowResults], path: Path) -> list[Path]:
    """Draw one figure of an experiment and write it."""
    measures = (plot.y,) if isinstance(plot.y, str) else plot.y
    labels = (plot.y_label,) * len(measures) if isinstance(plot.y_label, str) else plot.y_label
    if len(labels) != len(measures):
        raise InputError(f"plot {plot.name}", f"{len(measures)} measures but {len(labels)} labels")
    chosen = [r for r in results if not plot.rows or r.row.name in plot.rows]
    with paper_style() as pyplot:
        legend = 0.35 if len(chosen) > 1 and plot.kind in ("curve", "cloud", "points") else 0.0
        height = 0.7 + 0.32 * len(chosen) if plot.kind == "bars" else PANEL[1] + legend
        size = (PANEL[0] * len(measures), height)
        figure, panels = pyplot.subplots(1, len(measures), figsize=size, squeeze=False)
        painter = {"curve": _curves, "line": _lines, "bars": _bars, "cloud": _clouds, "points": _points}[plot.kind]
        for axes, measure, label in zip(panels[0], measures, labels, strict=True):
            painter(experiment, plot, chosen, measure, axes)
            (axes.set_xlabel if plot.kind == "bars" else axes.set_ylabel)(label or measure)
            if plot.kind != "bars":
                axes.set_xlabel(plot.x_label or plot.x or "round")
            if plot.x_range:
                axes.set_xlim(*plot.x_range)
            if plot.y_range:  # with room at both ends: a curve that stays at the bottom must not vanish in the axis
                room = 0.02 * (plot.y_range[1] - plot.y_range[0])
                axes.set_ylim(plot.y_range[0] - room, plot.y_range[1] + room)
        _legend(figure, panels[0])
        if plot.title:
            figure.suptitle(plot.title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        written = save_figure(figure, path)
        pyplot.close(figure)
    return written


def _legend(figure: Any, panels: Sequence[Any]) -> None:
    handles, names = panels[0].get_legend_handles_labels()
    if len(names) > 1:
        columns = len(names) if len(names) <= 3 else -(-len(names) // 2)
        figure.legend(handles, names, loc="outside lower center", ncols=min(columns, 2 * len(panels) + 1))


def _curves(experiment: Experiment, plot: Plot, results: Sequence[RowResults], measure: str, axes: Any) -> None:
    """A list measure over its index: the mean line and a band; a single seed has none."""
    colours = _colours(experiment, results)
    drawn = False
    for result, colour in zip(results, colours, strict=True):
        table = curve_table(result, measure)
        if table is None:
            continue
        drawn = True
        rounds = np.arange(table.shape[1])
        middle, low, high = curve_band(table, plot.spread)
        axes.plot(rounds, middle, color=colour, label=result.row.name)
        if len(table) > 1:
            axes.fill_between(rounds, low, high, color=colour, alpha=0.16, linewidth=0)
    if not drawn:
        raise InputError(f"plot {plot.name}", f"no result has a list {measure!r}")
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _clouds(experiment: Experiment, plot: Plot, results: Sequence[RowResults], measure: str, axes: Any) -> None:
    """Points on a map, a colour per row; only the first seed, for every seed has its own map."""
    drawn = False
    for result, colour in zip(results, _colours(experiment, results), strict=True):
        clouds = [r.measures.get(measure) for r in result.results if r.outcome is not Outcome.VOID]
        points = np.array(next((cloud for cloud in clouds if isinstance(cloud, list) and cloud), []), dtype=float)
        if not points.size:
            continue
        drawn = True
        axes.scatter(points[:, 0], points[:, 1], s=9, color=colour, alpha=0.55, linewidths=0, label=result.row.name)
    if not drawn:
        raise InputError(f"plot {plot.name}", f"no result has a list of points {measure!r}")


def _points(experiment: Experiment, plot: Plot, results: Sequence[RowResults], measure: str, axes: Any) -> None:
    """A number over another one, a point per unit; with ``power``, 100 x^K and the power that fits."""
    endings = plot.series or ("",)
    found: dict[str, list[tuple[float, float, float]]] = {ending: [] for ending in endings}
    for result in results:
        ending = next((e for e in endings if result.row.name.endswith(e)), None)
        for unit in result.results if ending is not None else ():
            values = [unit.measures.get(name) for name in (plot.x, measure, plot.power or plot.x)]
            if unit.outcome is not Outcome.VOID and all(isinstance(v, (int, float)) for v in values[:2]):
                found[str(ending)].append((float(values[0]), float(values[1]), float(values[2] or math.nan)))  # type: ignore[arg-type]
    if not any(found.values()):
        raise InputError(f"plot {plot.name}", f"no result has numbers {plot.x!r} and {measure!r}")
    for place, (ending, points) in enumerate(found.items()):
        if points:
            x, y, _ = zip(*points, strict=True)
            axes.scatter(x, y, s=14, color=f"C{place}", alpha=0.75, linewidths=0, label=ending or measure)
    if plot.power:
        _powers(axes, [point for points in found.values() for point in points])


def _powers(axes: Any, points: Sequence[tuple[float, float, float]]) -> None:
    low = min(x for x, _, _ in points)
    grid = np.linspace(low, 1.0, 100)
    for power in sorted({k for *_, k in points if not math.isnan(k)}):
        mine = [(x, y) for x, y, k in points if k == power]
        axes.plot(grid, 100 * grid**power, color="#777777", linewidth=0.9, linestyle="--")
        fit = fitted_power(*map(np.array, zip(*mine, strict=True)))
        spot = (max(low, LABEL_HEIGHT ** (1 / power)), 100 * LABEL_HEIGHT)
        axes.annotate(f"K = {power:g}\nfits {fit:.1f}", spot, fontsize=5, va="bottom", ha="right")


def fitted_power(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The k for which 100 x^k is nearest to y, in squares, to a twentieth."""
    powers = np.arange(0.05, 40.0, 0.05)
    return float(powers[((100 * x[None] ** powers[:, None] - y[None]) ** 2).sum(axis=1).argmin()])


def curve_table(result: RowResults, measure: str) -> NDArray[np.float64] | None:
    """The curves of a row, (seeds, rounds), cut to the shortest; None where there is none. Gaps (None) become NaN."""
    found = [r.measures.get(measure) for r in result.results if r.outcome is not Outcome.VOID]
    curves = [curve for curve in found if isinstance(curve, list) and curve]
    if not curves:
        return None
    shortest = min(len(curve) for curve in curves)
    return np.array([[math.nan if v is None else v for v in curve[:shortest]] for curve in curves], dtype=float)


def curve_band(
    table: NDArray[np.float64], spread: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean and band at each round, over the seeds that have a value there."""
    columns = [column[~np.isnan(column)] for column in table.T]
    middle = np.array([c.mean() if c.size else math.nan for c in columns])
    if spread == "middle90":
        ends = [np.quantile(c, [0.05, 0.95]) if c.size else (math.nan, math.nan) for c in columns]
        return middle, np.array([e[0] for e in ends]), np.array([e[1] for e in ends])
    known = [t_interval(c) if c.size > 1 else Interval(m, m, m, c.size) for c, m in zip(columns, middle, strict=True)]
    return middle, np.array([i.low for i in known]), np.array([i.high for i in known])


def _lines(experiment: Experiment, plot: Plot, results: Sequence[RowResults], measure: str, axes: Any) -> None:
    """A number over a setting, with its interval; one line per value of ``group``."""
    groups: dict[str, list[tuple[float, Interval]]] = {}
    for result in results:
        interval = _interval(result, measure)
        if plot.x not in result.row.settings:
            raise InputError(f"plot {plot.name}", f"row {result.row.name!r} has no setting {plot.x!r}")
        if interval is not None:
            group = f"{plot.group} = {result.row.settings.get(plot.group)}" if plot.group else measure
            groups.setdefault(group, []).append((float(result.row.settings[plot.x]), interval))
    for name, points in groups.items():
        points.sort(key=lambda point: point[0])
        errors = np.abs([[i.value - i.low, i.high - i.value] for _, i in points]).T
        errors[~np.isfinite(errors)] = 0.0
        axes.errorbar(
            [x for x, _ in points],
            [i.value for _, i in points],
            errors,
            label=name if plot.group else None,
            marker="o",
            capsize=2.5,
            elinewidth=1.0,
        )
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if all(float(x).is_integer() for points in groups.values() for x, _ in points):
        axes.xaxis.get_major_locator().set_params(integer=True)


def _bars(experiment: Experiment, plot: Plot, results: Sequence[RowResults], measure: str, axes: Any) -> None:
    """A number per row, with its interval."""
    intervals = [(r.row.name, _interval(r, measure)) for r in results]
    known = [(name, i) for name, i in intervals if i is not None]
    places = np.arange(len(known))[::-1]
    errors = np.abs([[i.value - i.low, i.high - i.value] for _, i in known]).T if known else np.zeros((2, 0))
    errors[~np.isfinite(errors)] = 0.0
    axes.barh(
        places,
        [i.value for _, i in known],
        xerr=errors,
        height=0.62,
        color="C0",
        ecolor="#333333",
        capsize=2.5,
    )
    axes.set_yticks(places, [name for name, _ in known])
    axes.grid(axis="y", visible=False)


def _interval(result: RowResults, measure: str) -> Interval | None:
    raw = [r.measures.get(measure) for r in result.results if r.outcome is not Outcome.VOID]
    booleans = all(isinstance(v, bool) for v in raw if v is not None)
    return estimate(result.values(measure), booleans)


def _colours(experiment: Experiment, results: Sequence[RowResults]) -> list[Any]:
    """Colours of the style; for rows that only differ in one ordered setting, shades that keep the order."""
    from matplotlib import colormaps

    grid = list(experiment.grid.values())
    ordered = not experiment.rows and len(grid) == 1 and all(isinstance(v, (int, float)) for v in grid[0])
    if (ordered and len(results) > 2) or len(results) > 7:
        return [colormaps["viridis"](share) for share in np.linspace(0.0, 0.88, len(results))]
    named = [result.row.colour for result in results]
    return [f"C{index if colour is None else colour}" for index, colour in enumerate(named)]
