"""The tables of docs/moderation.md, and the one of the jury's model card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from lazaretto_lab.harness.cells import share, share_with_bounds
from lazaretto_lab.harness.pages import ExperimentTable, PageTable, WeightsTable
from lazaretto_lab.harness.tables import RowResults

KINDS = ("text", "image", "pair")


def _by_kind(rows: Mapping[str, RowResults], name: str, digits: int = 3) -> list[str]:
    return [share(rows[f"{name}, {kind}"].values("f1")[0], digits) for kind in KINDS]


def _juries(rows: Mapping[str, RowResults]) -> list[list[str]]:
    juries = {
        "embedded jury, starter library (what a new user has)": "jury, starter library",
        "embedded jury, public cases imported": "jury, imported cases",
    }
    lines = [
        [label, *(share_with_bounds("f1")(rows[f"{name}, {kind}"]) for kind in KINDS)] for label, name in juries.items()
    ]
    lines.append(["the aim", ".87", ".80", ".76"])
    for peer in ("Aetheria", "ShieldGemma-9B", "OpenAI moderation"):
        lines.append([f"*quoted: {peer}*", *(f"*{figure}*" for figure in _by_kind(rows, f"{peer} (quoted)", 2))])
    return lines


def _roles(rows: Mapping[str, RowResults]) -> list[list[str]]:
    names = {
        "full": "full",
        "no retrieval, or no Supporter": "no retrieval",
        "no Loose": "no loose",
        "no Strict": "no strict",
        "Arbiter alone (the middle of both models, no debate)": "arbiter only",
    }
    return [[label, *_by_kind(rows, name)] for label, name in names.items()]


CARD = {
    "Strict alone": "strict alone",
    "Loose alone": "loose alone",
    "debate without retrieval": "debate without retrieval",
    "**debate**": "debate",
    "debate, context rule first": "debate, context first",
}
"""Lines of the model card, by what ``assemble`` calls them."""


def _card() -> list[list[str]]:
    """F1, with its interval in the two lines that matter most, and AUC in brackets; from ``jury.json``."""
    file = resources.files("lazaretto.models").joinpath("weights", "jury", "jury.json")
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["measured"]
    lines = []
    for label, arm in CARD.items():
        stars, bounds = ("**", True) if label.startswith("**") else ("", False)
        lines.append([label, *(stars + _score(measured[kind][arm], bounds) + stars for kind in (*KINDS, "all"))])
    shipped = [f"*{_score(measured[f'{kind}, shipped pair']['debate'], bounds=True)}*" for kind in KINDS]
    return [*lines, ["*debate of the pair that ships*", *shipped, ""]]


def _score(figures: Mapping[str, Any], bounds: bool) -> str:
    low, high = (share(bound) for bound in figures["f1_interval"])
    return share(figures["f1"]) + (f" [{low}, {high}]" if bounds else "") + f" ({share(figures['auc'])})"


TABLES: dict[str, PageTable] = {
    "jury": WeightsTable(("F1 (AUC)", *KINDS, "all"), _card),
    "debate/table2": ExperimentTable("debate/table2", ("`debate/table2`: F1 [95 % interval]", *KINDS), _juries),
    "debate/table3": ExperimentTable(
        "debate/table3", ("`debate/table3`: F1 without a role (public cases imported)", *KINDS), _roles
    ),
}
