"""Fits the head of the relation model again, on states of the adapter that ships: own topics and the public sets.

    python -m lazaretto_lab.training.claims.head DATA --weights WEIGHTS --out lab/results/facts

DATA is the folder of the public claims, WEIGHTS is src/lazaretto/models/weights/claims. Needs torch; about ten minutes
on one core. The adapter stays as it is; a training of the adapter on the same pairs (``material``) needs a GPU and is
``training.py`` with these pairs in its packs (``--export OUT`` writes them as JSON lines). Seeds are fixed.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lazaretto.gates.memory.claims.comparison import compared, meeting
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.gates.memory.claims.relation import TOKENS_NEW, TOKENS_OLD, RelationModel
from lazaretto.models.minilm import claim_minilm, minilm_tokenizer
from lazaretto_lab.training.claims.facts_data import FactPair, all_pairs
from lazaretto_lab.training.claims.pairs import read_rows, scenario_pairs, sentence_pairs
from lazaretto_lab.training.claims.templates import AGREES, CONTRADICTS, NO_CONFLICT, OTHER, operational_pairs

CONFLICT = 5
"""Like NO_CONFLICT: contradicts or updates, and nobody says which."""
CALIBRATED_ON = frozenset({"hotel", "school", "lab"})
TAKEN = {
    "mnli": 1000, "snli": 200, "cad": 500, "conj": 300, "negation": 500, "feversym": 700, "scone": 200,
    "infotabs": 500, "facts": 800,
}  # fmt: skip
_LABELS = {"entail": AGREES, "contradict": CONTRADICTS, "neutral": OTHER}
_GROUPS = {"restatement": AGREES, "poison": CONFLICT}
_WEIGHTS = {"own_event": 4.0, "own_passage": 4.0, "own_restatement": 2.5, "own_poison": 1.5, "own_compatible": 1.5}
_LONGEST, EPOCHS, BATCH, RATE, SEED = 400, 30, 256, 2e-3, 3


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts with their relation; ``part``: train | cal | held | replay."""

    old: str
    new: str
    label: int
    source: str
    part: str
    language: str


def material(data: Path) -> list[Pair]:
    """Own pairs of every kind of work, and a sample of the public ones."""
    rng = random.Random(SEED)
    found = [_own(pair) for pair in all_pairs(crossed=True)]
    for name, most in TAKEN.items():
        rows = [row for row in read_rows(data / f"nli_{name}.jsonl.gz") if len(row["premise"]) <= _LONGEST]
        rng.shuffle(rows)
        found += [
            Pair(r["premise"], r["hypothesis"], _LABELS[r["label"]], f"nli_{name}", "replay", "en")
            for r in rows[:most]
        ]  # fmt: skip
    for name in ("pararel", "templama", "conflictqa", "poisonedrag"):
        found += _scenarios(list(read_rows(data / f"facts_{name}.jsonl.gz")), name, rng)
    found += [Pair(old, new, label, "templates", "replay", "en") for old, new, label in operational_pairs(1_500, 7)]
    return list({(one.old, one.new): one for one in found}.values())


def _own(pair: FactPair) -> Pair:
    part = "held" if pair.held_out else "cal" if pair.work in CALIBRATED_ON else "train"
    label = _GROUPS.get(pair.group, NO_CONFLICT)
    return Pair(pair.old, pair.new, label, f"own_{pair.group}", part, pair.language)


def _scenarios(rows: list[dict[str, Any]], name: str, rng: random.Random, most: int = 350) -> list[Pair]:
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
        found += [Pair(old, one, label, name, "replay", "en") for old, one, label in told]
    return found[:most]


def states(pairs: list[Pair], weights: Path) -> tuple[Any, Any, list[str]]:
    """What the adapter makes of each pair with its features, the head as it is, and in what each pair meets."""
    model = RelationModel(weights)
    texts = list(dict.fromkeys(text for one in pairs for text in (one.old, one.new)))
    ids = dict(zip(texts, minilm_tokenizer().encode_batch(texts, add_special_tokens=False), strict=True))
    vectors = dict(zip(texts, claim_minilm().embed_texts(texts), strict=True))
    rows, meets = [], []
    for one in pairs:
        window = (101, *ids[one.old].ids[:TOKENS_OLD], 102, *ids[one.new].ids[:TOKENS_NEW], 102)
        state = model._full.token_states([window])[0]
        old, new = read_claim(one.old[:600]), read_claim(one.new[:600])
        cosine = float(vectors[one.old] @ vectors[one.new])
        rows.append(np.concatenate([state[0], state.mean(axis=0), compared(old, new), [cosine]]).astype(np.float32))
        meets.append(meeting(old, new, cosine).value)
    return torch.from_numpy(np.array(rows)), model._head, meets


def loss_of(logits: Any, labels: Any, weight: Any) -> Any:
    """Cross-entropy, where a label may be one of two relations."""
    share = functional.log_softmax(logits, 1)
    loss = torch.zeros(len(labels))
    known = labels < NO_CONFLICT
    loss[known] = functional.cross_entropy(logits[known], labels[known], label_smoothing=0.03, reduction="none")
    for label, either in ((NO_CONFLICT, [0, 3]), (CONFLICT, [1, 2])):
        mine = labels == label
        loss[mine] = -torch.logsumexp(share[mine][:, either], 1)
    return (loss * weight).sum() / weight.sum()


def fitted(x: Any, pairs: list[Pair], head: Any) -> tuple[nn.Linear, nn.Linear]:
    """A head that has seen the parts ``train`` and ``replay``; it begins where the shipped one is."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    first, last = nn.Linear(x.shape[1], 64), nn.Linear(64, 4)
    known = head["first.weight"].shape[1] - 1
    with torch.no_grad():
        first.weight.zero_()
        first.weight[:, :known] = torch.from_numpy(head["first.weight"][:, :-1].astype(np.float32))
        first.weight[:, -1] = torch.from_numpy(head["first.weight"][:, -1].astype(np.float32))
        for layer, name in ((first, "first"), (last, "last")):
            layer.bias.copy_(torch.from_numpy(head[f"{name}.bias"].astype(np.float32)))
        last.weight.copy_(torch.from_numpy(head["last.weight"].astype(np.float32)))
    labels = torch.tensor([one.label for one in pairs])
    weight = torch.tensor([_WEIGHTS.get(one.source, 1.0) for one in pairs])
    seen = np.array([n for n, one in enumerate(pairs) if one.part in ("train", "replay")])
    parameters = [*first.parameters(), *last.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.05)
    steps = EPOCHS * (len(seen) // BATCH) + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        order = rng.permutation(seen)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = torch.from_numpy(order[start : start + BATCH])
            told = x[rows].clone()
            told[:, 768:] *= ~(torch.rand(BATCH, 1) < 0.15)
            logits = last(functional.gelu(first(functional.dropout(told, 0.1))))
            loss = loss_of(logits, labels[rows], weight[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return first, last


def figures(conflict: Any, pairs: list[Pair], meets: list[str]) -> dict[str, Any]:
    """AUC of a conflict in the parts that were not seen, and how many of each group lie above bars."""
    told: dict[str, Any] = {}
    for part in ("cal", "held"):
        mine = [n for n, one in enumerate(pairs) if one.part == part]
        bad = np.array([conflict[n] for n in mine if pairs[n].label == CONFLICT])
        fine = np.array([conflict[n] for n in mine if pairs[n].label != CONFLICT])
        above: dict[str, collections.Counter[str]] = {}
        for n in mine:
            for bar in (0.5, 0.7, 0.88, 0.92):
                name = f"{meets[n]} {bar}"
                above.setdefault(name, collections.Counter())[pairs[n].source] += int(conflict[n] >= bar)
        told[part] = {"auc": round(float((bad[:, None] > fine[None]).mean()), 4), "above": above}
    return told


def main() -> None:
    """Fit, write the weights, keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--export", type=Path, help="only write the pairs, as JSON lines")
    given = parser.parse_args()
    pairs = material(given.data)
    if given.export:
        lines = "\n".join(json.dumps(asdict(one), ensure_ascii=False) for one in pairs)
        given.export.write_text(f"{lines}\n", encoding="utf-8")
        return
    x, head, meets = states(pairs, given.weights)
    first, last = fitted(x, pairs, head)
    with torch.no_grad():
        share = torch.softmax(last(functional.gelu(first(x))) / 1.4, 1).numpy()
    told = figures(share[:, 1] + share[:, 2], pairs, meets)
    print(json.dumps(told, indent=1))
    _write(given.weights, first, last)
    if given.out:
        (given.out / "relation_head.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _write(weights: Path, first: nn.Linear, last: nn.Linear) -> None:
    from safetensors.numpy import load_file, save_file

    arrays = load_file(weights / "relation.safetensors")
    for name, layer in (("first", first), ("last", last)):
        arrays[f"head.{name}.weight"] = layer.weight.detach().numpy().astype(np.float16)
        arrays[f"head.{name}.bias"] = layer.bias.detach().numpy().astype(np.float16)
    save_file(arrays, weights / "relation.safetensors")


if __name__ == "__main__":
    main()
