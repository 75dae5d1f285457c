"""What a step of a training reads: texts of all tasks, and texts without labels, as passes of similar length.

A text counts for a seat only if none of its sources is left out there.
"""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from lazaretto_lab.training.jury import multi_seat
from lazaretto_lab.training.reading.trunk import Plan
from lazaretto_lab.training.screener import training as screener

WINDOW = 256
SENTENCE_ENDS = (1012, 999, 1029, 1025)
"""The word pieces . ! ? ;"""
RECIPES = {
    "strict": multi_seat.Recipe("strict", dev=3.0),
    "loose": multi_seat.Recipe("loose", dev=3.0, image=0.8, extra=0.3, given=0.5, rank=1.0),
}
_AUGMENT = multi_seat.Plan(seconds=0, window=WINDOW)
_JOINED, _QUIET = 0.25, 0.25
"""Shares of the texts without labels that are several put together, and that are read for quiet lies."""
_LENGTHS = (48, 96, 160, 256)
"""A pass holds texts between two of these."""
Sourced = tuple[NDArray[np.int64], NDArray[np.float32], float, frozenset[str]]
"""Token ids, a mark per token, the label, and the names of the sources."""


class LoggedSampler(screener.Sampler):
    """The screener's sampler, which also says which sources a text was made of."""

    def __init__(self, material: Any, recipe: Any) -> None:
        super().__init__(material, (), recipe)
        self._drawn: set[str] = set()
        for name in ("orders", "foreign", "clean", "notes", "alone", "contexts"):
            setattr(self, name, _Logged(getattr(self, name), material, self._drawn))
        self.cases = {key: _LoggedCases(several, self._drawn) for key, several in self.cases.items()}

    def _taken(self, made: Sequence[Any]) -> list[Sourced]:
        sources = frozenset(self._drawn)
        self._drawn.clear()
        return [(*row, sources) for row in made]

    def rows(self, rng: np.random.Generator, size: int) -> list[Sourced]:
        """Half matched pairs, a quarter orders alone, the rest honest, each with its sources."""
        found: list[Sourced] = []
        token = self.material.tokens
        while len(found) < size * 0.5:
            found += self._taken(self._pair(rng))
        while len(found) < size * 0.75:
            order = self.orders.draw(rng)
            found += self._taken([screener._row([(token(order), 1.0)])])
            if rng.random() < 0.5:  # a language must not be a clue
                honest = self.alone.draw(rng, int(self.material.language[order]))
                found += self._taken([screener._row([(token(honest), 0.0)])])
        while len(found) < size:
            if rng.random() < 0.2:
                found += self._taken([screener._row([(self._crop(rng, token(self.contexts.draw(rng))), 0.0)])])
            else:
                parts = self._note(rng, self.alone, self.alone.draw(rng), several=rng.random() < 0.3)
                found += self._taken([screener._row([(part, 0.0) for part in parts])])
        return found[:size]

    def quiet_rows(self, rng: np.random.Generator, size: int) -> list[Sourced]:
        """Lies, rules and notes; none where there are no cases."""
        return [row for _ in range(size) for row in self._taken(self.quiet(rng, 1))]

    def tool_rows(self, rng: np.random.Generator, size: int) -> list[Sourced]:
        """Descriptions of tools, poisoned ones with their hosts; none where there are no cases."""
        found: list[Sourced] = []
        poisoned, honest = (self.cases[screener.TOOLS, bad] for bad in (True, False))
        while len(poisoned) and len(found) < size:
            found += self._taken(screener._one(rng, poisoned if rng.random() < 0.4 else honest).rows(rng))
        return found[:size]


class _Logged:
    """A pool that remembers the sources of what was drawn."""

    def __init__(self, pool: Any, material: Any, drawn: set[str]) -> None:
        self._pool, self._material, self._drawn = pool, material, drawn

    def _noted(self, n: int) -> int:
        self._drawn.add(self._material.names["source"][int(self._material.source[n])])
        return n

    def draw(self, rng: np.random.Generator, language: int | None = None) -> int:
        """One item."""
        return self._noted(self._pool.draw(rng, language))

    def draw_like(self, rng: np.random.Generator, source: int, language: int) -> int:
        """One item of the same source and language."""
        return self._noted(self._pool.draw_like(rng, source, language))


class _LoggedCases(list[Any]):
    """Written cases that remember the source of the one that was drawn."""

    def __init__(self, cases: Sequence[Any], drawn: set[str]) -> None:
        super().__init__(cases)
        self._drawn = drawn

    def __getitem__(self, n: Any) -> Any:
        case = super().__getitem__(n)
        self._drawn.add(case.source)
        return case


class Unlabelled:
    """The texts without labels, drawn by source: a source counts by the root of its size."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            self.ids, self.starts, self.seen = stored["ids"], stored["starts"], stored["seen"].astype(np.float32)
            self.task, source = stored["task"], stored["source"].astype(np.int64)
        weight = np.bincount(source)[source] ** -0.5
        self._cumulated = np.cumsum(weight / weight.sum())

    def _one(self, rng: np.random.Generator) -> int:
        return min(int(np.searchsorted(self._cumulated, rng.random())), len(self.task) - 1)

    def draw(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], int, NDArray[np.float32]]:
        """Ids of one window, what it is read for, and which splits may see it."""
        chosen = [self._one(rng) for _ in range(int(rng.integers(2, 5)) if rng.random() < _JOINED else 1)]
        ids = np.concatenate([self.ids[self.starts[n] : self.starts[n + 1]] for n in chosen]).astype(np.int64)
        if len(ids) > WINDOW - 2:
            start = int(rng.integers(len(ids) - WINDOW + 3)) if rng.random() < 0.5 else 0
            ids = ids[start : start + WINDOW - 2]
        task = int(self.task[chosen[0]]) or (screener.QUIET if rng.random() < _QUIET else screener.ORDERS)
        framed = np.concatenate([[multi_seat.CLS], ids, [multi_seat.SEP]])
        return framed, task, self.seen[:, chosen].min(1)


class Batches(Dataset[Any]):
    """All tasks in one step. Step ``n`` depends on the seed and n alone."""

    def __init__(self, work: Path, plan: Plan, seats: Sequence[int]) -> None:
        self.plan, self.seats = plan, list(seats)
        """``seats``: the family that each seat leaves out; the last is none."""
        self.risky = multi_seat.Data(str(work / "input.npz"))
        with np.load(io.BytesIO(lzma.decompress((work / "material.npz.xz").read_bytes()))) as arrays:
            material = screener.Material({name: arrays[name] for name in arrays.files})
        self.sampler = LoggedSampler(material, screener.Recipe(written=plan.written))
        self.splits = [set(one) for one in json.loads((work / "splits.json").read_text())]
        self._cumulated = np.cumsum(self.risky.chance / self.risky.chance.sum())
        with np.load(work / "judged.npz") as stored:
            self.judged = stored["judged"]
            self._seen = stored["seen"].astype(np.float32)
        self.factors = np.stack([self.risky.weights(recipe) for recipe in RECIPES.values()])
        """(2, examples): what an example counts for Strict and for Loose."""
        self.unlabelled = Unlabelled(work / "transfer.npz") if plan.transfer else None

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, step: int) -> list[dict[str, NDArray[Any]]]:
        rng = np.random.default_rng((self.plan.seed, step))
        rows = [*self._marked(rng), *self._risky(rng)]
        for _ in range(self.plan.transfer if self.unlabelled else 0):
            assert self.unlabelled is not None
            ids, task, seen = self.unlabelled.draw(rng)
            rows.append(_row(ids, seen.tolist(), task=task))
        for row in rows:
            row["span"] = _span(row["ids"], rng)
        rows.sort(key=lambda row: len(row["ids"]))
        return [self._padded(part) for part in _passes(rows, self.plan.tokens)]

    def _marked(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        plan, sampler, found = self.plan, self.sampler, list[dict[str, Any]]()
        drawn = (
            (screener.ORDERS, sampler.rows(rng, plan.orders)),
            (screener.QUIET, sampler.quiet_rows(rng, plan.quiet)),
            (screener.TOOLS, sampler.tool_rows(rng, plan.tools)),
        )
        for task, several in drawn:
            for ids, marks, label, sources in several:
                if rng.random() < sampler.recipe.numbers:
                    sampler.renumber(rng, ids)
                seen = [float(sources.isdisjoint(out)) for out in self.splits]
                found.append({**_row(ids, seen, task=task), "marks": marks, "label": label, "order": 1.0})
        return found

    def _risky(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        data, found = self.risky, list[dict[str, Any]]()
        places = np.searchsorted(self._cumulated, rng.random(self.plan.risky))
        for n in np.minimum(places, data.count - 1).tolist():
            ids = np.array(multi_seat.augmented(data, n, _AUGMENT, rng), np.int64)
            row = _row(ids, self._seen[:, n].tolist())
            found.append({**row, "label": float(data.label[n]), "risk": 1.0, "row": n})
        return found

    def _padded(self, rows: Sequence[dict[str, Any]]) -> dict[str, NDArray[Any]]:
        ids = _filled([row["ids"] for row in rows], np.int64)
        data, picked = self.risky, np.array([row["row"] for row in rows])
        risk = np.array([row["risk"] for row in rows], np.float32)
        spans = [(row["ids"][a:b] if b - a == len(row["ids"]) else [101, *row["ids"][a:b], 102], a, b)
                 for row in rows for a, b in [row["span"]]]  # fmt: skip
        seen = np.array([[*row["seen"], 1.0] for row in rows], np.float32).T
        return {
            "ids": ids,
            "marks": _filled([row["marks"] for row in rows], np.float32, ids.shape[1]),
            "label": np.array([row["label"] for row in rows], np.float32),
            "order": np.array([row["order"] for row in rows], np.float32),
            "risk": risk,
            "task": np.array([row["task"] for row in rows], np.int64),
            "seen": seen[self.seats],
            "weight": self.factors[:, picked] * risk,
            "head": np.where(risk > 0, data.head[picked], 0),
            "noisy": data.noisy[picked],
            "hazard": np.where(risk > 0, data.hazard[picked], -1),
            "contexts": data.contexts[picked],
            "known": data.known[picked] * risk,
            "taught": np.flatnonzero([row["order"] == 0 for row in rows]),
            "span_ids": _filled([np.array(one[0], np.int64) for one in spans], np.int64),
            "span": np.array([[a, b] for _, a, b in spans], np.int64),
        }


def _row(ids: NDArray[np.int64], seen: Sequence[float], task: int = screener.ORDERS) -> dict[str, Any]:
    nothing = np.zeros(len(ids), np.float32)
    return {"ids": ids, "marks": nothing, "label": 0.0, "seen": list(seen), "task": task, "order": 0.0, "risk": 0.0,
            "row": 0}  # fmt: skip


def _span(ids: NDArray[np.int64], rng: np.random.Generator) -> tuple[int, int]:
    """A sentence of the text, or all of it."""
    ends = [0, *(np.flatnonzero(np.isin(ids, SENTENCE_ENDS)).tolist()), len(ids) - 2]
    if len(ends) < 4 or rng.random() < 0.35:
        return 0, len(ids)
    n = int(rng.integers(len(ends) - 1))
    start, end = ends[n] + 1, ends[n + 1] + 1
    return (start, end) if end - start >= 4 else (0, len(ids))


def _filled(rows: Sequence[NDArray[Any]], kind: Any, length: int = 0) -> NDArray[Any]:
    length = length or -(-max(map(len, rows)) // 16) * 16
    found = np.zeros((len(rows), length), kind)
    for line, row in zip(found, rows, strict=True):
        line[: len(row)] = row
    return found


def _passes(rows: Sequence[Any], tokens: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    longest = 0
    for row in rows:
        size = len(row["ids"])
        if size <= longest and (len(found[-1]) + 1) * longest <= tokens:
            found[-1].append(row)
        else:
            found.append([row])
            longest = next((length for length in _LENGTHS if length >= size), size)
    return found
