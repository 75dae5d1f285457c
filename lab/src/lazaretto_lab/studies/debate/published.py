"""The tables of docs/moderation.md."""

from __future__ import annotations

from collections.abc import Mapping

from lazaretto_lab.harness.cells import share, share_with_bounds
from lazaretto_lab.harness.pages import PageTable
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


def _seats(rows: Mapping[str, RowResults]) -> list[list[str]]:
    names = {
        "full": "full",
        "no retrieval, or no Supporter": "no retrieval",
        "no Loose": "no loose",
        "no Strict": "no strict",
        "Arbiter alone (the middle of both models, no debate)": "arbiter only",
    }
    return [[label, *_by_kind(rows, name)] for label, name in names.items()]


TABLES = {
    "debate/table2": PageTable("debate/table2", ("`debate/table2`: F1 [95 % interval]", *KINDS), _juries),
    "debate/table3": PageTable(
        "debate/table3", ("`debate/table3`: F1 without a seat (public cases imported)", *KINDS), _seats
    ),
}
