"""Fits a second head on the states of the first relation model, which was trained on no written text.

    python -m lazaretto_lab.training.claims.second_head states WORK --data DATA   # again until it says "all done"
    python -m lazaretto_lab.training.claims.second_head fit WORK --weights WEIGHTS/again.safetensors \\
        --rows lab/results/facts/relation_left_out.jsonl.gz lab/results/facts/heads_left_out.jsonl.gz

``states`` reads every pair with the model that ships and keeps what its head sees (about 24 ms a pair and core; it ends
after ``--seconds`` and goes on where it stopped). ``fit`` takes a minute: heads for the rows of ``left_out`` that have
not seen the kinds of work they score, and the one that ships, which has seen all but our held-out topics. DATA is the
folder of the public pairs; seeds are fixed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.relation import STRONG_AT, RelationModel, conflict_of_three, through
from lazaretto.models.minilm import claim_minilm
from lazaretto_lab.training.claims.facts_data import all_pairs
from lazaretto_lab.training.claims.own_pairs import group_of, near_in_a_day, near_notes, part_of, place_of
from lazaretto_lab.training.claims.pairs import SCENARIOS, read_rows, scenario_pairs
from lazaretto_lab.training.claims.templates import CONTRADICTS, UPDATES
from lazaretto_lab.training.written import FOLDS, statements

Floats = NDArray[np.float32]
SEED, NOTES, DAYS, PUBLIC = 3, 700, 350, 300
"""Of each fold's notes and days, and of each public source, so many pairs."""
HIDDEN, DROPOUT, DECAY, RATE, BATCH, EPOCHS, SMOOTHING = 64, 0.3, 0.3, 1e-3, 64, 10, 0.05
CHUNK, TOGETHER = 400, 16
SCORED = (0, 1, 2, 3)
"""Folds that trainings of the second models had left out: only their rows have scores."""
GROUPS = {"restatement": 0, "poison": 1}
"""What a head tells apart: the same said again, a conflict, and everything else."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, where they come from and how they stand to each other."""

    source: str
    group: str
    language: str
    old: str
    new: str


def pairs(data: Path) -> Iterator[Pair]:
    """Own topics, written statements, notes beside their nearest, days, and some of the public scenarios."""
    for one in all_pairs(crossed=True):
        yield Pair(f"own_{part_of(one.work, one.held_out)}", one.group, one.language, one.old, one.new)
    for stated in statements():
        yield Pair(f"written_{stated.fold}", group_of(stated), stated.language, stated.first, stated.second)
    rng = random.Random(SEED)
    for fold in range(FOLDS):
        for name, several, most in (("notes", near_notes(fold), NOTES), ("days", near_in_a_day(fold), DAYS)):
            for old, new, _ in rng.sample(several, min(most, len(several))):
                yield Pair(f"{name}_{fold}", name, "", old, new)
    rng = random.Random(SEED)
    for name in SCENARIOS:
        told = [
            (old, row["new"]["text"], label)
            for row in read_rows(data / f"facts_{name}.jsonl.gz")
            for old, label in scenario_pairs(row)
        ]
        for old, new, label in rng.sample(told, PUBLIC):
            group = "poison" if label in (CONTRADICTS, UPDATES) else "public"
            yield Pair(name, group, "en", old, new)


def keep_states(data: Path, work: Path, seconds: float) -> bool:
    """Read what is not read yet; whether all is."""
    started = time.monotonic()
    work.mkdir(parents=True, exist_ok=True)
    listed = work / "pairs.json"
    if not listed.exists():
        rows = [(one.source, one.group, one.language, one.old, one.new) for one in pairs(data)]
        listed.write_text(json.dumps(rows), encoding="utf-8")
    told = [Pair(*one) for one in json.loads(listed.read_text(encoding="utf-8"))]
    for first in range(0, len(told), CHUNK):
        file = work / f"states_{first:06d}.npz"
        if file.exists():
            continue
        if time.monotonic() - started > seconds:
            return False
        seen, kept = _states(told, range(first, min(first + CHUNK, len(told))))
        np.savez(file, seen=seen, kept=kept)
    return True


def _states(told: Sequence[Pair], some: range) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
    """What the heads see of some pairs, and which of them make claims."""
    model = RelationModel()
    texts = list(dict.fromkeys(text for n in some for text in (told[n].old, told[n].new)))
    vectors = dict(zip(texts, claim_minilm().embed_texts(texts), strict=True))
    asked, kept = [], []
    for n in some:
        old, new = claims_of(told[n].old), claims_of(told[n].new)
        if old and new:
            asked.append((old[0], new[0], float(vectors[told[n].old] @ vectors[told[n].new])))
            kept.append(n)
    seen = [model.seen(asked[at : at + TOGETHER]) for at in range(0, len(asked), TOGETHER)]
    return np.concatenate(seen).astype(np.float16), np.array(kept, np.int64)


def fitted(seen: Floats, label: NDArray[np.int64], seed: int = SEED) -> dict[str, Floats]:
    """A head of one hidden layer; what it sees is scaled inside its first weights."""
    torch.manual_seed(seed)
    mean, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-4
    x, y = torch.from_numpy((seen - mean) / spread), torch.from_numpy(label)
    first, last = torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Linear(HIDDEN, 3)
    drop = torch.nn.Dropout(DROPOUT)
    head = torch.nn.Sequential(drop, first, torch.nn.GELU(), drop, last)
    steps = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    order = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for some in np.array_split(order.permutation(len(y)), max(1, len(y) // BATCH)):
            loss = torch.nn.functional.cross_entropy(head(x[some]), y[some], label_smoothing=SMOOTHING)
            steps.zero_grad()
            loss.backward()
            steps.step()
    weight, bias = first.weight.detach().numpy(), first.bias.detach().numpy()
    scaled = weight / spread
    return {
        "first.weight": scaled, "first.bias": bias - scaled @ mean,
        "last.weight": last.weight.detach().numpy(), "last.bias": last.bias.detach().numpy(),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Read:
    """Every pair that was read, with what heads see of it."""

    pairs: list[Pair]
    seen: Floats

    @property
    def label(self) -> NDArray[np.int64]:
        """Which of the three each is."""
        return np.array([GROUPS.get(one.group, 2) for one in self.pairs], np.int64)

    @property
    def fold(self) -> NDArray[np.int64]:
        """Of the kind of work; -1 where a pair has none."""
        return np.array([int(tail) if (tail := one.source.rpartition("_")[2]).isdigit() else -1 for one in self.pairs])


def read_states(work: Path) -> Read:
    """What ``states`` kept."""
    told = [Pair(*one) for one in json.loads((work / "pairs.json").read_text(encoding="utf-8"))]
    files = [np.load(path) for path in sorted(work.glob("states_*.npz"))]
    kept = np.concatenate([one["kept"] for one in files])
    return Read([told[n] for n in kept.tolist()], np.concatenate([one["seen"] for one in files]).astype(np.float32))


def scores(read: Read) -> tuple[NDArray[np.float64], dict[str, Floats]]:
    """Log-odds of a conflict of every pair that is scored, by a head that has not seen its fold or our topics that are
    not for a fit; and the head that ships."""
    never = np.isin([one.source for one in read.pairs], ("own_cal", "own_held"))
    out = np.full(len(never), np.nan)
    shipped = fitted(read.seen[~never], read.label[~never])
    out[never] = log_odds(shipped, read.seen[never])
    for fold in SCORED:
        mine = read.fold == fold
        out[mine] = log_odds(fitted(read.seen[~never & ~mine], read.label[~never & ~mine]), read.seen[mine])
    return out, shipped


def log_odds(head: dict[str, Floats], seen: Floats) -> NDArray[np.float64]:
    """Of a conflict."""
    share = np.clip(conflict_of_three(through(head, seen)), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(share / (1 - share)))


def main() -> None:
    """Keep states, or fit on them and write the head and the rows for the bars."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("states", "fit"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--rows", type=Path, nargs=2, help="rows of left_out, and where to write them with this head")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "states":
        print("all done" if keep_states(given.data, given.work, given.seconds) else "not done")
        return
    read = read_states(given.work)
    found, shipped = scores(read)
    if given.weights:
        save_file({f"head.{name}": value.astype(np.float16) for name, value in shipped.items()}, given.weights)
        print(hashlib.sha256(given.weights.read_bytes()).hexdigest())
    if given.rows:
        before, after = given.rows
        rows = joined(read, found, before)
        with gzip.open(after, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{len(rows)} pairs")


def joined(read: Read, found: NDArray[np.float64], before: Path) -> list[dict[str, Any]]:
    """The rows of ``left_out`` whose pair was read here, as the rules meet them now, with both heads' probability of a
    conflict; a row has no texts, so pairs are found again by source, group, order or the first head's word."""
    answers = np.exp(RelationModel().answers(read.seen).astype(np.float64))
    by_first = answers[:, 1:3].sum(axis=1) / answers.sum(axis=1)
    rows: list[dict[str, Any]] = []
    with gzip.open(before, "rt", encoding="utf-8") as file:
        left = [json.loads(line) for line in file]
    by: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in left:
        by.setdefault((row["source"], "logits" if "logits" in row else "mpnet"), []).append(row)
    for reader in ("logits", "mpnet"):
        at: dict[str, int] = {}
        for n, one in enumerate(read.pairs):
            several = by.get((one.source, reader))
            if several is None:
                continue
            cosine, first = float(read.seen[n, -1]), float(by_first[n])
            begin = at.get(one.source, 0)
            ordered = not one.source.startswith(("notes", "days"))
            match = next(
                (
                    place
                    for place in range(begin, min(begin + 40, len(several)) if ordered else len(several))
                    if several[place]["group"] == one.group
                    and abs(several[place]["cosine"] - cosine) < (0.012 if ordered else 0.0015)
                    and (ordered or abs(several[place]["first"] - first) < 0.012)
                ),
                None,
            )
            if match is None:
                continue
            if ordered:
                at[one.source] = match + 1
            a, b = claims_of(one.old)[0], claims_of(one.new)[0]
            rows.append(
                {
                    "source": one.source, "group": one.group, "language": one.language, "place": place_of(a, b, cosine),
                    "cosine": round(cosine, 3), "first": round(first, 4), "head": round(float(found[n]), 3),
                    "strong": int(read.seen[n, STRONG_AT]),
                    reader: several[match][reader],
                }
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
