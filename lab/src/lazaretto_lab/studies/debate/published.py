"""The tables of the jury's model card, and of the debates that docs/moderation-study.md publishes."""

from __future__ import annotations

from lazaretto_lab.harness.cells import CellText, plus_minus, share, share_with_bounds
from lazaretto_lab.harness.pages import PageTable, WeightsTable, by_row
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.training.jury.card import NAMES, card_table


def _share(measure: str) -> CellText:
    return lambda row: share(row.values(measure)[0]) if row.values(measure) else "–"


def _seconds(row: RowResults) -> str:
    return f"{row.values('ms')[0] / 1000:.0f}"


TABLES: dict[str, PageTable] = {
    **{f"jury/{name}": WeightsTable(name, card_table) for name in NAMES},
    "debate/shipped": by_row(
        "debate/shipped",
        "judges",
        {
            "items": plus_minus("items", 0),
            "precision": _share("precision"),
            "recall": _share("recall"),
            "F1": share_with_bounds("f1"),
            "AUC": _share("auc"),
            "for review": plus_minus("review", 0),
        },
    ),
    "debate/local": by_row(
        "debate/local",
        "judges",
        {
            "items": plus_minus("items", 0),
            "decided rightly": share_with_bounds("right", 2),
            "F1, undecided as wrong": share_with_bounds("f1_worst", 2),
            "undecided": plus_minus("undecided", 0),
            "for review": plus_minus("review", 0),
            "calls": plus_minus("calls", 1),
            "tokens": plus_minus("tokens", 0),
            "seconds": _seconds,
        },
    ),
}
