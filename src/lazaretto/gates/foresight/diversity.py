"""How varied agents still are: retrieval entropy, semantic diversity, drift, and their retention against a benign
run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def entropy(shares: ArrayLike) -> float:
    """Shannon entropy in nats of a distribution (its entries need not be normalised)."""
    weights = np.asarray(shares, dtype=float)
    total = weights.sum()
    if total <= 0 or (weights < 0).any():
        raise ValueError("shares must be non-negative and not all zero")
    used = weights[weights > 0] / total
    return float(-(used * np.log(used)).sum()) + 0.0  # + 0.0 turns -0.0 into 0.0


def retrieval_entropy(retrieved: Iterable[Hashable]) -> float:
    """H = -sum p(I) ln p(I), p(I) the share of retrievals that fetched I. Nothing retrieved has no entropy: an
    error."""
    return entropy(list(Counter(retrieved).values()))


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


def semantic_diversity(embeddings: ArrayLike) -> float:
    """D = 1 - mean cosine over all pairs of records. Fewer than two records have no diversity: an error."""
    rows = _unit_rows(embeddings)
    count = len(rows)
    if count < 2:
        raise ValueError("diversity needs at least two records")
    total = rows.sum(axis=0)
    return float(1.0 - (total @ total - count) / (count * (count - 1)))


def semantic_drift(embeddings: ArrayLike, against: ArrayLike) -> float:
    """1 - cos(centroid, centroid): drift against the round before, SDD against the same round of the benign run."""
    return 1.0 - _cosine(_rows(embeddings).mean(axis=0), _rows(against).mean(axis=0))


def dispersion(embeddings: ArrayLike, squared: bool = False) -> float:
    """SDI: mean distance of records to their centroid (``squared``: mean squared distance, as the FLP program has
    it)."""
    rows = _rows(embeddings)
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


def _rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError("embeddings must be a non-empty table, one row per record")
    return rows


def _unit_rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    rows = _rows(embeddings)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any():
        raise ValueError("a record has a zero embedding")
    unit: NDArray[np.float64] = rows / norms
    return unit


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    if size == 0:
        raise ValueError("a mean embedding is zero: its direction is undefined")
    return float(np.clip(a @ b / size, -1.0, 1.0))
