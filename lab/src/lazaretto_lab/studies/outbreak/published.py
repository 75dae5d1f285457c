"""The tables of docs/worlds.md."""

from __future__ import annotations

from lazaretto_lab.harness.cells import CellText, plus_minus, seeds
from lazaretto_lab.harness.pages import by_row

COLUMNS: dict[str, CellText] = {
    "seeds": seeds,
    "cum. % @8": plus_minus("cumulative_8", 1),
    "@16": plus_minus("cumulative_16", 1),
    "@24": plus_minus("cumulative_24", 1),
    "≥ 85 % at": plus_minus("first_cumulative_85", 1),
    "≥ 95 % at": plus_minus("first_cumulative_95", 1),
    "now % @24": plus_minus("current_24", 1),
    "beta": plus_minus("beta", 2),
    "alpha ask": plus_minus("alpha_question", 2),
    "answer": plus_minus("alpha_answer", 2),
}
BENIGN: dict[str, CellText] = {
    "seeds": seeds,
    "dispersion kept": plus_minus("narrowed", 2),
    "SDI": plus_minus("sdi", 3),
    "pictures met": plus_minus("pictures_met", 0),
}
SQUARED: dict[str, CellText] = {
    "seeds": seeds,
    "dispersion kept": plus_minus("narrowed", 2),
    "squared": plus_minus("narrowed_squared", 2),
    "SDI": plus_minus("sdi", 3),
    "SDI, squared": plus_minus("sdi_squared", 3),
}

TABLES = {
    "outbreak/undefended": by_row("outbreak/undefended", "row", COLUMNS, right=True),
    "outbreak/benign_wide": by_row("outbreak/benign_wide", "world", BENIGN, right=True),
    "outbreak/squared": by_row("outbreak/squared", "world", SQUARED, right=True),
    "outbreak/benign": by_row("outbreak/benign", "row", BENIGN, right=True),
}
