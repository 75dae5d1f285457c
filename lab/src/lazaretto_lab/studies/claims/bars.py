"""The bars of what two relation models say together, from pairs that neither had seen.

    python -m lazaretto_lab.studies.claims.bars lab/results/facts/relation_left_out.jsonl.gz --out lab/results/facts

A row is a pair (``training/claims/left_out.py`` writes them): its group, where its claims meet, the first model's
probability of a conflict (it was trained on no written text), and the logits of the second model by a run that had
not seen it. ``mpnet``: the logits of an earlier training of all-mpnet-base-v2, the second model where that is set up;
its rows are apart, since the two were trained on different texts.

What the two say together is a weighted mean of their log-odds. For each weight the bar is the lowest at which no group
of honest written pairs is held more often than ``MOST`` allows; our own topics, of other hands and other kinds, are
shown at the same bar.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.pairs import LEAST_APART

READ = {"sensitive": -0.1, "opposed": -0.05, "alike": 0.0, "apart": 0.05}
"""What a pair meets in that the models read, and how far its bar lies from the others': honest notes meet mostly in
nothing (``apart``). ``plain`` is always held, the rest never."""
TEMPERATURE = {"logits": 1.3, "mpnet": 1.1}
"""Those at which the folds' probabilities fit best."""
MOST = {"notes": 0.01, "days": 0.015, "event": 0.03, "compatible": 0.1, "restatement": 0.2}
"""Shares of honest pairs that may be held. Most of the written pairs were made to be mistaken; notes and days were
not."""
GRID = np.round(np.arange(0.3, 0.96, 0.01), 2)
WEIGHTS = (0.0, 0.25, 0.5, 0.6, 0.75, 1.0)
ASKED_FROM = {"logits": 0.2, "mpnet": 0.2}
"""The probability of the first model from which on the second reads a pair."""
Row = dict[str, Any]
Held = NDArray[np.bool_]


def conflicts(rows: Sequence[Row], reader: str) -> NDArray[np.float64]:
    """Probability of a conflict of each row by the second model."""
    x = np.array([row[reader] for row in rows], np.float64).reshape(-1, 4) / TEMPERATURE[reader]
    x = np.exp(x - x.max(axis=1, keepdims=True))
    x /= x.sum(axis=1, keepdims=True)
    return np.asarray(x[:, 1] + x[:, 2])


def held_together(rows: Sequence[Row], bar: float, reader: str, weight: float) -> Held:
    """Which rows both models hold: the mean of their log-odds, where the first asks the second."""
    first, second = np.array([row["first"] for row in rows]), conflicts(rows, reader)
    mean = (1 - weight) * _log_odds(first) + weight * _log_odds(second)
    bars = np.array([min(bar + READ[row["place"]], 0.99) if row["place"] in READ else np.inf for row in rows])
    near = np.array([row["place"] != "apart" or row["cosine"] >= LEAST_APART for row in rows])
    asked = near & (first >= ASKED_FROM[reader])
    plain = np.array([row["place"] == "plain" for row in rows])
    return np.asarray(plain | (asked & (1 / (1 + np.exp(-mean)) >= bars)))


def chosen_bar(rows: Sequence[Row], reader: str, weight: float) -> float:
    """The lowest bar at which no honest group is held more often than it may be."""
    group = np.array([row["group"] for row in rows])
    for bar in GRID.tolist():
        held = held_together(rows, bar, reader, weight)
        if all(held[group == name].mean() <= most for name, most in MOST.items() if (group == name).any()):
            return float(bar)
    return float(GRID[-1])


def told(rows: Sequence[Row], held: Held) -> dict[str, str]:
    """How many of each group are held."""
    group = np.array([row["group"] for row in rows])
    return {str(one): f"{held[group == one].sum()} of {(group == one).sum()}" for one in np.unique(group)}


def _log_odds(share: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.clip(share, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(share / (1 - share)))


def main() -> None:
    """Print what both models hold at each weight's bar; keep it with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with gzip.open(given.rows, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found: dict[str, Any] = {}
    for reader in TEMPERATURE:
        some = [row for row in rows if reader in row]
        written = [row for row in some if not row["source"].startswith("own_")]
        own = [row for row in some if row["source"].startswith("own_")]
        for weight in WEIGHTS if written else ():
            bar = chosen_bar(written, reader, weight)
            found[f"{reader}, weight {weight}"] = {
                "bar": bar,
                "written": told(written, held_together(written, bar, reader, weight)),
                "own topics": told(own, held_together(own, bar, reader, weight)),
            }
    text = json.dumps(found, indent=1)
    print(text)
    if given.out:
        (given.out / "relation_bars.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
