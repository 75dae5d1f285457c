"""What the embedded jury is trained on: public moderation data, cleaned, weighted, and split so that nothing leaks.

Labels of the case libraries are the sources' own, not the experts' vote: a case that its own summary contradicts is
dropped, a picture case that nobody confirmed is trusted less. Near-duplicates never stand on both sides of a split.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.cases.records import InputKind
from lazaretto.errors import InputError, MissingExtra
from lazaretto.gates.content.jury.views import HEADS, clean

HAZARDS = (
    "Bias & Discrimination",
    "Personal Rights & Property",
    "Content Safety",
    "Inappropriate values",
    "Network Attacks",
    "Psychological Health",
    "Privacy Protection",
    "Hazardous & Controlled Materials",
    "Biology & Environment",
    "Insults & Condemnation",
    "Military",
    "Business",
    "Intellectual Property",
    "Superstition",
    "Other Public Safety",
    "Culture & History",
)
"""AIR-Bench's categories: a training target that names the hazard, never an input."""

CONTEXTS: dict[str, str] = {
    "refusal": r"refus|declin|redirect|safe alternative",
    "education": r"educat|academic|scientif|research|histor|technical|medical|training|textbook|learn",
    "news": r"news|journalis|report(?:ing|age)|documentary|advoca|polic(?:y|ies) discussion|awareness",
    "fiction": r"fiction|artistic|creative|satir|script|narrative|film|novel|game|meme|humor",
    "prevention": r"prevent|safety (?:gear|equipment|device|info|guidance)|support|seek(?:ing)? help|mitigat|protect|"
    r"emergenc|first aid",
    "everyday": r"everyday|daily|ordinary|benign (?:context|scene|daily)|routine|household|workplace|neutral|general|"
    r"generic",
}
"""The benign contexts that Loose looks for, as the curators of the public cases word them in a safe case's cues."""

_CONTRADICTED = re.compile(r"ground[- ]truth[^.]{0,40}?\b(safe|unsafe)\b", re.IGNORECASE)
_CONFIRMED = re.compile(r"correct(?:ly)?[^.]{0,60}?\b(safe|unsafe)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled item."""

    kind: InputKind
    text: str
    description: str
    label: float
    """1 is risky."""
    source: str
    """dev | library | raw (AIR-Bench), or the name of a foreign source."""
    id: str = ""
    trust: float = 1.0
    """How far its label is believed: the weight of its loss."""
    hazard: int = -1
    """Index into ``HAZARDS``; -1 is unknown."""
    contexts: tuple[float, ...] = ()
    """One value per entry of ``CONTEXTS``; empty is unknown."""
    lettering: bool = False
    """Whether the text stands for words read off a picture."""
    group: int = -1
    """Near-duplicates share it."""

    @property
    def head(self) -> int:
        """Which head of a model judges it."""
        return HEADS.index("lettering" if self.lettering else self.kind.value)


def load_air_bench(folder: Path) -> list[Example]:
    """The development half and the public cases of AIR-Bench, cases that contradict themselves left out."""
    examples: list[Example] = []
    for kind in InputKind:
        for split in ("dev", "cases"):
            path = folder / f"{split}_{kind.value}.jsonl"
            if not path.is_file():
                raise InputError("data", f"{path.name} is missing in {folder}", "Point it at AIR-Bench's files")
            with path.open(encoding="utf-8") as lines:
                made = (_from_row(json.loads(line), kind, split) for line in lines)
                examples += [e for e in made if e is not None]
    return examples


def _from_row(row: dict[str, Any], kind: InputKind, split: str) -> Example | None:
    text, description = clean(row.get("text") or ""), clean(row.get("description") or "")
    if kind is InputKind.PAIR and not description:
        kind = InputKind.TEXT
    label = int(row.get("label", 0))  # the case files leave the label of safe cases out
    hazard = HAZARDS.index(row["category"]) if row.get("category") in HAZARDS else -1
    source = "dev" if split == "dev" else str(row["origin"])
    example = Example(kind, text, description, float(label), source, row["id"], hazard=hazard)
    if split == "dev":
        return example
    summary, word = row.get("summary") or "", ("safe", "unsafe")[label]
    told = _CONTRADICTED.search(summary)
    confirmed = _CONFIRMED.search(summary)
    if told and told.group(1).lower() != word:
        return None
    trust = 1.0
    if kind is InputKind.IMAGE:
        trust = 1.0 if confirmed and not told else 0.5 if told else 0.25
    contexts: tuple[float, ...] = ()
    if row.get("key_cues"):
        cues = " ".join(row["key_cues"]).lower() + " " + summary.lower()
        contexts = tuple(float(label == 0 and bool(re.search(p, cues))) for p in CONTEXTS.values())
    return replace(example, trust=trust, contexts=contexts)


def load_look_alikes(seed: int = 12) -> list[Example]:
    """Requests written for this project: harmless ones that sound harmful, and harmful ones in much the same words.

    Questions come a second time as lettering.
    """
    rng = random.Random(seed)
    file = resources.files("lazaretto_lab.training.jury").joinpath("look_alikes.jsonl")
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    made = [
        Example(InputKind.TEXT, clean(r["text"]), "", float(r["label"] == "unsafe"), "look_alikes", f"look_alikes-{i}")
        for i, r in enumerate(rows)
    ]
    return [*made, *(as_lettering(e, rng) for e in made if e.text.endswith("?"))]


_ASKING = re.compile(
    r"^(?:please |how (?:do|can|could|should|would) (?:i|you|we|one) |how to |can you |could you |would you |"
    r"i want to |help me (?:to )?|give me |tell me )+",
    re.IGNORECASE,
)


def as_lettering(example: Example, rng: random.Random) -> Example:
    """The request as an unfinished numbered list, as one would letter it on a picture."""
    core = _ASKING.sub("", example.text).strip().rstrip(".?!")
    core = core[:1].lower() + core[1:]
    question = example.text.endswith("?") and not _ASKING.match(example.text)
    opening = rng.choice(
        ("List of answers to:", "List of advice for:") if question else ("Steps to", "Methods to", "List of ways to")
    )
    return replace(example, text=f"{opening} {core}. 1. 2. 3.", id=f"{example.id}-lettering", lettering=True)


def grouped(examples: Sequence[Example], threshold: float = 0.7) -> list[Example]:
    """The examples with ``group`` set: pictures with nearly the same description share one, and texts nearly the same.

    A pair is grouped by its picture: its text is often one stock question asked about hundreds of different pictures.
    """
    parent = list(range(len(examples)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for field, least in (("description", 60), ("text", 40)):
        kinds = {InputKind.TEXT} if field == "text" else {InputKind.IMAGE, InputKind.PAIR}
        chosen = [i for i, e in enumerate(examples) if e.kind in kinds and len(getattr(e, field)) >= least]
        for a, b in near_pairs([getattr(examples[i], field)[:1000] for i in chosen], threshold):
            parent[root(chosen[a])] = root(chosen[b])
    return [replace(e, group=root(i)) for i, e in enumerate(examples)]


def near_pairs(texts: Sequence[str], threshold: float) -> list[tuple[int, int]]:
    """Index pairs whose word trigrams overlap past ``threshold`` (cosine of the trigram sets)."""
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError:
        raise MissingExtra("finding near-duplicates", "models") from None
    if not texts:
        return []
    shingles = HashingVectorizer(
        ngram_range=(3, 3), n_features=2**20, binary=True, norm="l2", alternate_sign=False, token_pattern=r"\w+"
    ).transform(texts)
    overlap = (shingles @ shingles.T).tocoo()
    near = (overlap.row < overlap.col) & (overlap.data > threshold)
    return list(zip(overlap.row[near].tolist(), overlap.col[near].tolist(), strict=True))


def without_overlap(training: Sequence[Example], judged: Sequence[Example]) -> list[Example]:
    """``training`` without near-duplicates of what will be judged; both must have been ``grouped`` together."""
    taken = {e.group for e in judged}
    return [e for e in training if e.group not in taken]


def folds(examples: Sequence[Example], count: int, seed: int = 5) -> NDArray[np.int64]:
    """A fold number per example: groups stay whole, kinds and labels are spread evenly."""
    by_group: dict[int, list[int]] = {}
    for i, e in enumerate(examples):
        by_group.setdefault(e.group, []).append(i)
    order = sorted(by_group)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda g: (examples[by_group[g][0]].kind.value, examples[by_group[g][0]].label, -len(by_group[g])))
    number = np.zeros(len(examples), dtype=np.int64)
    for position, group in enumerate(order):
        number[by_group[group]] = position % count
    return number
