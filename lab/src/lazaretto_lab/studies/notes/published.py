"""The tables of docs/notes.md."""

from __future__ import annotations

from lazaretto_lab.harness.cells import CellText, before_after, bracketed, plus_minus, seeds
from lazaretto_lab.harness.pages import PageTable, by_row

COLUMNS: dict[str, CellText] = {
    "seeds": seeds,
    "AUC": bracketed("auc", 3),
    "honest held": bracketed("fpr", 2, percent=True),
    "lies held": bracketed("recall", 1, percent=True),
    "targets reached": bracketed("goals_passed", 1, percent=True),
    "misbehaviour": before_after("misbehaviour", 1, percent=True),
    "hops": lambda row: f"{plus_minus('hops_before', 1)(row)} → {plus_minus('hops_after', 1)(row)}",
    "agents reached": before_after("coverage", 1, percent=True),
    "jobs done": bracketed("decided_after", 1, percent=True),
    "put right": plus_minus("rewritten", 1),
    "tries": plus_minus("tries", 1),
}

_OTHERS = {n: COLUMNS[n] for n in ("seeds", "AUC", "honest held", "lies held", "targets reached", "misbehaviour")}

TABLES: dict[str, PageTable] = {
    "notes/main": by_row("notes/main", "defence", COLUMNS),
    "notes/adaptive": by_row("notes/adaptive", "attacker", COLUMNS),
    "notes/baselines": by_row("notes/baselines", "detector", _OTHERS),
    "notes/ablations": by_row("notes/ablations", "guard", _OTHERS),
}
