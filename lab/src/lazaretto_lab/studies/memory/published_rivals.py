"""The tables of rivals and of types left out, in docs/memory-study.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lazaretto_lab.harness.cells import CellText, before_after, bracketed, fall, seeds
from lazaretto_lab.harness.pages import ExperimentTable, PageTable, by_row
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.metrics.intervals import t_interval
from lazaretto_lab.studies.memory.rivals import SWEEP

BY_RULE: dict[str, CellText] = {
    "recall, threshold by F1": bracketed("recall_f1", 2),
    "FPR": bracketed("fpr_f1", 2, percent=True),
    "recall, threshold by honest memories": bracketed("recall_honest", 2),
    "its FPR": bracketed("fpr_honest", 2, percent=True),
}
DETECTION: dict[str, CellText] = {
    "seeds": seeds,
    "AUC": bracketed("auc", 3),
    "recall at 1 % FPR": bracketed("recall_1_percent", 2),
    **BY_RULE,
}
LEFT_OUT: dict[str, CellText] = {
    "seeds": seeds,
    "AUC": bracketed("auc", 3),
    **BY_RULE,
    "agreement added: by F1": bracketed("recall_f1_joined", 2),
    "agreement added: by honest memories": bracketed("recall_honest_joined", 2),
}
TYPES: dict[str, CellText] = {
    "seeds": seeds,
    **{f"by F1: {kind}": bracketed(f"recall_f1_{kind}", 2) for kind in ("I", "II", "III")},
    **{f"by honest memories: {kind}": bracketed(f"recall_honest_{kind}", 2) for kind in ("I", "II", "III")},
}
LIVE: dict[str, CellText] = {
    "seeds": seeds,
    "misbehaviour": before_after("misbehaviour", 1, percent=True),
    "coverage": fall("coverage_drop", 1),
    "honest kept": bracketed("honest_kept_live", 2, percent=True),
    "poison held": bracketed("held_poison", 1, percent=True),
}
CREDIBILITY: dict[str, CellText] = {
    "seeds": seeds,
    "alpha, seed by seed": lambda row: ", ".join(f"{value:g}" for value in row.values("alpha")),
    "AUC": bracketed("auc", 4),
    "without credibility": bracketed("auc_no_credibility", 4),
    "credibility alone": bracketed("auc_credibility", 3),
}


def _sweep(rows: Mapping[str, RowResults]) -> list[list[str]]:
    """Recall and false alarms of ours at every second threshold, means over seeds."""
    runs = [r.measures for r in rows["ours"].results]
    found, false = (np.mean([run[f"sweep_{name}"] for run in runs], axis=0) for name in ("recall", "fpr"))
    return [
        [f"{bar:.2f}", f"{r:.3f}", f"{100 * f:.2f} %"]
        for n, (bar, r, f) in enumerate(zip(SWEEP, found, false, strict=True))
        if n % 2 == 0
    ]


def _gap(rows: Mapping[str, RowResults], pair: tuple[str, str], measures: tuple[str, str]) -> str:
    """``4.5 [3.5, 5.4]``: how many points the first row's measure lies above the second's, seed by seed."""
    first, second = (
        [r.measures[measure] for r in rows[name].results] for name, measure in zip(pair, measures, strict=True)
    )
    gap = t_interval([100 * (a - b) for a, b in zip(first, second, strict=True)])
    return f"{gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"


def _gaps(experiment: str, rivals: Sequence[str], measures: Mapping[str, str]) -> ExperimentTable:
    """Ours against each rival, seed by seed."""

    def body(rows: Mapping[str, RowResults]) -> list[list[str]]:
        return [[name, *(_gap(rows, ("ours", name), (m, m)) for m in measures.values())] for name in rivals]

    return ExperimentTable(experiment, ("ours less", *measures), body)


def _mends(rows: Mapping[str, RowResults]) -> list[list[str]]:
    """What was tried for a type that nobody has seen, against ours as it is, at the threshold by honest memories."""
    lines = []
    for name, change, measure in (
        ("embeddings half hidden", ", embeddings half hidden", "recall_honest"),
        ("no contrastive term", ", no contrastive term", "recall_honest"),
        ("agreement added", "", "recall_honest_joined"),
    ):
        pairs = [(f"ours{change}, without {kind}", f"ours, without {kind}") for kind in ("I", "II", "III")]
        lines.append([name, *(_gap(rows, pair, (measure, "recall_honest")) for pair in pairs)])
    return lines


STRONG = ("gradient boosting", "graph attention network")
TABLES: dict[str, PageTable] = {
    "memory/rivals": by_row("memory/rivals", "method", DETECTION),
    "memory/rivals_types": by_row("memory/rivals", "method, all types seen", TYPES),
    "memory/rivals_live": by_row("memory/rivals_live", "method", LIVE),
    "memory/left_out": by_row("memory/left_out", "method, type left out", LEFT_OUT),
    "memory/rivals_gap": _gaps(
        "memory/rivals",
        ("neighbour agreement", *STRONG),
        {
            "AUC": "auc",
            "recall at 1 % FPR": "recall_1_percent",
            "recall, threshold by honest memories": "recall_honest",
        },
    ),
    "memory/rivals_live_gap": _gaps(
        "memory/rivals_live",
        ("neighbour agreement", *STRONG),
        {
            "misbehaviour left": "misbehaviour_after",
            "coverage taken away": "coverage_drop",
            "poison held": "held_poison",
        },
    ),
    "memory/mends": ExperimentTable("memory/left_out", ("change", "I left out", "II", "III"), _mends),
    "memory/temperature": by_row("memory/temperature", "contrastive term", DETECTION),
    "memory/sweep": ExperimentTable("memory/rivals", ("threshold", "recall", "false alarms"), _sweep),
    "memory/credibility": by_row("memory/rivals", "method", CREDIBILITY, only=lambda row: row == "ours"),
}
