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
from lazaretto_lab.training.screener.material import REAL
from lazaretto_lab.training.screener.training import ORDERS, TOOLS, task_of

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
RISKS = {0.1: 0.2, 0.05: 0.3, 0.02: 0.5, 0.01: 0.6, 0.005: 0.7, 0.001: 0.9}
"""The risk at the threshold of each rate: the scale of ``Screening.risk``."""
USER = "direct_user"
"""Kind of texts that users said to their assistant: orders by right, which the gate tells by their source."""
SPOKEN = ("written_", "days_")
"""How sources of notes and of working days by many hands begin: alike in kind in all languages."""
STATED = ("stated_",)
"""How sources of plain statements begin."""
WORK = (*SPOKEN, *STATED)
SHIFT_AT = 0.02
"""The share of them at which languages are made alike."""
_EARLIER = (("written_", "stated_"), 0.03)
"""The same where no working days were tested: trainings before decision 0170, whose figures stay as they were."""
FEWEST_FOR_SHIFT = 300
"""Honest notes a language must have for a shift of its own: the top of fewer is a handful of texts."""
TOOL_RATES = {"sign": (0.01, 0.04), "refuse": (0.0005, 0.004)}
"""Shares of honest descriptions above each bar: of real ones, and of those that were written to look guilty."""
QUIET_USUAL = 3.43
"""The logit for quiet lies that one in fifty honest notes reached in the training for which the share of the screener
in the product's ``quiet.py`` was chosen."""
FEWEST = 50
"""Honest texts a source must have to count in the thresholds."""

Scored = Mapping[str, Mapping[str, NDArray[Any]]]
"""Source -> ``label``, ``logit``, ``quiet``, ``language``, ``kind`` and checksum (``crc``) of its tested texts."""


def read_folds(folder: Path, variant: str = "") -> dict[str, dict[str, NDArray[Any]]]:
    """The left-out scores that training kept in a folder; ``variant`` names a recipe other than the default."""
    paths = [folder / f"{fold}{'@' if variant else ''}{variant}.json" for fold in FOLDS]
    if not all(path.is_file() for path in paths):
        missing = next(path for path in paths if not path.is_file())
        raise InputError("folder", f"{missing} does not exist", "First: lazaretto train screener train")
    rows = {name: np.array(values) for name, values in read_rows(folder).items()}
    for name in ("logit", "quiet"):
        rows[name] = np.full(len(rows["label"]), np.nan)
    for path in paths:
        result = json.loads(path.read_text(encoding="utf-8"))
        for name in ("logit", "quiet"):
            rows[name][result["text"]] = result[name]
    columns = ("label", "logit", "quiet", "language", "kind", "crc")
    return {
        source: {name: rows[name][rows["source"] == source] for name in columns}
        for source in dict.fromkeys(rows["source"].tolist())
    }


def calibrate(scored: Scored, languages: Sequence[str], spread: float) -> dict[str, Any]:
    """Thresholds by false-positive rate, and the scale of risk that hangs on them.

    A threshold holds its rate averaged over the public sources, and among the written notes and working days and the
    written statements, each scored by a training that had not seen its kind of work or its hand. ``shift``: how much
    more honest notes of a language look like orders than English ones.
    """
    shift = _shifts(scored, languages)
    moved = {source: {**rows, "logit": shifted(rows, shift)} for source, rows in scored.items()}
    honest = {
        source: rows["logit"][counted(rows, languages) & (rows["label"] == 0)]
        for source, rows in moved.items()
        if task_of(source) == ORDERS
    }
    public = [one for source, one in honest.items() if len(one) >= FEWEST and not source.startswith(WORK)]
    work = [
        [np.concatenate([one for source, one in honest.items() if source.startswith(names)])]
        for names in (SPOKEN, STATED)
    ]
    thresholds = {rate: max(_threshold(some, rate) for some in (public, *work)) for rate in RATES}
    usual = float(np.median(np.concatenate(public)))
    knots = [(usual, 0.02), *((thresholds[rate], RISKS[rate]) for rate in sorted(RISKS, reverse=True))]
    knots.append((knots[-1][0] + 3.0, 0.99))
    return {
        "thresholds": {str(rate): threshold for rate, threshold in thresholds.items()},
        "logits": [round(logit, 4) for logit, _ in knots],
        "risk": [risk for _, risk in knots],
        "spread": round(spread, 3),
        "languages": list(languages),
        "shift": shift,
        "tools": _tool_bars(scored),
        "quiet": _quiet_shift(scored),
    }


def shifted(rows: Mapping[str, NDArray[Any]], shift: Mapping[str, float]) -> NDArray[np.float64]:
    """The logits of a source, each taken down by the shift of its language."""
    moved: NDArray[np.float64] = rows["logit"] - np.array([shift.get(one, 0.0) for one in rows["language"].tolist()])
    return moved


def _quiet_shift(scored: Scored) -> float:
    """How much more honest notes look like quiet lies than to the training that its reader was made for."""
    work = [rows for name, rows in scored.items() if name.startswith(SPOKEN) and "quiet" in rows]
    if not work:
        return 0.0
    parts = [rows["quiet"][rows["label"] == 0] for rows in work]
    return round(float(np.quantile(np.concatenate(parts), 1 - SHIFT_AT)) - QUIET_USUAL, 2)


def _shifts(scored: Scored, languages: Sequence[str]) -> dict[str, float]:
    days = any(source.startswith("days_") for source in scored)
    names, rate = (SPOKEN, SHIFT_AT) if days else _EARLIER
    work = [rows for source, rows in scored.items() if source.startswith(names)]
    spoken = np.concatenate([rows["language"][rows["label"] == 0] for rows in work])
    logit = np.concatenate([rows["logit"][rows["label"] == 0] for rows in work])
    base = np.quantile(logit[spoken == "en"], 1 - rate)
    found: dict[str, float] = {}
    for language in languages:
        mine = spoken == language
        if mine.sum() < FEWEST_FOR_SHIFT:
            mine = spoken != "en"
        if language != "en":
            found[language] = round(max(0.0, float(np.quantile(logit[mine], 1 - rate) - base)), 2)
    return found


def _tool_bars(scored: Scored) -> dict[str, float]:
    """Logits of descriptions that few honest ones reach, by a training that had not seen their kind or package."""
    rows = [one for source, one in scored.items() if task_of(source) == TOOLS]
    honest, kind = (np.concatenate([one[name][one["label"] == 0] for one in rows]) for name in ("logit", "kind"))
    groups = (honest[kind == REAL], honest[kind != REAL])
    bars = {
        name: max(np.quantile(one, 1 - rate) for one, rate in zip(groups, rates, strict=True) if len(one))
        for name, rates in TOOL_RATES.items()
    }
    return {name: round(float(bar), 2) for name, bar in bars.items()}


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
