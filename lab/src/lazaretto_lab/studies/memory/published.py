"""The tables of docs/memory-study.md."""

from __future__ import annotations

from collections.abc import Mapping

from lazaretto_lab.harness.cells import CellText, before_after, bracketed, fall, seeds
from lazaretto_lab.harness.pages import ExperimentTable, PageTable, by_row
from lazaretto_lab.harness.tables import RowResults

COLUMNS: dict[str, CellText] = {
    "seeds": seeds,
    "AUC": bracketed("auc", 3),
    "FPR": bracketed("fpr", 2, percent=True),
    "recall at 1 % FPR": bracketed("recall_1_percent", 2),
    "misbehaviour": before_after("misbehaviour", 1, percent=True),
    "mean hops": before_after("hops", 2),
    "with origins": before_after("hops_with_origins", 2),
    "coverage": fall("coverage_drop", 1),
    "honest kept": bracketed("honest_kept_live", 2, percent=True),
    "poison held": bracketed("held_poison", 1, percent=True),
}

ADAPTIVE: dict[str, CellText] = {
    "seeds": seeds,
    "queries needed": bracketed("queries_needed", 1),
    "can pass at all": bracketed("can_pass", 0, percent=True),
    "poison held": bracketed("held_poison", 1, percent=True),
    "harm each": bracketed("harm_of_poison", 2),
    "misbehaviour": before_after("misbehaviour", 1, percent=True),
    "without attack": bracketed("misbehaviour_calm", 1, percent=True),
    "of the undefended harm": bracketed("harm_share", 0, percent=True),
    "honest kept": bracketed("honest_kept_live", 2, percent=True),
    "FPR": bracketed("fpr", 2, percent=True),
}

PAPER = {
    0.005: ("0.97", "4.2 → 1.1", "2.0 → 0.9"),
    0.01: ("0.96", "6.8 → 1.3", "2.4 → 1.0"),
    0.02: ("0.95", "9.7 → 1.6", "3.0 → 1.1"),
    0.05: ("0.94", "15.6 → 2.3", "3.8 → 1.4"),
    0.1: ("0.91", "24.5 → 4.8", "5.2 → 2.1"),
}
"""The paper's AUC, misbehaviour in per cent and hops, by share of poison."""


def _ratios(rows: Mapping[str, RowResults]) -> list[list[str]]:
    lines = []
    for row in rows.values():
        ratio = float(row.row.settings["ratio"])
        auc, misbehaviour, hops = PAPER[ratio]
        lines.append(
            [
                f"{100 * ratio:.1f}%",
                seeds(row),
                f"{bracketed('auc', 3)(row)} ({auc})",
                f"{before_after('misbehaviour', 1, percent=True)(row)} ({misbehaviour})",
                f"{before_after('hops_with_origins', 2)(row)} ({hops})",
                before_after("hops", 2)(row),
                fall("coverage_drop", 1)(row),
                bracketed("honest_kept_live", 2, percent=True)(row),
            ]
        )
    return lines


RATIO_HEADINGS = (
    "poison",
    "seeds",
    "AUC (paper)",
    "misbehaviour (paper, %)",
    "hops with origins (paper)",
    "hops",
    "coverage",
    "honest kept",
)

PEERS = ("agent-memory-guard", "agent-immune", "memory-blackbox")


def _texts(rows: Mapping[str, RowResults]) -> list[list[str]]:
    lines = []
    for source in dict.fromkeys(str(row.row.settings["source"]) for row in rows.values()):
        by_method = {str(r.row.settings["method"]): r for r in rows.values() if r.row.settings["source"] == source}
        own, bag = by_method["left out"], by_method["tf-idf"]
        ranked = [f"{_one(own, m, d)} ({_one(bag, m, d)})" if own.values(m) else "" for m, d in RANKED]
        lines.append([source, *ranked, _caught(own), *(_caught(by_method[peer]) for peer in PEERS)])
    return lines


RANKED = (("auc", 3), ("recall_1_percent", 2))


def _one(row: RowResults, measure: str, digits: int) -> str:
    return f"{row.values(measure)[0]:.{digits}f}"


def _caught(row: RowResults) -> str:
    """Recall and false positives where the method draws its line; corpora without poison have false positives only."""
    return " / ".join(f"{row.values(m)[0]:.1%}" for m in ("recall", "fpr") if row.values(m))


TABLES: dict[str, PageTable] = {
    "memory/main": by_row("memory/main", "method", COLUMNS),
    "memory/methods": by_row("memory/methods", "method", COLUMNS),
    "memory/guard": by_row("memory/guard", "defence", COLUMNS),
    "memory/guard_main": by_row("memory/guard_main", "defence", COLUMNS),
    "memory/axes": by_row("memory/axes", "attack", COLUMNS),
    "memory/adaptive": by_row("memory/adaptive", "attacker", ADAPTIVE),
    "memory/ratios": ExperimentTable("memory/ratios", RATIO_HEADINGS, _ratios),
    "memory/ablations": by_row("memory/ablations", "row", COLUMNS),
    "memory/disturbances": by_row("memory/disturbances", "row", COLUMNS),
    "memory/texts": ExperimentTable(
        "memory/texts",
        (
            "left out",
            "AUC (TF-IDF)",
            "recall at 1 % FPR (TF-IDF)",
            "ours: recall / FPR at the 1 % threshold",
            *PEERS,
        ),
        _texts,
    ),
}
