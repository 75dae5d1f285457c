"""From left-out scores to thresholds and risk: what a logit meant on texts of sources the model had not seen.

Scores of the folds are the only honest material for this: the shipped weights have seen every source, so their own
scores on them would promise too much.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto_lab.training.screener.bundle import read_rows
from lazaretto_lab.training.screener.leave_one_out import FOLDS

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
RISKS = {0.1: 0.2, 0.05: 0.3, 0.02: 0.5, 0.01: 0.6, 0.005: 0.7, 0.001: 0.9}
"""The risk at the threshold of each rate: the scale of ``Screening.risk``."""
USER = "direct_user"
"""Kind of texts that users said to their assistant: orders by right, which the gate tells by their source."""
FEWEST = 50
"""Honest texts a source must have to count in the thresholds."""

Scored = Mapping[str, Mapping[str, NDArray[Any]]]
"""Source -> ``label``, ``logit``, ``language`` and ``kind`` of its tested texts."""


def read_folds(folder: Path, variant: str = "") -> dict[str, dict[str, NDArray[Any]]]:
    """The left-out scores that training kept in a folder; ``variant`` names a recipe other than the default."""
    paths = [folder / f"{fold}{'@' if variant else ''}{variant}.json" for fold in FOLDS]
    if not all(path.is_file() for path in paths):
        missing = next(path for path in paths if not path.is_file())
        raise InputError("folder", f"{missing} does not exist", "First: lazaretto train screener train")
    rows = {name: np.array(values) for name, values in read_rows(folder).items()}
    logit = np.full(len(rows["label"]), np.nan)
    for path in paths:
        result = json.loads(path.read_text(encoding="utf-8"))
        logit[result["text"]] = result["logit"]
    rows["logit"] = logit
    columns = ("label", "logit", "language", "kind")
    return {
        source: {name: rows[name][rows["source"] == source] for name in columns}
        for source in dict.fromkeys(rows["source"].tolist())
    }


def calibrate(scored: Scored, languages: Sequence[str], spread: float) -> dict[str, Any]:
    """Thresholds by false-positive rate, averaged over sources, and the scale of risk that hangs on them."""
    honest = [rows["logit"][counted(rows, languages) & (rows["label"] == 0)] for rows in scored.values()]
    honest = [logits for logits in honest if len(logits) >= FEWEST]
    thresholds = {rate: _threshold(honest, rate) for rate in RATES}
    usual = float(np.median(np.concatenate(honest)))
    knots = [(usual, 0.02), *((thresholds[rate], RISKS[rate]) for rate in sorted(RISKS, reverse=True))]
    knots.append((knots[-1][0] + 3.0, 0.99))
    return {
        "thresholds": {str(rate): threshold for rate, threshold in thresholds.items()},
        "logits": [round(logit, 4) for logit, _ in knots],
        "risk": [risk for _, risk in knots],
        "spread": round(spread, 3),
        "languages": list(languages),
    }


def counted(rows: Mapping[str, NDArray[Any]], languages: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts of a source the thresholds are for: those in known languages that no user said."""
    known: NDArray[np.bool_] = np.isin(rows["language"], languages)
    said: NDArray[np.bool_] = known & (rows["kind"] != USER)
    return said


def _threshold(honest: Sequence[NDArray[Any]], rate: float) -> float:
    """The smallest logit at which the false-positive rate, averaged over sources, is at most ``rate``."""
    candidates = np.unique(np.concatenate(honest))
    share = np.mean([1 - np.searchsorted(np.sort(one), candidates, side="right") / len(one) for one in honest], axis=0)
    chosen = float(candidates[int(np.argmax(share <= rate))])
    return math.ceil(chosen * 1e4) / 1e4
