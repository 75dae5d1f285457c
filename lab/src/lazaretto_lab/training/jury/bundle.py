"""The jury's training data, tokenized, and the trainings to be run: all that ``multi_seat.py`` needs elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.cases.records import InputKind
from lazaretto_lab.training.jury.data import CONTEXTS, Example, folds, grouped, load_air_bench, without_overlap
from lazaretto_lab.training.jury.foreign import fold_numbers, load_foreign

FOLDS = 5
_CLASSES = ("dev", "text", "image", "pair", "extra", "own")
_CHANCES = {"dev": 0.6, "text": 0.6, "image": 0.5, "pair": 0.5}
_FOREIGN_CHANCE = 0.35
_VOTED_TEXT = 2.0
"""More weight for texts that experts voted on: the text head meets many foreign ones beside them."""
_LONGEST = 1020
_LONGEST_FOREIGN = 254


def labelled(data: Path) -> tuple[list[Example], list[int]]:
    """Everything to train on, without what overlaps the development half or lies in two folds; and each one's fold.

    AIR-Bench's public cases have no fold (-1): they are in every training.
    """
    bench = grouped(load_air_bench(data / "air_bench"))
    dev = [e for e in bench if e.source == "dev"]
    cases = without_overlap([e for e in bench if e.source != "dev"], dev)
    numbers = folds(dev, FOLDS).tolist()
    foreign = load_foreign(data)
    foreign = _without_crossing(foreign, fold_numbers(foreign), [e.text for e in dev if e.text])
    return [*dev, *cases, *foreign], [*numbers, *(-1 for _ in cases), *fold_numbers(foreign)]


def _without_crossing(examples: Sequence[Example], fold: Sequence[int], judged: Sequence[str]) -> list[Example]:
    """Without near-duplicates (word trigrams, cosine above .7) of judged texts or of an example in an earlier fold."""
    shingles, number = _shingles([e.text[:1000] for e in examples]), np.array(fold)
    dropped = _near(shingles, _shingles(judged))
    for k in range(1, FOLDS):
        here, before = number == k, number < k
        dropped[np.flatnonzero(here)[_near(shingles[here], shingles[before])]] = True
    seen: dict[str, int] = {}
    for i, e in enumerate(examples):  # texts of one or two words have no trigrams
        words = f"{e.lettering}{e.text.lower()}{e.description}"
        dropped[i] |= seen.setdefault(words, fold[i]) != fold[i]
    return [e for e, gone in zip(examples, dropped, strict=True) if not gone]


def _shingles(texts: Sequence[str]) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(
        ngram_range=(3, 3), n_features=2**20, binary=True, norm="l2", alternate_sign=False, token_pattern=r"\w+"
    ).transform(texts)


def _near(these: Any, those: Any, threshold: float = 0.7, step: int = 2000) -> NDArray[np.bool_]:
    """Which of these have a near-duplicate among those."""
    turned = those.T.tocsr()
    parts = []
    for begin in range(0, these.shape[0], step):
        nearest = (these[begin : begin + step] @ turned).max(axis=1)
        parts.append(np.asarray(nearest.todense()).ravel() > threshold)
    return np.concatenate(parts)


def weight_class(example: Example) -> str:
    """Which number of a recipe multiplies the example's trust."""
    if example.source == "dev":
        return "dev"
    if example.source in ("library", "raw"):
        return example.kind.value
    return "own" if example.source in ("look_alikes", "twins") else "extra"


def write_input(examples: Sequence[Example], fold: Sequence[int], addresses: Sequence[str], path: Path) -> None:
    """Tokenizes everything and writes it, without the words themselves."""
    from lazaretto.models.minilm import minilm_tokenizer

    tokenizer = minilm_tokenizer()

    def ids(texts: Sequence[str], longest: Sequence[int]) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        rows = tokenizer.encode_batch([t[:6000] for t in texts], add_special_tokens=False)
        cut = [row.ids[:most] for row, most in zip(rows, longest, strict=True)]
        return np.array([i for row in cut for i in row], np.uint16), np.array([len(row) for row in cut], np.uint16)

    classes = [weight_class(e) for e in examples]
    voted = [_VOTED_TEXT if e.source == "dev" and e.kind is InputKind.TEXT else 1.0 for e in examples]
    longest = [_LONGEST if c in _CHANCES else _LONGEST_FOREIGN for c in classes]
    text, text_size = ids([e.text for e in examples], longest)
    picture, picture_size = ids([e.description for e in examples], [min(m, 700) for m in longest])
    address, address_size = ids(addresses, [100] * len(addresses))
    chance = [
        _CHANCES.get(c, float(np.clip(_FOREIGN_CHANCE * e.trust, 0.1, 1.0)))
        for e, c in zip(examples, classes, strict=True)
    ]
    kinds = list(InputKind)
    np.savez_compressed(
        path,
        text=text,
        text_size=text_size,
        picture=picture,
        picture_size=picture_size,
        address=address,
        address_size=address_size,
        kind=np.array([kinds.index(e.kind) for e in examples], np.uint8),
        head=np.array([e.head for e in examples], np.uint8),
        fold=np.array(fold, np.int8),
        label=np.array([e.label for e in examples], np.uint8),
        noisy=np.array([e.kind is InputKind.IMAGE and e.source != "dev" for e in examples], np.uint8),
        hazard=np.array([e.hazard if e.label else -1 for e in examples], np.int8),
        contexts=np.array([e.contexts or (0.0,) * len(CONTEXTS) for e in examples], np.uint8),
        known=np.array([bool(e.contexts) for e in examples], np.uint8),
        trust=np.array([e.trust * v for e, v in zip(examples, voted, strict=True)], np.float16),
        chance=np.array(chance, np.float16),
        weight_class=np.array([_CLASSES.index(c) for c in classes], np.uint8),
    )


STRICT: dict[str, Any] = {"name": "strict", "dev": 3.0}
LOOSE: dict[str, Any] = {
    "name": "loose",
    "dev": 3.0,
    "image": 0.8,
    "extra": 0.3,
    "given": 0.5,
    "hazard": 0.05,
    "context": 0.4,
    "rank": 1.0,
    "start": 2,
}
"""The two seats: another start, more weight on ranking and on benign contexts, less on cases of pictures."""


def held_out(recipe: dict[str, Any], *sizes: int) -> list[dict[str, Any]]:
    """The recipe without each set of that many folds: 0 is the one that ships, 1 and 2 are for nested figures."""
    return [{**recipe, "unseen": list(u)} for size in sizes for u in combinations(range(FOLDS), size)]


def write_examples(examples: Sequence[Example], fold: Sequence[int], path: Path) -> None:
    """Who is who in the scores: one line per example, for the machine that has the data."""
    with path.open("w", encoding="utf-8") as file:
        for e, k in zip(examples, fold, strict=True):
            row = {"id": e.id, "source": e.source, "kind": e.kind.value, "label": int(e.label), "fold": int(k)}
            row |= {"lettering": e.lettering, "hazard": e.hazard, "text": e.text, "description": e.description}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
