"""What the seats of a trunk say of the texts that they never saw."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lazaretto_lab.training.jury import multi_seat
from lazaretto_lab.training.reading.batches import RECIPES, WINDOW, _filled
from lazaretto_lab.training.reading.training import mean_state
from lazaretto_lab.training.reading.trunk import WIDTHS, Trunk
from lazaretto_lab.training.screener import training as screener

SPLITS = 5
_TOKENS = 49152
"""Per pass."""


def read_seat(
    trunk: Trunk, merged: Mapping[str, Any], seat: int, windows: Sequence[NDArray[Any]]
) -> dict[str, NDArray[np.float32]]:
    """What one seat makes of windows: the values of the marks and the other heads, one row each."""
    found = {name: np.zeros((len(windows), width), np.float32) for name, width in WIDTHS.items()}
    order = sorted(range(len(windows)), key=lambda i: len(windows[i]))
    begin = 0
    while begin < len(order):
        stop = begin + 1
        while stop < len(order) and (stop - begin + 1) * len(windows[order[stop]]) <= _TOKENS:
            stop += 1
        chunk = order[begin:stop]
        begin = stop
        ids = torch.from_numpy(_filled([np.asarray(windows[i], np.int64) for i in chunk], np.int64)).to(trunk.device)
        with torch.inference_mode():
            states = trunk.states(ids, merged, seat)
            marks = trunk.head("marks", states, seat)[0]
            for task in range(WIDTHS["marks"]):
                value = screener.pooled(marks[:, :, task], (ids != 0).long())
                found["marks"][chunk, task] = value.float().cpu().numpy()
            pooled = mean_state(states, ids != 0)
            for name in ("strict", "loose", "hazard", "context"):
                found[name][chunk] = trunk.head(name, pooled, seat)[0].float().cpu().numpy()
    return found


def score_orders(trunk: Trunk, held: Any, seats: Mapping[str, int], out: Path) -> None:
    """``<family>.json``: the left-out scores of every family of orders, as the screener's calibration reads them."""
    with torch.inference_mode():
        merged = trunk.merged()
    for family, seat in seats.items():
        picked, several = held.of_fold(family)
        windows, owner = [w for one in several for w in one], [n for n, one in enumerate(several) for _ in one]
        value = np.full((len(several), WIDTHS["marks"]), -1e4)
        np.maximum.at(value, owner, read_seat(trunk, merged, seat, windows)["marks"].astype(np.float64))
        tasks = [screener.task_of(held.rows["source"][i]) for i in picked.tolist()]
        logit = value[np.arange(len(tasks)), tasks].round(3).tolist()
        result = {"run": family, "text": picked.tolist(), "logit": logit, "quiet": value[:, 1].round(3).tolist()}
        (out / f"{family}.json").write_text(json.dumps(result))


def score_risky(
    trunk: Trunk, data: Any, judged: NDArray[np.bool_], seats: Mapping[int, int], steps: int, out: Path
) -> None:
    """``jury-scores.npz``: every judged example by the seat that did not see it, as the jury's assembly reads it."""
    names = [f"{seat}:{k}" for seat in RECIPES for k in range(SPLITS)]
    logits = np.full((len(names), data.count), np.nan, np.float32)
    named = np.flatnonzero(judged & np.isin(data.weight_class, (0, 5)))
    place = {int(row): n for n, row in enumerate(named)}
    extra = {"hazard": np.zeros((len(names), len(named), 16), np.float16),
             "context": np.zeros((len(names), len(named), 6), np.float16)}  # fmt: skip
    with torch.inference_mode():
        merged = trunk.merged()
    for k, mine in seats.items():
        rows = np.flatnonzero(judged & (data.fold == k))
        if not len(rows):
            continue
        several = [multi_seat.windows(int(data.kind[i]), data.text[i], data.picture[i], WINDOW) for i in rows]
        owner = np.array([n for n, one in enumerate(several) for _ in one])
        read = read_seat(trunk, merged, mine, [np.array(w) for one in several for w in one])
        count = np.bincount(owner)
        first = np.searchsorted(owner, np.arange(len(rows)))
        for s, seat in enumerate(RECIPES):
            value = read[seat][np.arange(len(owner)), data.head[rows][owner]]
            logits[s * SPLITS + k, rows] = np.bincount(owner, weights=value) / count
            for n, row in enumerate(rows.tolist()):
                if row in place:
                    for part in ("hazard", "context"):
                        extra[part][s * SPLITS + k, place[row]] = read[part][first[n]]
    scored = np.flatnonzero(judged)
    np.savez_compressed(
        out / "jury-scores.npz", recipes=np.array(names), steps=steps, rows=scored.astype(np.int32),
        logits=logits[:, scored].astype(np.float16), named=named.astype(np.int32),
        single=np.arange(len(names), dtype=np.int32), hazard=extra["hazard"], context=extra["context"],
    )  # fmt: skip
