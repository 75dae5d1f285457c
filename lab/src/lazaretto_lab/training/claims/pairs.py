"""Pairs of claims to train and to score on, from the public sets, templates and our own, tokenised and packed.

``facts_beam`` and ``facts_situatedqa`` are scored, never trained on: their repositories name no licence.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.gates.memory.claims.comparison import compared
from lazaretto.gates.memory.claims.extraction import claims_of, read_claim
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.claims.own_pairs import near_in_a_day, near_notes, near_others, own_pairs
from lazaretto_lab.training.claims.templates import (
    AGREES,
    CONTRADICTS,
    NO_CONFLICT,
    OTHER,
    UPDATES,
    operational_pairs,
)
from lazaretto_lab.training.written import FOLDS
from lazaretto_lab.worlds.claims.scenarios import operational_scenarios

NLI = ("mnli", "snli", "cad", "conj", "negation", "feversym", "scone", "infotabs", "facts")
SCENARIOS = ("pararel", "templama", "conflictqa", "poisonedrag")
ONLY_SCORED = ("beam", "situatedqa")
_LABELS = {"entail": AGREES, "contradict": CONTRADICTS, "neutral": OTHER}
TOKENS_OLD, TOKENS_NEW = 72, 96
MOST_CLAIMS = 4
SCORED_UNSEEN = ("written_", "notes_", "days_", "own_cal", "own_held")
"""How sources begin whose pairs are scored by a run that had not seen them."""


@dataclass
class Pack:
    """Texts once, pairs of them by number."""

    texts: dict[str, int] = field(default_factory=dict)
    old: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    features: list[list[float]] = field(default_factory=list)
    where: list[tuple[int, int, int]] = field(default_factory=list)
    """Of a scored pair: scenario, memory, and whether it is a pair of claims (1) or of whole texts (0)."""

    def number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def add(self, old: str, new: str, label: int, source: str, where: tuple[int, int, int] = (-1, -1, -1)) -> None:
        self.old.append(self.number(old))
        self.new.append(self.number(new))
        self.label.append(label)
        self.source.append(source)
        self.features.append(compared(read_claim(old), read_claim(new)))
        self.where.append(where)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def training_pack(folder: Path, operational: int = 16_000, seed: int = 1) -> Pack:
    """Every pair that may be trained on, under the name of its source."""
    rng, pack = random.Random(seed), Pack()
    for name in NLI:
        rows = list(read_rows(folder / f"nli_{name}.jsonl.gz"))
        for row in rows:
            source = (
                row["id"].split("-")[0] if name == "facts" else "negation_mnli" if "neg-mnli" in row["id"] else name
            )
            pack.add(row["premise"], row["hypothesis"], _LABELS[row["label"]], source)
            if row["label"] == "contradict" and rng.random() < 0.25:
                pack.add(row["hypothesis"], row["premise"], CONTRADICTS, source)
            if rng.random() < 0.12:  # two texts that have nothing to do with each other
                pack.add(row["premise"], rng.choice(rows)["hypothesis"], OTHER, source)
    for name in SCENARIOS:
        for row in read_rows(folder / f"facts_{name}.jsonl.gz"):
            for old, label in scenario_pairs(row):
                pack.add(old, row["new"]["text"], label, name)
            if row["label"] in ("compatible", "unrelated"):  # none of their sentences is in conflict with another
                for old, new in sentence_pairs([m["text"] for m in row["memories"]], row["new"]["text"], rng):
                    pack.add(old, new, NO_CONFLICT, name)
    for old, new, label in operational_pairs(operational, seed):
        pack.add(old, new, label, "templates")
    for one in own_pairs():
        pack.add(one.old, one.new, one.label, one.source)
    add_peaceful(pack)
    return pack


def add_peaceful(pack: Pack) -> None:
    """Texts that are near to each other and speak of two things."""
    for fold in range(FOLDS):
        for source, several in ((f"notes_{fold}", near_notes(fold)), (f"days_{fold}", near_in_a_day(fold))):
            for old, new, _ in several:
                pack.add(old, new, OTHER, source)
    for source, old, new in near_others():
        pack.add(old, new, OTHER, source)


def sentence_pairs(memories: Sequence[str], new: str, rng: random.Random, most: int = 3) -> list[tuple[str, str]]:
    """Some pairs of single sentences of a scenario, where it has more than whole texts."""
    news = [c.text for c in claims_of(new)[:-1]]
    found = [(c.text, one) for text in memories for c in claims_of(text) for one in news]
    return rng.sample(found, min(most, len(found)))


def scenario_pairs(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Memories of a scenario whose relation to the new text is clear, each with it."""
    new = read_claim(row["new"]["text"]).subject
    texts = [m["text"] for m in row["memories"]]
    overlap = [len(read_claim(t).subject & new) / max(1, min(len(read_claim(t).subject), len(new))) for t in texts]
    if row["label"] == "unrelated":
        return [(t, OTHER) for t in texts]
    best = max(range(len(texts)), key=overlap.__getitem__)
    relation = {"contradiction_poison": CONTRADICTS, "legit_update": UPDATES, "compatible": AGREES}[row["label"]]
    found = [(texts[best], relation)] if overlap[best] >= 0.25 else []
    return found + [(t, OTHER) for i, t in enumerate(texts) if i != best and overlap[i] < 0.15]


def scored_pack(folder: Path) -> tuple[Pack, list[dict[str, Any]]]:
    """Every scenario as pairs of whole texts and of claims, and the scenarios themselves."""
    pack, scenarios = Pack(), []
    for name in (*SCENARIOS, *ONLY_SCORED):
        for row in read_rows(folder / f"facts_{name}.jsonl.gz"):
            scenarios.append({"id": row["id"], "label": row["label"], "source": name, "subtype": row["subtype"]})
            _add_scenario(pack, len(scenarios) - 1, name, [m["text"] for m in row["memories"]], row["new"]["text"])
    for one in operational_scenarios():
        scenarios.append({"id": one.id, "label": one.label, "source": f"operational_{one.part}", "subtype": one.kind})
        _add_scenario(pack, len(scenarios) - 1, "operational", [m.text for m in one.memories], one.new.text)
    return pack, scenarios


def _add_scenario(pack: Pack, number: int, source: str, memories: Sequence[str], new: str) -> None:
    claims = [c.text for c in claims_of(new)][-MOST_CLAIMS:]
    for place, text in enumerate(memories):
        pack.add(text, new, -1, source, (number, place, 0))
        olds = [c.text for c in claims_of(text)][-MOST_CLAIMS:]
        for old in olds:
            for one in claims:
                if (old, one) != (text, new):
                    pack.add(old, one, -1, source, (number, place, 1))


def save(pack: Pack, path: Path) -> None:
    """Write a pack as arrays that need nothing but numpy to be read."""
    ids = [e.ids[: max(TOKENS_OLD, TOKENS_NEW)] for e in minilm_tokenizer().encode_batch(
        list(pack.texts), add_special_tokens=False)]  # fmt: skip
    names = sorted(set(pack.source))
    features = np.array(pack.features, np.float32)
    np.savez_compressed(
        path,
        tokens=np.array([t for several in ids for t in several], np.uint16),
        lengths=np.array([len(several) for several in ids], np.uint8),
        old=np.array(pack.old, np.uint32), new=np.array(pack.new, np.uint32), label=np.array(pack.label, np.int8),
        source=np.array([names.index(s) for s in pack.source], np.uint8), names=np.array(names),
        features=(features * 100).round().astype(np.uint8), where=np.array(pack.where, np.int32),
    )  # fmt: skip


def write_rows(pack: Pack, path: Path) -> None:
    """The texts of the pairs that a run scores unseen, each with its place in the pack: ``left_out`` reads them."""
    texts = list(pack.texts)
    with path.open("w", encoding="utf-8") as file:
        for row, (old, new, source) in enumerate(zip(pack.old, pack.new, pack.source, strict=True)):
            if source.startswith(SCORED_UNSEEN):
                file.write(json.dumps({"row": row, "old": texts[old], "new": texts[new], "source": source}) + "\n")


def main() -> None:
    """Write the inputs of a training: ``python -m lazaretto_lab.training.claims.pairs DATA OUT``."""
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    pack = training_pack(data)
    save(pack, out / "train.npz")
    write_rows(pack, out / "rows.jsonl")
    pack, scenarios = scored_pack(data)
    save(pack, out / "scored.npz")
    (out / "scenarios.json").write_text(json.dumps(scenarios), encoding="utf-8")


if __name__ == "__main__":
    main()
