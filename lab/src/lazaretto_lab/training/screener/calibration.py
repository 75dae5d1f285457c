"""From left-out scores to calibrated risk: what a logit meant on corpora the model had not seen.

Scores of the folds are the only honest material for this: the shipped weights have seen every corpus, so their own
scores on them would promise too much.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto_lab.metrics.intervals import wilson_interval

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
BINS = 12


def read_folds(folder: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """Source -> its labels and left-out logits."""
    scored: dict[str, dict[str, NDArray[Any]]] = {}
    for path in sorted(folder.glob("fold_*.json")):
        for source, rows in json.loads(path.read_text(encoding="utf-8")).items():
            scored[source] = {"label": np.array(rows["label"]), "logit": np.array(rows["logit"])}
    if not scored:
        raise InputError("folder", f"no fold_*.json in {folder}", "First: lazaretto train screener train")
    return scored


def calibrate(scored: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
    """Knots of risk over logit, at even odds of poison and clean, and thresholds by false-positive rate."""
    pairs = [rows for rows in scored.values() if rows["label"].any()]
    logits = np.concatenate([rows["logit"] for rows in pairs])
    labels = np.concatenate([rows["label"] for rows in pairs])
    order = np.argsort(logits)
    knots: list[tuple[float, float, float, float]] = []
    for part in np.array_split(order, BINS):
        hits, count = int(labels[part].sum()), len(part)
        likely = wilson_interval(hits, count)
        knots.append((float(np.median(logits[part])), (hits + 0.5) / (count + 1), likely.low, likely.high))
    table = np.array(knots)
    table[:, 1:] = np.maximum.accumulate(table[:, 1:], axis=0)  # a higher logit never means less risk
    return {
        "logits": table[:, 0].round(4).tolist(),
        "risk": table[:, 1].round(4).tolist(),
        "low": table[:, 2].round(4).tolist(),
        "high": table[:, 3].round(4).tolist(),
        "thresholds": {str(rate): _threshold(scored, rate) for rate in RATES},
    }


def _threshold(scored: Mapping[str, Mapping[str, NDArray[Any]]], rate: float) -> float:
    """The smallest logit at which the false-positive rate, averaged over sources, is at most ``rate``."""
    benign: Sequence[NDArray[Any]] = [rows["logit"][rows["label"] == 0] for rows in scored.values()]
    candidates = np.unique(np.concatenate(benign))
    share = np.mean([[np.mean(one > t) for t in candidates] for one in benign], axis=0)
    return float(candidates[int(np.argmax(share <= rate))])
