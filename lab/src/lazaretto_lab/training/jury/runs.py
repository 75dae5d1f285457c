"""The trainings behind the shipped jury: which seats are trained, on what, and what each must not see.

For every pair of folds there is a seat that saw neither, and for every fold one that missed it alone. So calibration,
debate weights and thresholds for a fold are fitted on scores whose models never met that fold: a strictly nested
cross-validation.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.content.records import InputKind
from lazaretto_lab.training.jury.data import (
    Example,
    folds,
    grouped,
    load_air_bench,
    load_extra,
    load_look_alikes,
    without_overlap,
)
from lazaretto_lab.training.jury.training import (
    EncodedTexts,
    Recipe,
    Schedule,
    TrainableRoles,
    Weights,
    encode,
    score,
    train,
)

FOLDS = 5
FOREIGN = {"davidson": -2, "hatemoji": -3}
"""Sets that one pair of seats is trained without, so that they can be reported as foreign."""
STRICT = Recipe("strict")
LOOSE = Recipe("loose", scale=1.5, dev=4.0, pair=0.7, image=0.6, given=0.5, hazard=0.0, context=0.5)
VARIANTS = {
    "top": Schedule(),
    "deep": Schedule(first_layer=0, rank=16),
    "deep-wide": Schedule(first_layer=0, rank=16, window=512),
    "deep-again": Schedule(first_layer=0, rank=16, seed=2),
}
"""Ways to train that inner folds choose between; all make files of the same size."""


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The data of a training, tokenized; all that a machine without the data folder needs."""

    items: tuple[EncodedTexts, ...]
    addresses: tuple[tuple[int, ...], ...]


def labelled(data: Path, per_source: int = 1000) -> tuple[list[Example], list[int]]:
    """Everything to train on, cleaned and grouped, without what overlaps the development half; and each one's fold."""
    examples = grouped([*load_air_bench(data / "air_bench"), *load_extra(data, per_source), *load_look_alikes()])
    dev = [e for e in examples if e.source == "dev"]
    rest = without_overlap([e for e in examples if e.source != "dev"], dev)
    return [*dev, *rest], [*folds(dev, FOLDS).tolist(), *(FOREIGN.get(e.source, -1) for e in rest)]


def prepare(data: Path, addresses: Sequence[str], tokenizer: Any) -> TrainingSet:
    """The tokenized data of a training."""
    examples, numbers = labelled(data)
    spoken = tuple(tuple(tokenizer.encode(line, add_special_tokens=False).ids) for line in addresses)
    return TrainingSet(tuple(encode(examples, numbers, tokenizer)), spoken)


def save_prepared(prepared: TrainingSet, path: Path) -> None:
    """Writes the tokenized data, without the words themselves."""
    items = [
        [asdict(replace(e.example, text="", description="")), e.text[:1100], e.picture[:700], e.fold]
        for e in prepared.items
    ]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump({"items": items, "addresses": prepared.addresses}, file)


def load_prepared(path: Path) -> TrainingSet:
    """Reads what ``save_prepared`` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        stored = json.load(file)
    items = []
    for fields, text, picture, fold in stored["items"]:
        example = Example(**{**fields, "kind": InputKind(fields["kind"]), "contexts": tuple(fields["contexts"])})
        items.append(EncodedTexts(example, tuple(text), tuple(picture), fold))
    return TrainingSet(tuple(items), tuple(tuple(a) for a in stored["addresses"]))


def all_recipes() -> list[Recipe]:
    """Both seats: final, without the foreign sets, without each fold, and without each pair of folds."""
    unseen = [(), tuple(FOREIGN.values()), *((k,) for k in range(FOLDS)), *combinations(range(FOLDS), 2)]
    return [
        replace(seat, name=f"{seat.name}:{','.join(map(str, folds))}", held_out=frozenset(folds))
        for seat in (STRICT, LOOSE)
        for folds in unseen
    ]


def run(
    prepared: TrainingSet,
    encoder: Path,
    device: str,
    report: Callable[[int, int, float], None],
    schedule: Schedule,
) -> tuple[dict[str, Weights], dict[str, NDArray[np.float32]]]:
    """Trains everything. Gives the two final seats by name, and every seat's window logits of what is judged.

    The scores hold, per recipe name, an array (judged items, 4) padded with NaN; ``judged`` lists the items' positions.
    """
    recipes = all_recipes()
    seats = TrainableRoles(encoder, recipes, schedule, device)
    train(seats, prepared.items, prepared.addresses, report)
    seats.round_to_shipped()
    judged = [i for i, e in enumerate(prepared.items) if e.fold != -1]
    logits = np.full((len(recipes), len(judged), 4), np.nan, dtype=np.float32)
    for row, found in enumerate(score(seats, [prepared.items[i] for i in judged])):
        logits[:, row, : found.shape[1]] = found
    scores = {r.name: logits[n] for n, r in enumerate(recipes)}
    scores["judged"] = np.array(judged, dtype=np.float32)
    shipped = {r.name.partition(":")[0]: w for r, w in zip(recipes, seats.export(), strict=True) if not r.held_out}
    return shipped, scores
