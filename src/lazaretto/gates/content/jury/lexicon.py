"""A bag of words and letter runs beside the encoder: it knows rare words that a small encoder blurs.

It is used where it was measured to help, which is texts (see docs/models/jury.md), and counts in both debaters'
calibrated odds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra

BUCKETS = 2**17
_CHARACTERS = 3000
Floats = NDArray[np.float64]


@cache
def _counters() -> tuple[Any, Any]:
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError:
        raise MissingExtra("the embedded jury", "models") from None
    shared: dict[str, Any] = {"n_features": BUCKETS, "alternate_sign": False, "norm": None}
    return (
        HashingVectorizer(ngram_range=(1, 2), token_pattern=r"\b\w+\b", **shared),
        HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **shared),
    )


def counts(texts: Sequence[str]) -> tuple[Any, Any]:
    """How often each bucket occurs: words and word pairs, and runs of letters; on a logarithmic scale."""
    lowered = [t[:_CHARACTERS].lower() for t in texts]
    blocks = []
    for counter in _counters():
        found = counter.transform(lowered)
        found.data = np.log(found.data) + 1.0
        blocks.append(found)
    return blocks[0], blocks[1]


def lexical_logits(texts: Sequence[str], weights: Mapping[str, NDArray[Any]]) -> Floats:
    """One logit per text. ``weights``: ``idf.words``, ``idf.letters``, ``words``, ``letters``, ``bias``."""
    total = np.full(len(texts), float(weights["bias"][0]))
    for name, block in zip(("words", "letters"), counts(texts), strict=True):
        scaled = block.multiply(np.asarray(weights[f"idf.{name}"], np.float64)[None]).tocsr()
        length = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
        total += (scaled @ np.asarray(weights[name], np.float64)) / np.maximum(length, 1e-9)
    return total
