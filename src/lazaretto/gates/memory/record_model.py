"""Structured memories: the detector, and their judgement when written and again as the evidence around them changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import EvidenceTable, GroupWindows, Ints, MemoryOrigins, WindowRows
from lazaretto.models.record_embedding import Floats
from lazaretto.models.weight_files import read_weights

# The detector for structured memories: credibility, attention over the evidence, contrastive encoder, fusion.
#
# P = alpha (1 - C) + (1 - alpha) sigmoid(w.h), calibrated on held-out teams. The paper's formula adds C itself, which
# would make trusted sources look poisoned; the sign is turned here.

WEIGHTS = Path(__file__).parents[2] / "models" / "weights" / "records"
ATTENDED = 32
"""Dimensions of the attention's output; with twice 240 of the embedding the encoder reads 512."""
AT_WORK_RATE = 0.01
"""The share of honest memories for which ``Fusion.hold`` is made."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """The weights of the terms; chosen on validation teams."""

    alpha: float = 0.6
    similarity: float = 1 / 3
    stability: float = 1 / 3
    agreement: float = 1 / 3
    threshold: float = 0.5
    """The threshold on the fused probability, by F1."""
    by_rate: tuple[tuple[float, float], ...] = ((0.01, 0.5),)
    """False-positive rate -> threshold on the fused probability, rates rising; measured with nothing held back."""
    hold: float = 0.5
    """The threshold at which the gate, at work, holds back at most one in a hundred honest memories."""
    knots: tuple[float, ...] = (0.0, 1.0)
    risk: tuple[float, ...] = (0.0, 1.0)
    low: tuple[float, ...] = (0.0, 0.0)
    high: tuple[float, ...] = (1.0, 1.0)

    def threshold_at(self, rate: float) -> float:
        """The threshold for a false-positive rate; between measured rates the stricter, never under ``hold`` up to
        one per cent."""
        chosen = [threshold for known, threshold in self.by_rate if known <= rate + 1e-12]
        threshold = chosen[-1] if chosen else self.by_rate[0][1]
        return max(threshold, self.hold) if rate <= AT_WORK_RATE + 1e-12 else threshold

    def calibrated(self, fused: float) -> tuple[float, float, float]:
        """Risk and its interval for a fused probability."""
        risk, low, high = (float(np.interp(fused, self.knots, curve)) for curve in (self.risk, self.low, self.high))
        return risk, min(low, risk), max(high, risk)


@dataclass(frozen=True, slots=True)
class Scores:
    """The detector's scores for memories."""

    fused: Floats
    credibility: Floats
    neural: Floats
    attention: Floats
    """(n, neighbours): how much each neighbour counted."""


class RecordModel:
    """Trained weights and their fusion; pure numpy, so that a verdict costs no framework call."""

    def __init__(self, arrays: dict[str, NDArray[np.float32]], fusion: Fusion) -> None:
        self.arrays, self.fusion = arrays, fusion

    def with_fusion(self, fusion: Fusion) -> RecordModel:
        """The same weights, weighed otherwise."""
        other = copy(self)
        other.fusion = fusion
        return other

    def own_credibility(self, evidence: EvidenceTable) -> Floats:
        """C of the paper: similarity to the writer's history, the writer's stability, absence of conflict."""
        f = self.fusion
        total = f.similarity + f.stability + f.agreement
        value = (
            f.similarity * np.clip(evidence.similarity, 0, 1)
            + f.stability * evidence.stability
            + f.agreement * (1 - evidence.conflict)
        )
        return np.asarray(value / total, dtype=np.float32)

    def credibility(self, evidence: EvidenceTable) -> Floats:
        """C, and no more than that of the least credible memory it was made from."""
        return np.minimum(self.own_credibility(evidence), evidence.lineage)

    def score(self, evidence: EvidenceTable) -> Scores:
        """The fused probability of poison and its terms."""
        credibility = self.credibility(evidence)
        neural, attention = self.neural(evidence)
        fused = self.fusion.alpha * (1 - credibility) + (1 - self.fusion.alpha) * neural
        return Scores(fused.astype(np.float32), credibility, neural, attention)

    def neural(self, evidence: EvidenceTable) -> tuple[Floats, Floats]:
        """sigmoid(w.h), and the attention behind it."""
        a = self.arrays
        hidden = np.maximum(evidence.pairs @ a["attend.0.weight"].T + a["attend.0.bias"], 0)
        logits = (hidden @ a["attend.2.weight"].T + a["attend.2.bias"])[..., 0]
        logits = np.where(evidence.pairs[..., 0] > 0, logits, -30.0)
        attention = np.exp(logits - logits.max(1, keepdims=True))
        attention = attention / attention.sum(1, keepdims=True) * (evidence.pairs[..., 0] > 0)
        values = evidence.pairs @ a["value.weight"].T + a["value.bias"]
        gathered = (attention[..., None] * values).sum(1)
        inputs = np.concatenate([evidence.short, evidence.residual, gathered], axis=1)
        inner = np.maximum(inputs @ a["first.weight"].T + a["first.bias"], 0)
        h = inner @ a["second.weight"].T + a["second.bias"]
        h /= np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-9)
        logit = (h @ a["recognise.weight"].T + a["recognise.bias"])[:, 0]
        return (1 / (1 + np.exp(-logit))).astype(np.float32), attention.astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write weights and fusion."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({k: np.ascontiguousarray(v) for k, v in self.arrays.items()}, folder / "records.safetensors")
        (folder / "fusion.json").write_text(json.dumps(asdict(self.fusion), indent=1) + "\n", encoding="utf-8")


def load_model(folder: Path = WEIGHTS) -> RecordModel:
    """The weights in a folder; ``ModelUnavailable`` where there are none."""
    arrays, raw = read_weights(folder / "records.safetensors", folder / "fusion.json", "the structured-memory detector")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    values["by_rate"] = tuple((float(rate), float(threshold)) for rate, threshold in raw["by_rate"])
    return RecordModel(arrays, Fusion(**values))


@cache
def shared_model() -> RecordModel:
    """One model per process."""
    return load_model()


# Structured memories under watch: judged when written, and again as the evidence around them changes.
#
# Half of a score is the score before: one odd look decides nothing. Judging changes nothing; rulings come in afterwards
# (``take``, ``settle``), so that they can be recorded first.

MIN_MEMORIES = 50
MIN_SUPPORT = 0.02
"""Below these there is too little to compare with, and the verdict says so instead of guessing. A subject of which
nothing is known must be let in, or nothing would ever be known of it."""


@dataclass(frozen=True, slots=True)
class Records:
    """Structured memories, one row each."""

    ids: Ints
    """Numbers in the order of writing."""
    origin: MemoryOrigins
    memories: WindowRows
    success: NDArray[np.int8] | NDArray[np.bool_]
    """Their stated outcome: 1, 0, or -1 for none. A failed memory is no example to follow."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Ints) -> Records:
        return Records(self.ids[rows], self.origin[rows], self.memories[rows], self.success[rows])


def joined(parts: list[Records]) -> Records:
    """The rows of several as one."""

    def column(record: str, name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(getattr(p, record), name) for p in parts])

    return Records(
        np.concatenate([p.ids for p in parts]),
        MemoryOrigins(*(column("origin", n) for n in ("group", "writer", "parents"))),  # type: ignore[arg-type]
        WindowRows(*(column("memories", n) for n in ("situation", "action", "short"))),  # type: ignore[arg-type]
        np.concatenate([p.success for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at some memories."""

    evidence: EvidenceTable
    terms: Scores
    """The probability by this look alone, and its parts."""
    scores: NDArray[np.float64]
    """Running scores: half this look, half the looks before."""
    informed: NDArray[np.bool_]
    """Whether there was enough to compare with."""
    bad: NDArray[np.bool_]
    """Whether to hold it."""


class RecordReview:
    """Windows of evidence and the running score of every memory."""

    def __init__(self, score: Callable[[EvidenceTable], Scores], windows: GroupWindows, hold: float) -> None:
        self._score, self.windows, self._hold = score, windows, hold
        self._scores = np.full(1_024, np.nan)

    def look(self, records: Records, again: bool = False) -> Look:
        """Judge memories against the known ones; ``again`` when they may be among them. Nothing is changed."""
        evidence = self.windows.evidence_for(records.memories, records.origin, records.ids if again else None)
        terms = self._score(evidence)
        before = self._known(records.ids)
        scores = np.where(np.isnan(before), terms.fused, (before + terms.fused) / 2)
        informed = (self.windows.sizes(records.origin.group) >= MIN_MEMORIES) & (evidence.support >= MIN_SUPPORT)
        return Look(evidence, terms, scores, informed, np.asarray((scores >= self._hold) & informed))

    def remember(self, ids: Ints, scores: NDArray[np.float64]) -> None:
        """Keep the scores of a look."""
        while len(ids) and int(ids.max()) >= len(self._scores):
            self._scores = np.concatenate([self._scores, np.full(len(self._scores), np.nan)])
        self._scores[ids] = scores

    def take(self, records: Records, held: NDArray[np.bool_], trust: Floats) -> None:
        """Note memories that were written and ruled on; those that are not held count as evidence from now on."""
        stated = np.flatnonzero(records.success >= 0)
        if len(stated):
            self.windows.record_use(records.origin[stated], records.success[stated] > 0)
        self.keep(records, np.flatnonzero(~held), trust)

    def keep(self, records: Records, rows: Ints, trust: Floats) -> None:
        """Let some of the memories count as evidence, unless they are marked as failed."""
        speaking = rows[records.success[rows] != 0]
        if len(speaking):
            part = records[speaking]
            self.windows.add(part.memories, part.origin, part.ids, trust[speaking])

    def drop(self, records: Records) -> None:
        """Memories were held: they no longer count as evidence."""
        self.windows.forget(records.origin.group, records.ids)

    def _known(self, ids: Ints) -> NDArray[np.float64]:
        inside = ids < len(self._scores)
        return np.where(inside, self._scores[np.where(inside, ids, 0)], np.nan)
