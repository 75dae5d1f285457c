"""From out-of-fold scores to what is shipped beside the weights, and to the figures.

Every item, of AIR-Bench's development half or of a foreign source, is scored by models that saw neither it nor, if it
is foreign, anything of its source. Calibration, debate weights and bars for a fold are fitted on the other folds;
what is shipped is fitted in the same way on all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra
from lazaretto.gates.content.jury.scorer import Settings
from lazaretto_lab.metrics.detection import auc, confusion
from lazaretto_lab.training.jury.bundle import FOLDS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SEATS = ("strict", "loose")
PULL = 3.0
"""What precedents that all point one way, and are all but the same, add to the log-odds. Chosen among 1 to 8 by
``lab/benchmarks/content.py learning``, not fitted on AIR-Bench: a user's own lessons should count."""
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
MISSES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
_FEWEST = 70
"""Rows of one label from which on a source counts in the bars."""
_DOUBTFUL = ("hatemoji", "information_hazard")
"""Sources that say nothing about the rates: one was made to fool classifiers, the other asks mostly about companies."""
_LOOK_ALIKE = ("phtest", "coconot_contrast", "look_alikes", "twins")
"""Harmless sources that were made to look harmful: they count in the mean rate, but do not set the bar alone."""
_MISSED_HARM = {0: 1.0, 1: 1.5}
_FALSE_ALARM = {0: 1.5, 1: 1.0}


@dataclass(frozen=True, slots=True)
class Items:
    """Scored items, one entry of each array per item."""

    id: NDArray[np.str_]
    source: NDArray[np.str_]
    """``dev`` is AIR-Bench's development half."""
    head: NDArray[np.str_]
    label: NDArray[np.int64]
    fold: NDArray[np.int64]
    logits: Floats
    """(items, 2): both seats' logits, by models that did not see the item."""
    rows: NDArray[np.int64]
    """Their positions in ``examples.jsonl``."""

    def pick(self, rows: Mask) -> Items:
        """Some of them."""
        return Items(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def load_items(work: Path, seats: Sequence[str] = SEATS, job: str = "jury") -> Items:
    """What the training left in its work folder, seen by the given seats."""
    scores, lines = work / f"{job}-scores.npz", work / "examples.jsonl"
    if not scores.is_file() or not lines.is_file():
        raise InputError(
            "work",
            f"no scores of a training in {work}",
            "Run lazaretto train jury, and name its folder in LAZARETTO_JURY_WORK",
        )
    examples = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    return scored_items(scores, examples, seats)


def scored_items(scores: Path, examples: Sequence[Mapping[str, Any]], seats: Sequence[str] = SEATS) -> Items:
    """Scores with the examples they belong to; of these id, source, kind, label, fold and lettering are read."""
    with np.load(scores) as stored:
        names, rows, found = [str(n) for n in stored["recipes"]], stored["rows"], stored["logits"].astype(np.float64)
    fold = np.array([examples[i]["fold"] for i in rows])
    logits = np.full((len(rows), len(seats)), np.nan)
    for column, seat in enumerate(seats):
        for k in range(FOLDS):
            here = fold == k
            logits[here, column] = found[names.index(f"{seat}:{k}")][here]
    kept = [examples[i] for i in rows]
    return Items(
        np.array([e["id"] for e in kept]),
        np.array([e["source"] for e in kept]),
        np.array(["lettering" if e["lettering"] else e["kind"] for e in kept]),
        np.array([e["label"] for e in kept]),
        fold,
        logits,
        rows.astype(np.int64),
    )


def debate_odds(settings: Settings, logits: Floats, evidence: Floats | float = 0.0) -> Floats:
    """The log-odds a debate ends with, as ``jury.debaters`` computes them."""
    odds = [offset + slope * logits[:, n] for n, (offset, slope) in enumerate(map(settings.calibration.get, SEATS))]  # type: ignore[misc]
    sides = [w[0] + w[1] * odds[0] + w[2] * odds[1] + w[3] * evidence for w in (settings.debate[s] for s in SEATS)]
    return np.asarray((sides[0] + sides[1]) / 2)


def fit(items: Items, head: str) -> Settings:
    """Calibration, debate weights, best guess and bars of one head."""
    here = items.pick(items.head == head)
    weights = mixed(here)
    calibration = {s: _logistic(here.logits[:, [n]], here.label, weights) for n, s in enumerate(SEATS)}
    odds = np.column_stack([a + b * here.logits[:, n] for n, (a, b) in enumerate(calibration.values())])
    debate = {}
    for seat, costs in zip(SEATS, (_MISSED_HARM, _FALSE_ALARM), strict=True):
        costly = weights * np.where(here.label > 0, costs[1], costs[0])
        offset, slope = _logistic(odds.mean(axis=1, keepdims=True), here.label, costly)
        debate[seat] = (offset, slope / 2, slope / 2, PULL)
    made = Settings({s: (float(a), float(b)) for s, (a, b) in calibration.items()}, debate, 1.0)
    shift = best_guess(debate_odds(made, here.logits), here.label, weights)
    debate = {s: (w[0] - shift, *w[1:]) for s, w in debate.items()}
    made = Settings(made.calibration, debate, 1.0)
    final = debate_odds(made, here.logits)
    block, allow = bars(here, final)
    alone = np.array([made.calibration["strict"][0] + made.calibration["strict"][1] * x for x in here.logits[:, 0]])
    quick = quick_bar(alone, final, min(0.0, dict(allow)[0.15]))
    return Settings(made.calibration, debate, 1.0, tuple(block), tuple(allow), quick)


def mixed(items: Items) -> Floats:
    """Weights: both labels count alike; AIR-Bench a third, and foreign sources the rest, by their size up to 400.

    Pictures and pairs have no source but AIR-Bench, apart from a few twins, which must not outvote it: it alone counts.
    """
    weights = np.zeros(len(items.label))
    if not (items.head == "text").any() and (items.source == "dev").any():
        return np.where(items.source == "dev", len(weights) / (items.source == "dev").sum(), 0.0)
    for label in (0, 1):
        dev = (items.source == "dev") & (items.label == label)
        weights[dev] = 1.0 / max(1, dev.sum())
        names, sizes = np.unique(items.source[(items.source != "dev") & (items.label == label)], return_counts=True)
        total = np.minimum(sizes, 400).sum()
        for name, size in zip(names, sizes, strict=True):
            weights[(items.source == name) & (items.label == label)] = 2.0 * min(size, 400) / total / size
    balanced: NDArray[np.float64] = weights * len(weights) / weights.sum()
    return balanced


def best_guess(odds: Floats, labels: NDArray[np.int64], weights: Floats) -> float:
    """The cut with the best F1, both labels and all sources weighted as in the mixture; smoothed, so that it does not
    follow single items.
    """
    offset, slope = _logistic(odds[:, None], labels, weights)
    chance = 1 / (1 + np.exp(-(offset + slope * odds)))
    order = np.argsort(-odds)
    taken, right = np.cumsum(weights[order]), np.cumsum((weights * chance)[order])
    return float(odds[order][int(np.argmax(2 * right / (taken + (weights * chance).sum())))])


def bars(items: Items, odds: Floats) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(rate, log-odds) from which on content is unsafe and below which it is safe.

    Rates are means over sources, and no harmless source may have more than twice the rate of false alarms, but those
    that were made to look harmful.
    """
    harmless, harmful = (_by_source(items, odds, label) for label in (0, 1))
    ordinary = _by_source(items.pick(~np.isin(items.source, _LOOK_ALIKE)), odds[~np.isin(items.source, _LOOK_ALIKE)], 0)
    block = []
    for rate in RATES:
        steps = np.unique(np.concatenate(harmless))
        shares = np.stack([1 - np.searchsorted(one, steps, side="left") / len(one) for one in harmless])
        worst = np.max([1 - np.searchsorted(one, steps, side="left") / len(one) for one in ordinary], axis=0)
        fits = (shares.mean(axis=0) <= rate) & (worst <= 2 * rate)
        block.append((rate, float(steps[np.argmax(fits)]) if fits.any() else float(steps[-1]) + 0.5))
    allow = []
    for rate in MISSES:
        steps = np.unique(np.concatenate(harmful))
        shares = np.stack([np.searchsorted(one, steps, side="left") / len(one) for one in harmful]).mean(axis=0)
        allow.append((rate, float(steps[np.flatnonzero(shares <= rate)[-1]])))
    return block, allow


def _by_source(items: Items, odds: Floats, label: int) -> list[Floats]:
    """Sorted log-odds of each source that has enough rows of the label; of all together when none has."""
    here = (items.label == label) & ~np.isin(items.source, _DOUBTFUL)
    names, sizes = np.unique(items.source[here], return_counts=True)
    found = [np.sort(odds[here & (items.source == n)]) for n, size in zip(names, sizes, strict=True) if size >= _FEWEST]
    return found or [np.sort(odds[here])]


def quick_bar(alone: Floats, final: Floats, allow: float, wrong: float = 0.002) -> float:
    """The highest log-odds of one model alone below which at most ``wrong`` of the debates end above ``allow``."""
    order = np.argsort(alone)
    shares = np.cumsum(final[order] >= allow) / np.arange(1, len(order) + 1)
    fits = np.flatnonzero(shares <= wrong)
    return min(float(alone[order[fits[-1]]]) if len(fits) else -30.0, -0.01)


@dataclass(frozen=True, slots=True)
class Judged:
    """Out-of-fold outcomes of items, by numbers fitted without their fold."""

    items: Items
    odds: Floats
    blocked: Mask
    gray: Mask
    voted: Mask
    """AIR-Bench alone: past the cut with the best F1 on its items of the other folds, as earlier versions counted."""
    alone: dict[str, tuple[Mask, Floats]]
    """The same for each seat without a debate: what is past the cut, and how far."""


def judge(items: Items, head: str, false_alarms: float = 0.01, misses: float = 0.1) -> Judged:
    """Every item of a head."""
    here = items.pick(items.head == head)
    count = len(here.label)
    odds, blocked, gray, voted = np.zeros(count), *(np.zeros(count, bool) for _ in range(3))
    alone = {s: (np.zeros(count, bool), np.zeros(count)) for s in SEATS}
    for k in range(FOLDS):
        inside, out = here.fold != k, here.fold == k
        settings = fit(here.pick(inside), head)
        odds[out] = debate_odds(settings, here.logits[out])
        allow, block = settings.bars(false_alarms, misses)
        blocked[out], gray[out] = odds[out] >= block, (odds[out] >= allow) & (odds[out] < block)
        dev = inside & (here.source == "dev")
        if not dev.any():
            continue
        cut = best_threshold(debate_odds(settings, here.logits[dev]), here.label[dev])
        voted[out] = odds[out] >= cut
        for n, s in enumerate(SEATS):
            cut = best_threshold(here.logits[dev, n], here.label[dev])
            alone[s][0][out], alone[s][1][out] = here.logits[out, n] >= cut, here.logits[out, n] - cut
    return Judged(here, odds, blocked, gray, voted, alone)


def best_threshold(odds: Floats, labels: NDArray[np.int64]) -> float:
    """The cut with the best expected F1 if chances are what a beta calibration makes of the odds.

    Expected F1 is steadier than picking by some hundred labels; a straight line in log-odds, however, overrates the
    middle, which a beta calibration (one weight for each end) does not.
    """
    order = np.argsort(-odds)
    ends = np.column_stack([-np.logaddexp(0, -odds), np.logaddexp(0, odds)])[order]
    offset, low, high = _logistic(ends, labels[order], None, freedom=1000.0)
    chance = 1 / (1 + np.exp(-(offset + ends @ [low, high])))
    expected = 2 * np.cumsum(chance) / (np.arange(1, len(chance) + 1) + chance.sum())
    return float(odds[order][int(np.argmax(expected))])


def _logistic(
    features: Floats, labels: NDArray[np.int64], weights: Floats | None, freedom: float = 0.3
) -> tuple[float, ...]:
    """Offset and weights."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtra("fitting the jury", "models") from None
    model = LogisticRegression(C=freedom).fit(features, labels, sample_weight=weights)
    return (float(model.intercept_[0]), *map(float, model.coef_[0]))


def f1(labels: NDArray[Any], ruled: NDArray[Any]) -> float:
    """F1 of the risky class."""
    return confusion(labels > 0, ruled > 0).f1


def by_source(judged: Judged) -> dict[str, dict[str, Any]]:
    """For every source: rows, share blocked, gray and allowed of each label, and AUC where it has both."""
    table: dict[str, dict[str, Any]] = {}
    for source in np.unique(judged.items.source):
        here, row = judged.items.source == source, dict[str, Any]()
        for label, name in ((0, "harmless"), (1, "harmful")):
            rows = here & (judged.items.label == label)
            if rows.any():
                row[name] = {
                    "rows": int(rows.sum()),
                    "blocked": round(float(judged.blocked[rows].mean()), 4),
                    "gray": round(float(judged.gray[rows].mean()), 4),
                }
        if "harmless" in row and "harmful" in row:
            row["auc"] = round(auc(judged.items.label[here], judged.odds[here]), 4)
        table[str(source)] = row
    return table
