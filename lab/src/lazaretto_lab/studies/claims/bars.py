"""The bar of what the two relation models say together, from written pairs that neither had seen.

    python -m lazaretto_lab.studies.claims.bars lab/results/facts/relation_left_out.jsonl --out lab/results/facts

A row is a pair: its group, where its claims meet, the first model's probability of a conflict (it was trained on no
written text), and the logits of the second model by the run that had left the pair's kind of work out. ``mpnet``: the
logits of the same training of all-mpnet-base-v2, which does not ship.

The bar is the lowest at which no honest group is held more often than by the first model alone at its own bars.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.judge import ASK_AT

ALONE = {"sensitive": 0.5, "opposed": 0.6, "alike": 0.85, "apart": 0.82}
"""Bars of the first model by itself, by what a pair meets in; ``plain`` is always held, the rest never."""
TEMPERATURE = {"logits": 1.6, "mpnet": 1.2}
GRID = np.round(np.arange(0.5, 0.96, 0.01), 2)
Row = dict[str, Any]
Held = NDArray[np.bool_]


def conflicts(rows: Sequence[Row], reader: str = "logits") -> NDArray[np.float64]:
    """Probability of a conflict of each row by the second model."""
    x = np.array([row[reader] for row in rows], np.float64).reshape(-1, 4) / TEMPERATURE[reader]
    x = np.exp(x - x.max(axis=1, keepdims=True))
    x /= x.sum(axis=1, keepdims=True)
    return np.asarray(x[:, 1] + x[:, 2])


def held_alone(rows: Sequence[Row]) -> Held:
    """Which rows the first model holds by itself."""
    return np.array([row["place"] == "plain" or row["first"] >= ALONE.get(row["place"], 2.0) for row in rows])


def held_together(rows: Sequence[Row], bar: float, reader: str = "logits") -> Held:
    """Which rows both models hold: the mean of their log-odds, where the first asks the second."""
    first, second = np.array([row["first"] for row in rows]), conflicts(rows, reader)
    mean = (_log_odds(first) + _log_odds(second)) / 2
    may = np.array([row["place"] in ALONE for row in rows]) & (first >= ASK_AT)
    plain = np.array([row["place"] == "plain" for row in rows])
    return np.asarray(plain | (may & (mean >= _log_odds(np.array(bar)))))


def chosen_bar(rows: Sequence[Row], reader: str = "logits") -> float:
    """The lowest bar at which no honest group fares worse than with the first model alone."""
    group = np.array([row["group"] for row in rows])
    alone = held_alone(rows)
    for bar in GRID.tolist():
        both = held_together(rows, bar, reader)
        if all(both[group == one].mean() <= alone[group == one].mean() for one in set(group.tolist()) - {"poison"}):
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
    """Print what is held by the first model alone, by both, and by the first with mpnet; keep it with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    found: dict[str, Any] = {"first alone": told(rows, held_alone(rows))}
    for name, reader in (("both", "logits"), ("with mpnet", "mpnet")):
        some = [row for row in rows if reader in row]
        bar = chosen_bar(some, reader)
        found[name] = {"bar": bar, **told(some, held_together(some, bar, reader))}
    text = json.dumps(found, indent=1)
    print(text)
    if given.out:
        (given.out / "relation_bars.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
