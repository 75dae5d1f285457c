"""Fits the head of the relation model again, on states of an adapter: own pairs, notes beside their nearest, public.

    python -m lazaretto_lab.training.claims.head DATA --weights WEIGHTS --out lab/results/facts

DATA is the folder of the public claims, WEIGHTS the folder of the relation model (src/lazaretto/models/weights/claims).
The adapter stays as it is: it comes from ``training.py``, which needs a GPU. Needs torch; about ten minutes on one
core. Writes the head into WEIGHTS, and the logits of what no training saw (``relation_unseen.jsonl``: own topics of six
kinds of work, notes of two folds), from which ``studies.claims.bars`` sets the bars. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lazaretto.gates.memory.claims.comparison import compared
from lazaretto.gates.memory.claims.extraction import claims_of, read_claim
from lazaretto.gates.memory.claims.relation import TOKENS_NEW, TOKENS_OLD, RelationModel
from lazaretto.models.minilm import claim_minilm, minilm_tokenizer
from lazaretto_lab.training.claims.own_pairs import (
    BAR_FOLDS,
    CONFLICT,
    NOTE_FOLDS,
    near_notes,
    near_others,
    own_pairs,
    place_of,
)
from lazaretto_lab.training.claims.pairs import read_rows, scenario_pairs, sentence_pairs
from lazaretto_lab.training.claims.templates import AGREES, CONTRADICTS, NO_CONFLICT, OTHER, operational_pairs

UNSEEN = ("own_cal", "own_held", "notes_held")
TAKEN = {
    "mnli": 1000, "snli": 200, "cad": 500, "conj": 300, "negation": 500, "feversym": 700, "scone": 200,
    "infotabs": 500, "facts": 800,
}  # fmt: skip
_LABELS = {"entail": AGREES, "contradict": CONTRADICTS, "neutral": OTHER}
_TOPICS, _NOTES, _OTHERS, _PUBLIC = 1_500, 1_300, 1_000, 2_500
_LONGEST, EPOCHS, BATCH, RATE, DROPOUT, SMOOTHING, SEED = 400, 25, 256, 1.5e-3, 0.3, 0.05, 3
_WEIGHTS = {"written": 4.0, "own_train": 1.5}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts with what is known of their relation."""

    old: str
    new: str
    label: int
    source: str
    group: str


def material(data: Path) -> list[Pair]:
    """Own pairs, notes, statements of two kinds of work, and a sample of the public pairs."""
    rng = random.Random(1)
    own = [Pair(o.old, o.new, o.label, o.source, o.group) for o in own_pairs(0) if not o.source.startswith("more_")]
    topics = [one for one in own if one.source == "own_train"]
    rng.shuffle(topics)
    left = {id(one) for one in topics[_TOPICS:]}
    found = [one for one in own if id(one) not in left]
    for folds, source in ((NOTE_FOLDS, "notes"), (BAR_FOLDS, "notes_held")):
        found += _some([Pair(a, b, NO_CONFLICT, source, "notes") for a, b, _ in near_notes(folds)], _NOTES, rng)
    found += _some([Pair(a, b, NO_CONFLICT, name, "compatible") for name, a, b in near_others(2)], _OTHERS, rng)
    return found + _some(_public(data), _PUBLIC, rng)


def _some(pairs: list[Pair], most: int, rng: random.Random) -> list[Pair]:
    rng.shuffle(pairs)
    return pairs[:most]


def _public(data: Path) -> list[Pair]:
    rng = random.Random(SEED)
    found: list[Pair] = []
    for name, most in TAKEN.items():
        rows = [row for row in read_rows(data / f"nli_{name}.jsonl.gz") if len(row["premise"]) <= _LONGEST]
        rng.shuffle(rows)
        found += [Pair(r["premise"], r["hypothesis"], _LABELS[r["label"]], "public", "public") for r in rows[:most]]
    for name in ("pararel", "templama", "conflictqa", "poisonedrag"):
        found += _scenarios(list(read_rows(data / f"facts_{name}.jsonl.gz")), rng)
    found += [Pair(old, new, label, "public", "public") for old, new, label in operational_pairs(1_500, 7)]
    return list({(one.old, one.new): one for one in found}.values())


def _scenarios(rows: list[dict[str, Any]], rng: random.Random, most: int = 350) -> list[Pair]:
    rng.shuffle(rows)
    found: list[Pair] = []
    for row in rows:
        new, memories = row["new"]["text"], [m["text"] for m in row["memories"]]
        if len(new) <= _LONGEST:
            told = [(old, new, label) for old, label in scenario_pairs(row) if len(old) <= _LONGEST]
        elif row["label"] in ("compatible", "unrelated"):
            told = [(old, one, NO_CONFLICT) for old, one in sentence_pairs(memories, new, rng, 1)]
        else:
            told = []
        found += [Pair(old, one, label, "public", "public") for old, one, label in told]
    return found[:most]


def states(pairs: list[Pair], weights: Path) -> Any:
    """What the adapter makes of each pair, with its features and its cosine."""
    model = RelationModel(weights)
    texts = list(dict.fromkeys(text for one in pairs for text in (one.old, one.new)))
    ids = dict(zip(texts, minilm_tokenizer().encode_batch(texts, add_special_tokens=False), strict=True))
    vectors = dict(zip(texts, claim_minilm().embed_texts(texts), strict=True))
    order = sorted(range(len(pairs)), key=lambda n: len(ids[pairs[n].old].ids) + len(ids[pairs[n].new].ids))
    rows: list[Any] = [None] * len(pairs)
    for start in range(0, len(order), 32):
        some = order[start : start + 32]
        windows = [
            (101, *ids[pairs[n].old].ids[:TOKENS_OLD], 102, *ids[pairs[n].new].ids[:TOKENS_NEW], 102) for n in some
        ]
        for n, state in zip(some, model._full.token_states(windows), strict=True):
            old, new = read_claim(pairs[n].old[:600]), read_claim(pairs[n].new[:600])
            cosine = float(vectors[pairs[n].old] @ vectors[pairs[n].new])
            rows[n] = np.concatenate([state[0], state.mean(axis=0), compared(old, new), [cosine]])
    return torch.from_numpy(np.array(rows, np.float32))


def loss_of(logits: Any, labels: Any, weight: Any) -> Any:
    """Cross-entropy, where a label may be one of two relations."""
    share = functional.log_softmax(logits, 1)
    loss = torch.zeros(len(labels))
    known = labels < NO_CONFLICT
    loss[known] = functional.cross_entropy(logits[known], labels[known], label_smoothing=SMOOTHING, reduction="none")
    for label, either, other in ((NO_CONFLICT, [0, 3], [1, 2]), (CONFLICT, [1, 2], [0, 3])):
        mine = labels == label
        right, wrong = (torch.logsumexp(share[mine][:, columns], 1) for columns in (either, other))
        loss[mine] = -(1 - SMOOTHING) * right - SMOOTHING * wrong
    return (loss * weight).sum() / weight.sum()


def fitted(x: Any, pairs: list[Pair]) -> tuple[nn.Linear, nn.Linear]:
    """A head that has seen everything but ``UNSEEN``; it takes states as they are."""
    middle, spread = x.mean(0), x.std(0) + 0.05
    z = (x - middle) / spread
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    first, last = nn.Linear(x.shape[1], 64), nn.Linear(64, 4)
    labels = torch.tensor([one.label for one in pairs])
    weight = torch.tensor([_WEIGHTS.get(one.source.split("_")[0], _WEIGHTS.get(one.source, 1.0)) for one in pairs])
    seen = np.array([n for n, one in enumerate(pairs) if one.source not in UNSEEN])
    parameters = [*first.parameters(), *last.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * (len(seen) // BATCH) + 1)
    for _ in range(EPOCHS):
        order = rng.permutation(seen)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = torch.from_numpy(order[start : start + BATCH])
            hidden = functional.gelu(first(functional.dropout(z[rows], DROPOUT)))
            loss = loss_of(last(functional.dropout(hidden, DROPOUT)), labels[rows], weight[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():  # the head that ships is given states that nobody scaled
        first.bias.sub_(first.weight @ (middle / spread))
        first.weight.div_(spread)
    return first, last


def unseen_rows(x: Any, pairs: list[Pair], first: nn.Linear, last: nn.Linear) -> list[dict[str, Any]]:
    """What no training saw, as ``studies.claims.bars`` reads it."""
    with torch.no_grad():
        logits = last(functional.gelu(first(x))).numpy()
    rows = []
    for one, four, state in zip(pairs, logits, x, strict=True):
        if one.source in UNSEEN:
            old, new = claims_of(one.old), claims_of(one.new)
            at = place_of(old[0], new[0], float(state[-1])) if old and new else "no claim"
            rows.append(
                {
                    "source": one.source, "group": one.group, "place": at, "cosine": round(float(state[-1]), 3),
                    "logits": [round(float(v), 2) for v in four],
                }
            )  # fmt: skip
    return rows


def main() -> None:
    """Fit, write the weights, keep what the fit had not seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pairs = material(given.data)
    x = states(pairs, given.weights)
    first, last = fitted(x, pairs)
    write(given.weights, first, last)
    lines = "\n".join(json.dumps(row) for row in unseen_rows(x, pairs, first, last))
    (given.out / "relation_unseen.jsonl").write_text(f"{lines}\n", encoding="utf-8")


def write(weights: Path, first: nn.Linear, last: nn.Linear) -> None:
    """Put a head into the weights."""
    from safetensors.numpy import load_file, save_file

    arrays = load_file(weights / "relation.safetensors")
    for name, layer in (("first", first), ("last", last)):
        arrays[f"head.{name}.weight"] = layer.weight.detach().numpy().astype(np.float16)
        arrays[f"head.{name}.bias"] = layer.bias.detach().numpy().astype(np.float16)
    save_file(arrays, weights / "relation.safetensors")


if __name__ == "__main__":
    main()
