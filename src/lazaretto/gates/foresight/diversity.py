"""Variety of a rehearsal: retrieval entropy and semantic diversity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

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


def semantic_diversity(embeddings: ArrayLike) -> float:
    """D = 1 - mean cosine over all pairs of records. Fewer than two records have no diversity: an error."""
    rows = _unit_rows(embeddings)
    count = len(rows)
    if count < 2:
        raise ValueError("diversity needs at least two records")
    total = rows.sum(axis=0)
    return float(1.0 - (total @ total - count) / (count * (count - 1)))


def record_rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    """Embeddings as a table, one row per record."""
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError("embeddings must be a non-empty table, one row per record")
    return rows


def _unit_rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    rows = record_rows(embeddings)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any():
        raise ValueError("a record has a zero embedding")
    unit: NDArray[np.float64] = rows / norms
    return unit
