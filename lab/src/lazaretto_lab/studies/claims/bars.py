"""Temperature and bars of the relation model, from pairs that no training saw; and what folds say of its adapter.

    python -m lazaretto_lab.studies.claims.bars lab/results/facts/relation_unseen.jsonl --out lab/results/facts
    python -m lazaretto_lab.studies.claims.bars --folds INPUTS SCORES --out lab/results/facts

The first reads what ``training.claims.head`` kept: our own topics of three kinds of work (``own_cal``) and notes of
everyday work, each beside its nearest, set the bars; topics of three other kinds of work (``own_held``)
are told beside them and set nothing. The second tells how well each run of ``training.claims.training`` knew the
written statements of the fold that it had left out: INPUTS is what ``training.claims.pairs`` wrote, SCORES its
``scores.npz``.

A pair has a bar by what its claims meet in. The bars are those that catch most poison while at most so many of all
honest pairs (``MOST_HONEST``), and of each group of them (``MOST_OF_A_GROUP``), and of the notes (``MOST_NOTES``), are
held.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.models.minilm import claim_minilm
from lazaretto_lab.studies.claims.figures import tell
from lazaretto_lab.training.claims.own_pairs import Own, own_pairs, place_of

MOST_HONEST, MOST_OF_A_GROUP, MOST_NOTES = 0.015, 0.025, 0.001
NAMES = {"sensitive": "review_at", "opposed": "conflict_at", "alike": "alike_at", "apart": "apart_at"}
"""Where two claims meet -> the bar that counts there; ``sensitive``: opposed, about money, access or safety."""
Row = dict[str, Any]


def fold_rows(inputs: Path, scores: Path) -> list[Row]:
    """Written statements with the logits of the run that had left their fold out."""
    train, found = np.load(inputs / "train.npz"), np.load(scores)
    source = np.array([str(n) for n in train["names"]])[train["source"]]
    by: dict[str, list[Own]] = {}
    for one in own_pairs(0):
        if one.source.startswith("written_"):
            by.setdefault(one.source, []).append(one)
    vectors = _vectors(text for several in by.values() for one in several for text in (one.old, one.new))
    rows = []
    for name, several in by.items():
        logits = found[f"{name}/logits"][source[found[f"{name}/rows"]] == name]
        for one, four in zip(several, logits, strict=True):
            old, new = claims_of(one.old), claims_of(one.new)
            cosine = float(vectors[one.old] @ vectors[one.new])
            at = place_of(old[0], new[0], cosine) if old and new else "no claim"
            rows.append(
                {
                    "source": name, "group": one.group, "language": one.language, "place": at,
                    "cosine": round(cosine, 3), "logits": [round(float(x), 2) for x in four],
                }
            )  # fmt: skip
    return rows


def _vectors(texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    several = list(dict.fromkeys(texts))
    return dict(zip(several, np.asarray(claim_minilm().embed_texts(several), np.float32), strict=True))


def conflicts(rows: Sequence[Row], temperature: float) -> NDArray[np.float64]:
    """Probability of a conflict of each row."""
    x = np.array([row["logits"] for row in rows], np.float64).reshape(-1, 4) / temperature
    x = np.exp(x - x.max(axis=1, keepdims=True))
    x /= x.sum(axis=1, keepdims=True)
    return np.asarray(x[:, 1] + x[:, 2])


def fitted_temperature(rows: Sequence[Row]) -> float:
    """The temperature with the best likelihood of what is a conflict and what is none."""
    bad = np.array([row["group"] == "poison" for row in rows])

    def loss(temperature: float) -> float:
        share = np.clip(conflicts(rows, temperature), 1e-6, 1 - 1e-6)
        return float(-np.log(np.where(bad, share, 1 - share)).mean())

    return round(float(min(np.linspace(0.8, 3.0, 45), key=loss)), 2)


def held(rows: Sequence[Row], share: NDArray[np.float64], bars: Mapping[str, float]) -> NDArray[np.bool_]:
    """Which rows are held at some bars."""
    bar = np.array([0.0 if row["place"] == "plain" else bars.get(row["place"], 2.0) for row in rows])
    return np.asarray(share >= bar)


def chosen_bars(rows: Sequence[Row], temperature: float) -> dict[str, float]:
    """The bars that catch most poison within what honest pairs allow; the highest of those that catch as much."""
    share = conflicts(rows, temperature)
    group = np.array([row["group"] for row in rows])
    place = np.array([row["place"] for row in rows])
    grid = np.round(np.arange(0.3, 0.985, 0.02), 2)
    total: dict[str, NDArray[np.int64]] = {}
    for one in np.unique(group):
        total[str(one)] = np.full([1] * len(NAMES), int(((place == "plain") & (group == one)).sum()))
        for axis, name in enumerate(NAMES):
            mine = share[(place == name) & (group == one)]
            shape = [len(grid) if n == axis else 1 for n in range(len(NAMES))]
            total[str(one)] = total[str(one)] + (mine[None] >= grid[:, None]).sum(axis=1).reshape(shape)
    size = {one: int((group == one).sum()) for one in total}
    kinds = [one for one in total if one not in ("poison", "notes")]
    may = sum(total[one] for one in kinds) <= MOST_HONEST * sum(size[one] for one in kinds)
    may &= grid[:, None, None, None] <= grid[None, :, None, None]  # what moves money is reviewed sooner, never later
    for one in kinds:
        may &= total[one] <= max(1, MOST_OF_A_GROUP * size[one])
    if "notes" in total:
        may &= total["notes"] <= MOST_NOTES * size["notes"]
    height = sum(np.ix_(grid, grid, grid, grid))
    worth = np.where(may, total["poison"] + height / 100, -1.0)
    best = np.unravel_index(int(worth.argmax()), worth.shape)
    return {name: float(grid[at]) for name, at in zip(NAMES, best, strict=True)}


def told(rows: Sequence[Row], share: NDArray[np.float64], bars: Mapping[str, float]) -> dict[str, str]:
    """How many of each group are held, and where poison is lost."""
    above = held(rows, share, bars)
    group, place = np.array([row["group"] for row in rows]), np.array([row["place"] for row in rows])
    lines = {str(one): f"{above[group == one].sum()} of {(group == one).sum()}" for one in np.unique(group)}
    bad = group == "poison"
    if bad.any() and (~bad).any():
        lines["auc"] = f"{(share[bad][:, None] > share[~bad][None]).mean():.3f}"
    lost = {str(one): int((bad & ~above & (place == one)).sum()) for one in np.unique(place[bad & ~above])}
    return {**lines, "poison_missed_by_place": json.dumps(lost)}


def main() -> None:
    """Print the bars with what they hold, or the folds; keep them with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("unseen", type=Path, nargs="?")
    parser.add_argument("--folds", type=Path, nargs=2, metavar=("INPUTS", "SCORES"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.folds:
        rows = fold_rows(*given.folds)
        temperature = fitted_temperature(rows)
        share = conflicts(rows, temperature)
        figures: dict[str, Any] = {"temperature": temperature, "all": told(rows, share, {})["auc"]}
        for name in sorted({row["source"] for row in rows}):
            mine = [row for row in rows if row["source"] == name]
            figures[name] = told(mine, conflicts(mine, temperature), {})["auc"]
        tell(figures, rows, given.out, "relation_folds", "relation_folds_scores")
        return
    rows = [json.loads(line) for line in given.unseen.read_text(encoding="utf-8").splitlines()]
    fit = [row for row in rows if row["source"] != "own_held"]
    temperature = fitted_temperature([row for row in fit if row["group"] != "notes"])
    bars = chosen_bars(fit, temperature)
    figures = {"temperature": temperature, "bars": {NAMES[name]: bar for name, bar in bars.items()}}
    for name in ("own_cal", "own_held", "notes_held"):
        mine = [row for row in rows if row["source"] == name]
        figures[name] = told(mine, conflicts(mine, temperature), bars)
    told_as = json.dumps(figures, indent=1)
    print(told_as)
    if given.out:
        (given.out / "relation_bars.json").write_text(f"{told_as}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
