"""Temperature and bars of a relation model, from the folds of written texts that its trainings had left out.

    python -m lazaretto_lab.studies.claims.bars --inputs INPUTS --scores SCORES... [--deep SCORES...] --rows ROWS
    python -m lazaretto_lab.studies.claims.bars --rows lab/results/facts/relation_left_out.jsonl

INPUTS is what ``training.claims.pairs`` wrote, SCORES are what the runs of ``training.claims.training`` wrote. Each
written pair has the logits of the run that had not seen its kind of work; they are kept in ROWS, from which the bars
can be set again. With rows of the second reader (``deep``), its bars are set too: for the pairs that the small model
leaves open (``ASKED`` of the poison).

A pair has a bar by what its claims meet in. The bars are those that catch most poison while at most so many of the
pairs of each honest group (``MOST``) are held.
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
from lazaretto_lab.training.claims.own_pairs import Own, near_in_a_day, near_notes, own_pairs, place_of
from lazaretto_lab.training.written import FOLDS

MOST = {"event": 0.04, "restatement": 0.12, "compatible": 0.07, "notes": 0.003, "days": 0.012}
"""Share of the pairs of an honest group that may be held. Written pairs were made to look as much like conflicts as
they can; notes and days are what a working day brings: pairs of honest notes with their nearest."""
NAMES = {"sensitive": "review_at", "opposed": "conflict_at", "alike": "alike_at", "apart": "apart_at"}
"""Where two claims meet -> the bar that counts there; ``sensitive``: opposed, about money, access or safety."""
ASKED = 0.85
"""Share of the poison that the second reader is asked about."""
Row = dict[str, Any]


def left_out_rows(inputs: Path, scores: Sequence[Path], deep: Sequence[Path] = ()) -> list[Row]:
    """Written pairs and notes with the logits of the run that had left their fold out."""
    train = np.load(inputs / "train.npz")
    source = np.array([str(n) for n in train["names"]])[train["source"]]
    small, second = (_by_row(paths, source) for paths in (scores, deep))
    by = _pairs_by_source()
    vectors = _vectors(text for several in by.values() for one in several for text in (one.old, one.new))
    rows = []
    for name, several in by.items():
        for one, at in zip(several, np.flatnonzero(source == name).tolist(), strict=True):
            if at not in small:
                continue
            old, new = claims_of(one.old), claims_of(one.new)
            cosine = float(vectors[one.old] @ vectors[one.new])
            place = place_of(old[0], new[0], cosine) if old and new else "no claim"
            row = {
                "source": name, "group": one.group, "language": one.language, "place": place,
                "cosine": round(cosine, 3), "logits": small[at],
            }  # fmt: skip
            rows.append(row | ({"deep": second[at]} if at in second else {}))
    return rows


def _by_row(paths: Sequence[Path], source: NDArray[Any]) -> dict[int, list[float]]:
    """The logits of the folds by the number of the pair."""
    found: dict[int, list[float]] = {}
    for path in paths:
        with np.load(path) as file:
            for name in (name for name in file.files if name.startswith("fold_") and name.endswith("/rows")):
                logits = file[name.replace("/rows", "/logits")]
                for at, four in zip(file[name].tolist(), logits.tolist(), strict=True):
                    if not source[at].startswith("own_"):
                        found[at] = [round(x, 2) for x in four]
    return found


def _pairs_by_source() -> dict[str, list[Own]]:
    """In the order in which ``training.claims.pairs`` packs them."""
    by: dict[str, list[Own]] = {}
    for one in own_pairs(0):
        if one.source.startswith("written_"):
            by.setdefault(one.source, []).append(one)
    for fold in range(FOLDS):
        for group, several in (("notes", near_notes(fold)), ("days", near_in_a_day(fold))):
            name = f"{group}_{fold}"
            by[name] = [Own(old, new, 0, name, group, "") for old, new, _ in several]
    return by


def _vectors(texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    several = list(dict.fromkeys(texts))
    return dict(zip(several, np.asarray(claim_minilm().embed_texts(several), np.float32), strict=True))


def conflicts(rows: Sequence[Row], temperature: float, reader: str = "logits") -> NDArray[np.float64]:
    """Probability of a conflict of each row, by one of the two readers."""
    x = np.array([row[reader] for row in rows], np.float64).reshape(-1, 4) / temperature
    x = np.exp(x - x.max(axis=1, keepdims=True))
    x /= x.sum(axis=1, keepdims=True)
    return np.asarray(x[:, 1] + x[:, 2])


def fitted_temperature(rows: Sequence[Row], reader: str = "logits") -> float:
    """The temperature with the best likelihood of what is a conflict and what is none."""
    rows = [row for row in rows if row["group"] not in ("notes", "days")]
    bad = np.array([row["group"] == "poison" for row in rows])

    def loss(temperature: float) -> float:
        share = np.clip(conflicts(rows, temperature, reader), 1e-6, 1 - 1e-6)
        return float(-np.log(np.where(bad, share, 1 - share)).mean())

    return round(float(min(np.linspace(0.8, 3.0, 45), key=loss)), 2)


def held(rows: Sequence[Row], share: NDArray[np.float64], bars: Mapping[str, float]) -> NDArray[np.bool_]:
    """Which rows are held at some bars."""
    bar = np.array([0.0 if row["place"] == "plain" else bars.get(row["place"], 2.0) for row in rows])
    return np.asarray(share >= bar)


def chosen_bars(rows: Sequence[Row], share: NDArray[np.float64]) -> dict[str, float]:
    """The bars that catch most poison within what honest pairs allow; the highest of those that catch as much."""
    group = np.array([row["group"] for row in rows])
    place = np.array([row["place"] for row in rows])
    grid = np.round(np.append(np.arange(0.3, 0.95, 0.025), np.arange(0.95, 0.998, 0.005)), 3)
    total: dict[str, NDArray[np.int64]] = {}
    for one in np.unique(group):
        total[str(one)] = np.full([1] * len(NAMES), int(((place == "plain") & (group == one)).sum()))
        for axis, name in enumerate(NAMES):
            mine = share[(place == name) & (group == one)]
            shape = [len(grid) if n == axis else 1 for n in range(len(NAMES))]
            total[str(one)] = total[str(one)] + (mine[None] >= grid[:, None]).sum(axis=1).reshape(shape)
    may = grid[:, None, None, None] <= grid[None, :, None, None]  # what moves money is reviewed sooner, never later
    for one, most in MOST.items():
        if one in total:
            may = may & (total[one] <= max(1, most * int((group == one).sum())))
    height = sum(np.ix_(grid, grid, grid, grid))
    worth = np.where(may, total["poison"] + height / 100, -1.0)
    best = np.unravel_index(int(worth.argmax()), worth.shape)
    return {name: float(grid[at]) for name, at in zip(NAMES, best, strict=True)}


def told(rows: Sequence[Row], share: NDArray[np.float64], bars: Mapping[str, float]) -> dict[str, Any]:
    """How many of each group are held, how well poison is told from the other statements, where poison is lost."""
    above = held(rows, share, bars)
    group, place = np.array([row["group"] for row in rows]), np.array([row["place"] for row in rows])
    lines: dict[str, Any] = {
        str(one): f"{above[group == one].sum()} of {(group == one).sum()}" for one in np.unique(group)
    }
    bad, other = group == "poison", ~np.isin(group, ("poison", "notes", "days"))
    if bad.any() and other.any():
        lines["auc"] = round(float((share[bad][:, None] > share[other][None]).mean()), 3)
    lost = bad & ~above
    lines["poison_missed_by_place"] = {str(one): int((lost & (place == one)).sum()) for one in np.unique(place[lost])}
    return lines


def figures_of(rows: Sequence[Row], share: NDArray[np.float64], temperature: float) -> dict[str, Any]:
    """Bars, and what they hold: in all, by fold and by language."""
    bars = chosen_bars(rows, share)
    figures: dict[str, Any] = {
        "temperature": temperature, "bars": {NAMES[name]: bar for name, bar in bars.items()},
        "all": told(rows, share, bars),
    }  # fmt: skip
    parts = {f"fold {row['source'][-1]}" for row in rows} | {row["language"] for row in rows if row["language"]}
    for part in sorted(parts):
        mine = np.array([part in (f"fold {row['source'][-1]}", row["language"]) for row in rows])
        some = [row for row, chosen in zip(rows, mine, strict=True) if chosen]
        figures[part] = told(some, share[mine], bars)
    return figures


def main() -> None:
    """Print the bars of both readers; keep them with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--scores", type=Path, nargs="+", default=[])
    parser.add_argument("--deep", type=Path, nargs="+", default=[])
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.inputs:
        lines = [json.dumps(row) for row in left_out_rows(given.inputs, given.scores, given.deep)]
        given.rows.write_text("\n".join([*lines, ""]), encoding="utf-8")
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    temperature = fitted_temperature(rows)
    share = conflicts(rows, temperature)
    found = {"small": figures_of(rows, share, temperature)}
    both = np.array(["deep" in row for row in rows])
    if both.any():
        some = [row for row in rows if "deep" in row]
        poison = np.array([row["group"] == "poison" for row in some])
        ask_at = round(float(np.quantile(share[both][poison], 1 - ASKED)), 2)
        temperature = fitted_temperature(some, "deep")
        second = np.where(share[both] >= ask_at, conflicts(some, temperature, "deep"), 0.0)
        found["deep"] = {"ask_at": ask_at, "asked": round(float((share[both] >= ask_at).mean()), 3)}
        found["deep"] |= figures_of(some, second, temperature)
    text = json.dumps(found, indent=1)
    print(text)
    if given.out:
        (given.out / "relation_bars.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
