"""How varied a world still is: drift, dispersion and retention against a benign run, and what bounds a mixture."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lazaretto.gates.foresight.gauge import entropy, record_rows


def mixture_entropy_bound(weights: Sequence[float], entropies: Sequence[float]) -> float:
    """sum_s w_s H(P_s) + H(w): what the entropy of a mixture cannot exceed, and equals when the parts share nothing."""
    return float(np.dot(weights, entropies)) + entropy(weights)


def mixture_entropy(weights: Sequence[float], parts: Sequence[Mapping[Hashable, float]]) -> float:
    """Entropy of the mixture of distributions over pictures."""
    shares: dict[Hashable, float] = {}
    for weight, part in zip(weights, parts, strict=True):
        for picture, share in part.items():
            shares[picture] = shares.get(picture, 0.0) + weight * share
    return entropy(list(shares.values()))


def semantic_drift(embeddings: ArrayLike, against: ArrayLike) -> float:
    """1 - cos(centroid, centroid): drift against the round before, SDD against the same round of the benign run."""
    return 1.0 - _cosine(record_rows(embeddings).mean(axis=0), record_rows(against).mean(axis=0))


def dispersion(embeddings: ArrayLike, squared: bool = False) -> float:
    """SDI: mean distance of records to their centroid (``squared``: mean squared distance, as the FLP program has
    it)."""
    rows = record_rows(embeddings)
    distances = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    return float((distances**2 if squared else distances).mean())


def entropy_retention(entropies: Sequence[float], benign: Sequence[float]) -> float:
    """CER: sum of retrieval entropies over that of the benign run; uncapped, so it may exceed 1."""
    if len(entropies) != len(benign):
        raise ValueError(f"{len(entropies)} rounds against {len(benign)} benign rounds")
    base = math.fsum(benign)
    if base <= 0:
        raise ValueError("the benign run has no entropy to retain")
    return math.fsum(entropies) / base


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    if size == 0:
        raise ValueError("a mean embedding is zero: its direction is undefined")
    return float(np.clip(a @ b / size, -1.0, 1.0))
