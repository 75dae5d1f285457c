"""Text memories as an experiment: one source of matched pairs (or of benign traffic), one method.

Settings: ``source`` (a corpus of the development data) and ``method``: ``left out`` (our screener trained without the
source; reads the scores that ``training.screener.train`` keeps, in the folder ``folds``), ``shipped`` (the
weights of the package, which have seen parts of the corpora), ``tf-idf`` (the same folds) or the name of a peer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.metrics.detection import auc, confusion, recall_at_fpr
from lazaretto_lab.metrics.intervals import bootstrap_interval
from lazaretto_lab.studies.memory.peers import PEERS, open_peer
from lazaretto_lab.training.screener.baseline import tfidf_scores
from lazaretto_lab.training.screener.calibration import read_folds
from lazaretto_lab.training.screener.leave_one_out import family_of, held_out

Scores = NDArray[np.float64]


def data_folder() -> Path:
    """The development data: ``LAZARETTO_SHARED``/data, or beside the checkout."""
    beside = Path(__file__).resolve().parents[6] / "shared"
    folder = Path(os.environ.get("LAZARETTO_SHARED", beside)) / "data"
    if not folder.is_dir():
        raise InputError("data", f"{folder} does not exist", "Set LAZARETTO_SHARED to the folder that holds data/")
    return folder


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """AUC, recall at 1 % false positives, and recall and false positives where the method itself draws its line."""
    source, method = str(settings["source"]), str(settings["method"])
    data = data_folder()
    if seed:
        raise InputError("seeds", "every source is tested on one draw of its texts", "Run with --seeds 1")
    fold, folder = family_of(source), Path(str(settings.get("folds", "runs/screener")))
    samples = [sample for sample, _ in held_out(data, source)]
    truth = np.array([s.poisoned for s in samples])
    held_at = shared_screener().calibration.threshold(0.01) if method in ("left out", "shipped") else 0.0
    if method == "left out":
        truth, scores = _left_out(source, folder)
    elif method == "shipped":
        scores = np.array([s.logit for s in shared_screener().screen([s.text for s in samples])])
    elif method == "tf-idf":
        truth, _ = _left_out(source, folder)
        scores = tfidf_scores(fold, folder)[source]
    elif method in PEERS:
        judge = open_peer(method)
        scores = np.array([float(judge(s.text)) - 0.5 for s in samples])
    else:
        raise InputError("method", f"{method!r} is unknown", f"Use left out, shipped, tf-idf, {', '.join(PEERS)}")
    return _measures(truth, scores, held_at, ranked=method not in PEERS)


def _left_out(source: str, folder: Path) -> tuple[NDArray[np.bool_], Scores]:
    scored = read_folds(folder)
    return scored[source]["label"] == 1, np.asarray(scored[source]["logit"], dtype=np.float64)


def _measures(truth: NDArray[np.bool_], scores: Scores, held_at: float, ranked: bool) -> dict[str, Any]:
    counts = confusion(truth, scores > held_at)
    found: dict[str, Any] = {"texts": len(truth), "fpr": counts.fpr}
    if not truth.any():
        return found
    found["recall"] = counts.recall
    if ranked:  # a yes or no has no order to measure
        rows = np.column_stack([truth, scores])
        area = bootstrap_interval(rows, statistic=lambda r: auc(r[:, 0] == 1, r[:, 1]), samples=500)
        found |= {"auc": area.value, "auc_low": area.low, "auc_high": area.high}
        found["recall_1_percent"] = recall_at_fpr(truth, scores)
    return found
