"""The tables of a gate that comes late, in docs/memory-study.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lazaretto_lab.harness.cells import NOTHING, CellText, bracketed, plus_minus, seeds
from lazaretto_lab.harness.pages import ExperimentTable, PageTable, by_row
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.studies.memory.late import BINS, DEPTHS

DONE = ("isolate", "rewrite", "reconcile")
PUBLISHED = "with second looks and repair"
DESCENT = "and everything within two hops isolated, rewritten beyond"
LATE: dict[str, CellText] = {
    "seeds": seeds,
    "misbehaviour": bracketed("misbehaviour", 1, percent=True),
    "coverage": bracketed("coverage", 1, percent=True),
    "mean hops": plus_minus("hops", 2),
    "furthest": plus_minus("max_hops", 1),
    "poison held": bracketed("poison_held", 1, percent=True),
    "honest kept": bracketed("honest_kept", 2, percent=True),
    "decisions 3 hops away and more": plus_minus("far", 0),
}


def _depths(rows: Mapping[str, RowResults]) -> list[list[str]]:
    """What was judged anew because it was made from a caught memory, by hops; all seeds of two gates together."""
    lines = []
    runs = {name: [r.measures for r in rows[name].results] for name in (PUBLISHED, DESCENT)}
    middle = (BINS[:-1] + BINS[1:]) / 2
    for depth in range(DEPTHS):
        scores = np.sum([run["score_by_depth"][depth] for run in runs[PUBLISHED] if "score_by_depth" in run], axis=0)
        total = int(np.sum(scores))
        line = [f"{depth + 1}" + ("+" if depth + 1 == DEPTHS else ""), f"{total:,}"]
        line.append(f"{float(scores @ middle) / total:.2f}" if total else NOTHING)
        line.append(f"{100 * float(np.sum(scores[7:])) / total:.1f} %" if total else NOTHING)
        for name in runs:
            done = [sum(run.get(f"{what}_by_depth", [0] * DEPTHS)[depth] for run in runs[name]) for what in DONE]
            line.append(" / ".join(str(count) for count in done))
        lines.append(line)
    return lines


HEADINGS = (
    "hops",
    "judged anew",
    "mean probability",
    "above .7",
    "published rule: isolated / rewritten / reconciled",
    "by descent",
)
TABLES: dict[str, PageTable] = {
    "memory/late": by_row("memory/late", "gate, from round 60 on", LATE),
    "memory/depths": ExperimentTable("memory/late", HEADINGS, _depths),
}
