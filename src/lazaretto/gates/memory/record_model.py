"""The detector for structured memories: credibility, attention over the evidence, contrastive encoder, fusion.

P = alpha (1 - C) + (1 - alpha) sigmoid(w.h), calibrated on held-out teams. The paper's formula adds C itself, which
would make trusted sources look poisoned; the sign is turned here.
"""

from __future__ import annotations

import json
from copy import copy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import EvidenceTable
from lazaretto.models.record_embedding import Floats
from lazaretto.models.weight_files import read_weights

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
