"""The tables of the jury's model card; those of debates on AIR-Bench are printed by ``bench table``."""

from __future__ import annotations

from lazaretto_lab.harness.pages import PageTable, WeightsTable
from lazaretto_lab.training.jury.card import NAMES, card_table

TABLES: dict[str, PageTable] = {f"jury/{name}": WeightsTable(name, card_table) for name in NAMES}
