"""The tables of the jury's model card, and of the debates that docs/moderation-study.md publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from lazaretto_lab.harness.cells import CellText, plus_minus, share, share_with_bounds
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.harness.pages import ExperimentTable, PageTable, WeightsTable, by_row, made_line, markdown_table
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.tables import RowResults, load_results
from lazaretto_lab.training.jury.card import NAMES, card_table

KINDS = ("text", "image", "pair")
PAPER_SEATS: Mapping[str, tuple[float, float, float]] = {
    "full": (0.92, 0.87, 0.84),
    "no retrieval": (0.91, 0.86, 0.80),
    "no supporter": (0.90, 0.83, 0.79),
    "no loose": (0.92, 0.77, 0.83),
    "no strict": (0.90, 0.82, 0.83),
    "arbiter only": (0.87, 0.74, 0.70),
}
"""F1 of the published ablations (Aetheria, table 3), by kind; debaters gpt-4o-mini, Arbiter gpt-4o."""
PAPER_ROUNDS: Mapping[str, float] = {"1 round": 0.8501, "2 rounds": 0.8502, "3 rounds": 0.8459}
"""F1 on pairs by rounds (Aetheria, table 4)."""
_SAME_SEATS = {"debate": "full", "one call": "arbiter only"}
"""Rows of ``debate/models`` that are the same ablation under another name."""


def _share(measure: str) -> CellText:
    return lambda row: share(row.values(measure)[0]) if row.values(measure) else "–"


def _three(row: RowResults) -> str:
    """Precision, recall, and F1 with its interval; as many digits as were published where it is quoted."""
    if not row.values("items")[0]:
        return " / ".join(share(row.values(name)[0], 2) for name in ("precision", "recall", "f1"))
    found = [share(row.values(name)[0]) if row.values(name) else "–" for name in ("precision", "recall")]
    return " / ".join([*found, share_with_bounds("f1")(row)])


def _decided(row: RowResults) -> str:
    """``.612 of 71``: F1 over the items that were decided, and how many these are."""
    items, gone = (row.values(name)[0] for name in ("items", "undecided"))
    return f"{share(row.values('f1_decided')[0], 2) if row.values('f1_decided') else '–'} of {items - gone:.0f}"


def _ranked(row: RowResults) -> str:
    """Precision and recall of the labels, and how well the risk ranks items."""
    return " / ".join(share(row.values(n)[0], 2) if row.values(n) else "–" for n in ("precision", "recall", "auc"))


def _gone(row: RowResults) -> str:
    """``30 of 79``: items without a verdict, and items."""
    return " of ".join(f"{row.values(name)[0]:.0f}" for name in ("undecided", "items"))


def _by_kind(
    experiment: str, first: str, cells: Mapping[str, CellText], beside: Callable[[str], Sequence[str]] | None = None,
    only: Callable[[str], bool] = bool,
) -> ExperimentTable:  # fmt: skip
    """A line for each name that rows of several kinds share (``NAME, KIND``), with every cell for every kind, and
    behind it what ``beside`` says of the name."""

    def body(rows: Mapping[str, RowResults]) -> list[list[str]]:
        names = dict.fromkeys(name.rpartition(", ")[0] for name in rows)
        lines = []
        for name in filter(only, names):
            found = [rows.get(f"{name}, {kind}") for kind in KINDS]
            line = [cell(row) if row and row.results else "–" for row in found for cell in cells.values()]
            lines.append([name, *line, *(beside(name) if beside else ())])
        return lines

    headings = [f"{kind}: {words}" if words else kind for kind in KINDS for words in cells]
    extra = ["paper's F1: text, image, pair"] if beside is _paper_seats else ["paper's F1 on pairs"] if beside else []
    return ExperimentTable(experiment, (first, *headings, *extra), body, finished=True)


def _paper_seats(name: str) -> Sequence[str]:
    found = PAPER_SEATS.get(_SAME_SEATS.get(name, name))
    return [", ".join(share(one, 2) for one in found) if found else "–"]


def _paper_rounds(name: str) -> Sequence[str]:
    return [share(PAPER_ROUNDS[name], 4) if name in PAPER_ROUNDS else "–"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a verdict takes: the shipped jury's time, a language model's calls and tokens, and the paper's figures."""

    headings: tuple[str, ...] = ("judges", "calls an item", "tokens an item", "seconds an item")

    def markdown(self, results: Path) -> str:
        """From the stored costs of the jury and the rows of the language model."""
        jury = orjson.loads((results / "content" / "cost.json").read_bytes())
        lines = [
            [f"shipped jury, {kind}", "–", "–", f"{jury[f'{kind}, always a debate']['mean ms'] / 1000:.2f}"]
            for kind in KINDS
        ]
        made = ""
        if ResultFolder(results, "debate/models").finished():
            rows = load_results(load_experiment("debate/models"), results)
            told = made_line([row for row in rows if row.results], results / "debate/models")
            made = f"\nOf Qwen2.5-Coder-1.5B: {told}\n"
            for row in rows:
                name, _, kind = row.row.name.rpartition(", ")
                if name in ("debate", "one call", "one question") and row.results:
                    cells = [plus_minus("calls", 1)(row), plus_minus("tokens", 0)(row)]
                    lines.append([f"Qwen2.5-Coder-1.5B, {name}, {kind}", *cells, "–"])
        lines.append(["paper: gpt-4o-mini debates, gpt-4o rules", "6", "11710", "6.88"])
        return markdown_table(self.headings, lines) + made


TABLES: dict[str, PageTable] = {
    **{f"jury/{name}": WeightsTable(name, card_table) for name in NAMES},
    "debate/table2": _by_kind("debate/table2", "P / R / F1 of", {"": _three}),
    "debate/table3": _by_kind("debate/table3", "F1, seats", {"": share_with_bounds("f1")}, _paper_seats),
    "debate/table4": _by_kind("debate/table4", "F1, rounds", {"": share_with_bounds("f1")}, _paper_rounds),
    "debate/rule_order": _by_kind(
        "debate/rule_order", "tried first", {"F1": share_with_bounds("f1"), "for review": plus_minus("review", 0)}
    ),
    "debate/learning": by_row(
        "debate/learning",
        "pairs, F1",
        {f"batch {number}": plus_minus(f"f1_batch_{number}", 3) for number in range(1, 5)}
        | {"mean": plus_minus("f1_mean", 3)},
    ),
    "debate/models": _by_kind(
        "debate/models",
        "Qwen2.5-Coder-1.5B",
        {"F1": share_with_bounds("f1", 2), "F1 of what was decided": _decided},
        _paper_seats,
    ),
    "debate/models_outcomes": _by_kind(
        "debate/models",
        "Qwen2.5-Coder-1.5B",
        {"P / R / AUC": _ranked, "decided rightly": share_with_bounds("right", 2), "undecided": _gone},
    ),
    "debate/cost": Cost(),
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
}
