"""Means of several trainings of the relation model, and what they say of pairs that no member was trained on.

    python -m lazaretto_lab.studies.claims.averages DATA LISTS lab/results/facts/averaged/rows.jsonl.gz

DATA: the folder of the public sets of ``other_hands``; LISTS: tests/data. Members are read from the history of the
repository. Products of low-rank changes are averaged and cut back by their singular values; heads of one initialisation
are averaged, heads of two stand side by side, so that the answer is the mean of both heads on one encoder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from lazaretto.gates.memory.claims.relation import WEIGHTS, RelationCalibration, RelationModel
from lazaretto.kept_texts import KeptTexts
from lazaretto.models.minilm import split_heads
from lazaretto.models.weight_files import packed_changes, unpacked_changes
from lazaretto_lab.studies.claims.other_hands import Case, cases, rows_of
from lazaretto_lab.training.claims.facts_data import all_pairs
from lazaretto_lab.training.claims.own_pairs import part_of

Arrays = dict[str, NDArray[Any]]
MEMBERS = {
    "first": ("relation", "b7382328", 1.4), "student": ("relation", "c80861bf", 0.9),
    "08e43a89": ("relation", "08e43a89", 1.4), "148dbfea": ("relation", "148dbfea", 1.6),
    "d2b83239": ("second", "d2b83239", 1.3), "second": ("second", "3fb3a08f", 1.3),
}  # fmt: skip
"""Name -> file, commit and temperature."""
MEANS: dict[str, Sequence[Sequence[str]]] = {
    **{name: [[name]] for name in MEMBERS},
    "mean d2b83239 3fb3a08f": [["d2b83239", "second"]],
    "mean 148dbfea d2b83239 3fb3a08f": [["148dbfea", "d2b83239", "second"]],
    "mean first student": [["first", "student"]],
    "mean first 08e43a89": [["first"], ["08e43a89"]],
    "mean first second": [["first"], ["second"]],
    "mean first and the three": [["first"], ["148dbfea", "d2b83239", "second"]],
    "mean student second": [["student"], ["second"]],
}
"""Name -> groups of members whose heads are averaged; the heads of two groups stand side by side."""
FEATURES = 28
"""Features of a pair before its cosine; an older head lacks the last of them."""
_HEAD = ("head.first.weight", "head.first.bias", "head.last.weight", "head.last.bias")


def member(name: str) -> Arrays:
    """The arrays of a member from the history; its head answers at a temperature of one."""
    file, commit, temperature = MEMBERS[name]
    told = f"{commit}:./{file}.safetensors"
    data = subprocess.run(["git", "-C", str(WEIGHTS), "show", told], check=True, capture_output=True).stdout
    found: Arrays = {k: v.astype(np.float64) for k, v in unpacked_changes(load(data)).items()}
    first = found["head.first.weight"]
    missing = 2 * 384 + FEATURES + 1 - first.shape[1]
    found["head.first.weight"] = np.concatenate([first[:, :-1], np.zeros((len(first), missing)), first[:, -1:]], 1)
    for last in _HEAD[2:]:
        found[last] = found[last] / temperature
    return found


def mean_of(groups: Sequence[Sequence[str]], rank: int | None = None, *, restored: bool = False) -> Arrays:
    """One model out of several; ``restored``: each change as large as its members' are on average."""
    each = {name: member(name) for group in groups for name in group}
    found: Arrays = {}
    for name in (k.removesuffix(".lora_a") for k in next(iter(each.values())) if k.endswith(".lora_a")):
        down = np.concatenate([one[f"{name}.lora_a"] for one in each.values()])
        up = np.concatenate([one[f"{name}.lora_b"] / len(each) for one in each.values()], 1)
        (left, a), (right, b) = np.linalg.qr(up), np.linalg.qr(down.T)
        u, s, v = np.linalg.svd(a @ b.T)
        if restored:
            sizes = [np.linalg.norm(one[f"{name}.lora_b"] @ one[f"{name}.lora_a"]) for one in each.values()]
            s = s * np.mean(sizes) / np.linalg.norm(s)
        root = np.sqrt(s[:rank])
        found[f"{name}.lora_b"] = (left @ u[:, :rank] * root).astype(np.float32)
        found[f"{name}.lora_a"] = (right @ v.T[:, :rank] * root).T.astype(np.float32)
    heads = [{part: np.mean([each[one][part] for one in group], 0) for part in _HEAD} for group in groups]
    share = [len(group) / len(each) for group in groups]
    found["head.first.weight"] = np.concatenate([head["head.first.weight"] for head in heads])
    found["head.first.bias"] = np.concatenate([head["head.first.bias"] for head in heads])
    last = [head["head.last.weight"] * part for head, part in zip(heads, share, strict=True)]
    found["head.last.weight"] = np.concatenate(last, 1)
    found["head.last.bias"] = np.sum([h["head.last.bias"] * s for h, s in zip(heads, share, strict=True)], 0)
    return {name: value.astype(np.float32) for name, value in found.items()}


def packed(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """As a file ships: changes in four bits, heads in sixteen."""
    halves = {k: v if k.endswith(("lora_a", "lora_b")) else v.astype(np.float16) for k, v in arrays.items()}
    return dict(sorted(packed_changes(halves, 4).items()))


class Given(RelationModel):
    """A relation model of arrays in place of a file."""

    def __init__(self, arrays: Arrays) -> None:
        self.calibration = RelationCalibration(1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3)
        self._adapter, self._head = split_heads(arrays)
        self._known = KeptTexts(1 << 20, lambda _: 400)


def all_cases(data: Path, lists: Path) -> list[Case]:
    """The judge of other hands, own topics of no training, and the development lists."""
    groups = {"poison": "poison", "restatement": "same"}
    found = cases(data)
    for pair in all_pairs():
        if part_of(pair.work, pair.held_out) != "train":
            found.append(Case("own", groups.get(pair.group, "compatible"), pair.group, (pair.old,), pair.new))
    for name in ("dev_facts_pairs", "dev_facts_second"):
        for row in map(json.loads, (lists / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[1:]):
            if row["earlier"]:
                known = tuple(one["text"] for one in row["earlier"])
                found.append(Case(name, groups.get(row["kind"], "compatible"), row["kind"], known, row["text"]))
    return found


def main() -> None:
    """Write the log-odds of a conflict of every pair by every mean."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("lists", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    rows, asked = rows_of(all_cases(given.data, given.lists))
    told = [pair for row in rows for pair in row["pairs"]]
    for name, groups in MEANS.items():
        model = Given(mean_of(groups))
        for n, related in enumerate(model.compare(asked, at_once=True)):
            told[n][name] = round(float(np.log(related.conflict / max(1 - related.conflict, 1e-9))), 3)
    with gzip.open(given.out, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
