"""A bag of words and letter runs beside the encoder: it knows rare words that a small encoder blurs.

It is used where it was measured to help, which is texts (see docs/models/jury.md), and counts in both debaters'
calibrated odds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.hashed_ngrams import Counted, count_buckets, letter_runs, words_and_pairs

BUCKETS = 2**17
BLOCKS = ("words", "letters")
_CHARACTERS = 3000
Floats = NDArray[np.float64]


def counts(text: str) -> tuple[Counted, Counted]:
    """How often each bucket occurs: words and word pairs, and runs of letters; on a logarithmic scale."""
    lowered = text[:_CHARACTERS].lower()
    found = (count_buckets(parts(lowered), BUCKETS) for parts in (words_and_pairs, letter_runs))
    words, letters = ((buckets, np.log(often) + 1.0) for buckets, often in found)
    return words, letters


def lexical_logits(texts: Sequence[str], weights: Mapping[str, NDArray[Any]]) -> Floats:
    """One logit per text. ``weights``: ``idf.words``, ``idf.letters``, ``words``, ``letters``, ``bias``."""
    return np.array([_logit(text, weights) for text in texts])


def _logit(text: str, weights: Mapping[str, NDArray[Any]]) -> float:
    total = float(weights["bias"][0])
    for name, (buckets, often) in zip(BLOCKS, counts(text), strict=True):
        scaled = often * np.asarray(weights[f"idf.{name}"][buckets], np.float64)
        length = max(float(np.linalg.norm(scaled)), 1e-9)
        total += float(scaled @ np.asarray(weights[name][buckets], np.float64)) / length
    return total
