"""How a published figure is written: one function per way, each from the results of a row to the text of a cell."""

from __future__ import annotations

from collections.abc import Callable

from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.metrics.intervals import t_interval

CellText = Callable[[RowResults], str]
"""What stands in a cell of a row."""
NOTHING = "–"


def seeds(row: RowResults) -> str:
    """How many seeds ran to their end."""
    return str(len(_finished(row)))


def plus_minus(measure: str, digits: int) -> CellText:
    """``13.1 ± 0.2``: mean and half of its t interval; the mean alone where the seeds agree; ``1.00 (4/5)`` where it
    did not happen in every seed."""

    def text(row: RowResults) -> str:
        values = row.values(measure)
        if not values:
            return NOTHING
        interval = t_interval(values)
        words = f"{interval.value:.{digits}f}"
        if max(values) - min(values) > 1e-9:
            words += f" ± {interval.half_width:.{digits}f}"
        total = len(_finished(row))
        return words + (f" ({len(values)}/{total})" if len(values) < total else "")

    return text


def percent(measure: str, digits: int = 1) -> CellText:
    """``41.3 ± 5.0 %``: as ``plus_minus``, of a share."""

    def text(row: RowResults) -> str:
        values = row.values(measure)
        if not values:
            return NOTHING
        interval = t_interval(values)
        words = f"{100 * interval.value:.{digits}f}"
        if max(values) - min(values) > 1e-9:
            words += f" ± {100 * interval.half_width:.{digits}f}"
        return f"{words} %"

    return text


def bracketed(measure: str, digits: int, percent: bool = False) -> CellText:
    """``13.1 [12.8, 13.3] %``: mean and t interval; the mean alone where the bounds are written alike or there is one
    seed; a dash where a seed has none."""

    def text(row: RowResults) -> str:
        values = row.values(measure)
        if not values or len(values) < len(_finished(row)):
            return NOTHING
        scale = 100 if percent else 1
        interval = t_interval(values)
        bounds = [f"{scale * b:.{digits}f}" for b in (interval.value, interval.low, interval.high)]
        words = bounds[0] if len(values) == 1 or len(set(bounds)) == 1 else f"{bounds[0]} [{bounds[1]}, {bounds[2]}]"
        return f"{words} %" if percent else words

    return text


def before_after(measure: str, digits: int, percent: bool = False) -> CellText:
    """``13.1 [12.8, 13.3] % → 0.8 [0.8, 0.9] %``, from ``<measure>_before`` and ``<measure>_after``."""
    before, after = (bracketed(f"{measure}_{when}", digits, percent) for when in ("before", "after"))
    return lambda row: f"{before(row)} → {after(row)}"


def fall(measure: str, digits: int) -> CellText:
    """``−97.2 [95.8, 98.1] %``: a share by which something fell."""
    size = bracketed(measure, digits, percent=True)
    return lambda row: f"−{size(row)}"


def share(value: float, digits: int = 3) -> str:
    """``.870``: a share without its leading nought."""
    return f"{value:.{digits}f}".removeprefix("0")


def share_with_bounds(measure: str, digits: int = 3) -> CellText:
    """``.870 [.837, .900]``, from a measure of one run and its ``_low`` and ``_high``."""

    def text(row: RowResults) -> str:
        value, low, high = (share(row.values(f"{measure}{end}")[0], digits) for end in ("", "_low", "_high"))
        return f"{value} [{low}, {high}]"

    return text


def _finished(row: RowResults) -> list[object]:
    return [result for result in row.results if result.outcome is not Outcome.VOID]
