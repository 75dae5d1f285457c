"""The labelled items of AIR-Bench, and what a jury that judged them is worth."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.cases.library import starter_cases
from lazaretto.cases.records import InputKind, Label
from lazaretto.errors import InputError
from lazaretto.gates.content.records import Content
from lazaretto.learn.curate import LabelledContent, labelled_rows
from lazaretto_lab.metrics.detection import confusion
from lazaretto_lab.metrics.intervals import bootstrap_interval, wilson_interval


def data_folder() -> Path:
    """The folder of AIR-Bench files: ``LAZARETTO_SHARED``/data/air_bench, or beside the checkout."""
    beside = Path(__file__).resolve().parents[6] / "shared"
    folder = Path(os.environ.get("LAZARETTO_SHARED", beside)) / "data" / "air_bench"
    if not folder.is_dir():
        raise InputError(
            "data", f"no AIR-Bench files in {folder}", "Set LAZARETTO_SHARED to the folder that holds data/"
        )
    return folder


def items_of(kind: str, part: str, limit: int, seed: int) -> list[LabelledContent]:
    """Items of ``<part>_<kind>.jsonl``; a limit keeps the share of risky ones.

    Part ``starter`` is the cases that ship, which the embedded jury was not trained on.
    """
    if part == "starter":
        cases = [case for case in starter_cases() if case.kind is InputKind(kind)]
        rows = [LabelledContent(Content(c.id, c.text, description=c.description), c.label) for c in cases]
    else:
        rows = labelled_rows(data_folder() / f"{part}_{InputKind(kind).value}.jsonl")
    if not limit or limit >= len(rows):
        return rows
    rng = random.Random(seed)
    chosen: list[LabelledContent] = []
    for label in Label:
        side = [row for row in rows if row.truth is label]
        rng.shuffle(side)
        chosen += side[: round(limit * len(side) / len(rows))]
    rng.shuffle(chosen)
    return chosen


def figures(truth: Sequence[bool], said: Sequence[bool], undecided: Sequence[bool]) -> dict[str, Any]:
    """Precision, recall and F1 over every item, bootstrap intervals, and the bounds that undecided items leave.

    ``right`` is the share that was decided and decided rightly; figures ``_decided`` leave undecided items out, as the
    paper does with answers that could not be read.
    """
    rows = np.column_stack([np.array(truth, dtype=float), np.array(said, dtype=float)])
    count = confusion(truth, said)

    def f1(sample: Any) -> float:
        value = confusion(sample[:, 0] > 0, sample[:, 1] > 0).f1
        return 0.0 if np.isnan(value) else value

    interval = bootstrap_interval(rows, statistic=f1)
    worst = [(not t) if u else s for t, s, u in zip(truth, said, undecided, strict=True)]
    best = [t if u else s for t, s, u in zip(truth, said, undecided, strict=True)]
    bounded = bootstrap_interval(np.column_stack([truth, worst]).astype(float), statistic=f1)
    right = wilson_interval(sum(t == w for t, w in zip(truth, worst, strict=True)), len(rows))
    settled = [n for n, gone in enumerate(undecided) if not gone]
    decided = confusion([truth[n] for n in settled], [said[n] for n in settled]).figures()
    return {
        **{name: value for name, value in count.figures().items() if name in ("precision", "recall", "f1", "fpr")},
        **{f"{name}_decided": decided[name] for name in ("precision", "recall", "f1")},
        "f1_low": interval.low,
        "f1_high": interval.high,
        "f1_worst": bounded.value,
        "f1_worst_low": bounded.low,
        "f1_worst_high": bounded.high,
        "f1_best": f1(np.column_stack([truth, best]).astype(float)),
        "right": right.value,
        "right_low": right.low,
        "right_high": right.high,
        "items": len(rows),
        "undecided": int(sum(undecided)),
    }
