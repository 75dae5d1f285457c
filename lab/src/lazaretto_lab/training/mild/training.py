"""Fits a head for orders in mild words on the states that the screener makes of every text anyway.

    python -m lazaretto_lab.training.mild.training CACHE --out lab/results/mild_orders

A trial that is not in the product (decision 0140). One row of weights: each token has a mark, a stretch the mean of its
marks, a text that of its strongest stretch. Nothing is random. Fitted on mild texts, on quiet lies and honest rules,
and on honest notes of work, all written for training; every score that is reported was made by a fit that had seen
nothing of its kind of work, or nothing of its form. The bar is set on notes of work and on the honest mild texts. The
trunk has seen the notes and rules, the mild texts it has not.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training import written
from lazaretto_lab.training.mild import FORMS, mild_texts
from lazaretto_lab.training.states import States, token_states

Floats = NDArray[np.float64]
STRETCH_TOKENS = 48
"""Tokens whose marks are averaged: two or three sentences."""
LANGUAGES = ("en", "de", "es", "fr")
WEIGHTS_OF = {"mild": 2.0, "rules": 0.5, "notes": 1.0}
"""Weight of a text of each group in the fit."""
RIDGE = 100.0
MOST_NOTES, MOST_MILD = 0.003, 0.01
"""Shares of honest notes of work, and of honest mild texts, that may be above the bar."""
SHIFT_AT = 0.03
"""Share of honest texts at which languages are made alike."""


@dataclass(frozen=True, slots=True)
class Line:
    """One text; ``form``: of a mild text, else empty."""

    text: str
    order: bool
    group: str
    form: str
    language: str
    fold: int


def lines() -> list[Line]:
    """Everything that is fitted or scored."""
    found = [Line(line.text, line.order, "mild", line.form, line.language, line.fold) for line in mild_texts()]
    for group, several in (("rules", written.rules()), ("notes", written.notes())):
        found += [
            Line(line.text, line.bad, group, "", line.language, line.fold)
            for line in several
            if line.language in LANGUAGES
        ]
    return found


def strongest_stretch(marks: NDArray[np.floating[Any]]) -> float:
    """The highest mean of so many tokens' marks in a row: a short order in a long page is not averaged away."""
    if len(marks) <= STRETCH_TOKENS:
        return float(marks.mean()) if len(marks) else -math.inf
    starts = {*range(0, len(marks) - STRETCH_TOKENS, STRETCH_TOKENS // 4), len(marks) - STRETCH_TOKENS}
    return max(float(marks[at : at + STRETCH_TOKENS].mean()) for at in starts)


def fitted(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, float]:
    """Ridge logistic regression on numbers of one scale, by Newton's method: weights and bias for them as they are."""
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    x = np.concatenate([(x - middle) / scale, np.ones((len(x), 1))], axis=1)
    ridge = np.append(np.full(x.shape[1] - 1, RIDGE), 1e-6)
    found = np.zeros(x.shape[1])
    for _ in range(10):
        p = 1 / (1 + np.exp(-x @ found))
        slope = x.T @ (weight * (p - y)) + ridge * found
        found -= np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(ridge), slope)
    row = found[:-1] / scale
    return row, float(found[-1] - row @ middle)


@dataclass(frozen=True, slots=True)
class Material:
    """The texts with their states."""

    read: list[Line]
    states: list[States]
    means: Floats

    @classmethod
    def of(cls, cache: Path) -> Material:
        """Reads texts that are not kept in the cache yet."""
        read = lines()
        states = token_states("screener", [line.text for line in read], cache)
        return cls(read, states, np.array([line[1:].astype(np.float64).mean(axis=0) for line in states]))

    def column(self, name: str) -> NDArray[Any]:
        """One field of every line."""
        return np.array([getattr(line, name) for line in self.read])

    def fit(self, seen: NDArray[np.bool_]) -> tuple[Floats, float]:
        """A head from some of the texts."""
        weight = np.array([WEIGHTS_OF[line.group] for line in self.read])
        return fitted(self.means[seen], self.column("order")[seen].astype(float), weight[seen])

    def scores(self, head: tuple[Floats, float], which: Sequence[int]) -> Floats:
        """As in use: the strongest stretch of each text."""
        row, bias = head
        return np.array([strongest_stretch(self.states[n][1:].astype(np.float32) @ row + bias) for n in which])


def left_out(material: Material, group_of: NDArray[Any]) -> Floats:
    """The score of every text by a fit without its group; texts of no group ('') by the fit on all others."""
    score = np.zeros(len(material.read))
    for group in np.unique(group_of):
        mine = group_of == group
        score[mine] = material.scores(material.fit(~mine), np.flatnonzero(mine).tolist())
    return score


def shifts(score: Floats, language: NDArray[Any], honest: NDArray[np.bool_]) -> dict[str, float]:
    """By how much honest texts of a language score higher than English ones."""
    at = {code: float(np.quantile(score[honest & (language == code)], 1 - SHIFT_AT)) for code in LANGUAGES}
    return {code: round(max(0.0, at[code] - at["en"]), 2) for code in LANGUAGES if code != "en"}


def bar_of(score: Floats, notes: NDArray[np.bool_], mild: NDArray[np.bool_]) -> float:
    """The least score that so few of both are above."""
    return max(float(np.quantile(score[some], 1 - rate)) for some, rate in ((notes, MOST_NOTES), (mild, MOST_MILD)))


def area(bad: Floats, good: Floats) -> float:
    """AUC."""
    return round(float(np.mean(bad[:, None] > good[None, :])), 3)


def share(found: NDArray[np.bool_]) -> str:
    """``3 of 200``."""
    return f"{int(found.sum())} of {len(found)}"


def figures(material: Material) -> tuple[dict[str, Any], Floats]:
    """Figures of left-out texts, and their scores."""
    order, group, form, language = (material.column(name) for name in ("order", "group", "form", "language"))
    mild, notes = group == "mild", group == "notes"
    by_work = left_out(material, material.column("fold"))
    by_form = left_out(material, np.where(mild, form, "-"))
    shift = shifts(by_work, language, ~order & (mild | notes))
    down = np.array([shift.get(code, 0.0) for code in language.tolist()])
    report: dict[str, Any] = {"texts": {name: int((group == name).sum()) for name in WEIGHTS_OF}, "shift": shift}
    bar = bar_of(by_work - down, notes, mild & ~order)
    report["bar"] = round(bar, 3)
    for name, score in (("unseen_work", by_work - down), ("unseen_form", by_form - down)):
        above = score > bar
        report[name] = {"auc": area(score[mild & order], score[mild & ~order])}
        parts = {"all": mild} | {code: mild & (language == code) for code in LANGUAGES}
        parts |= {name_of_form: mild & (form == name_of_form) for name_of_form in FORMS}
        for part, mine in parts.items():
            report[name][part] = {"orders": share(above[mine & order]), "honest": share(above[mine & ~order])}
    above = by_work - down > bar
    for name in ("rules", "notes"):
        for code in LANGUAGES:
            mine = (group == name) & (language == code)
            report.setdefault(name, {})[code] = {
                "lies": share(above[mine & order]), "honest": share(above[mine & ~order]),
            }  # fmt: skip
    return report, by_work - down


def main() -> None:
    """Fit and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, help="folder outside of git, for states")
    parser.add_argument("--out", type=Path, help="where figures and rows are written")
    given = parser.parse_args()
    material = Material.of(given.cache)
    report, score = figures(material)
    print(json.dumps(report, indent=1))
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "left_out.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        rows = [
            {"order": line.order, "form": line.form, "language": line.language, "fold": line.fold, "score": round(s, 3)}
            for line, s in zip(material.read, score.tolist(), strict=True)
            if line.group == "mild"
        ]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (given.out / "left_out.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
