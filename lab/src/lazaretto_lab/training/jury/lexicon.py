"""Fits the jury's bag of words for texts, once for all and once without every fold and pair of folds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.content.jury.lexicon import BLOCKS, BUCKETS, counts, lexical_logits
from lazaretto.gates.content.records import InputKind
from lazaretto_lab.training.jury.data import Example

_DEV, _EXTRA = 2.0, 0.3
_REGULARISATION = 4.0


def fit_lexicons(
    examples: Sequence[Example], fold: NDArray[np.int64], folds: int
) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, float]]]:
    """The shipped weights, and per unseen folds (``"0,3"``) the logits of the texts in them, by id."""
    chosen = [i for i, e in enumerate(examples) if e.kind is InputKind.TEXT and not e.lettering]
    texts, number = [examples[i].text for i in chosen], fold[chosen]
    blocks = _matrices(texts)
    logits: dict[str, dict[str, float]] = {}
    unseen = [*((k,) for k in range(folds)), *combinations(range(folds), 2)]
    for missed in unseen:
        held = np.isin(number, missed)
        weights = _fit(blocks, [examples[i] for i in chosen], ~held)
        ids = [examples[i].id for i, h in zip(chosen, held, strict=True) if h]
        found = lexical_logits([t for t, h in zip(texts, held, strict=True) if h], weights)
        logits[",".join(map(str, missed))] = dict(zip(ids, map(float, found), strict=True))
    return _fit(blocks, [examples[i] for i in chosen], np.ones(len(chosen), dtype=bool)), logits


def _fit(blocks: Sequence[Any], examples: Sequence[Example], rows: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    from scipy.sparse import hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize

    idf = [np.log((1 + rows.sum()) / (1 + (b[rows] > 0).sum(axis=0).A1)) + 1.0 for b in blocks]
    features = hstack([normalize(b[rows].multiply(w[None]).tocsr()) for b, w in zip(blocks, idf, strict=True)])
    labels = np.array([e.label for e in examples])[rows]
    trust = np.array(
        [_DEV if e.source == "dev" else e.trust if e.source in ("library", "raw") else _EXTRA for e in examples]
    )
    model = LogisticRegression(C=_REGULARISATION, solver="liblinear", max_iter=200)
    model.fit(features.tocsr(), labels, sample_weight=trust[rows])
    weight = model.coef_[0]
    made = {
        "idf.words": idf[0],
        "idf.letters": idf[1],
        "words": weight[:BUCKETS],
        "letters": weight[BUCKETS:],
        "bias": model.intercept_,
    }
    return {k: np.asarray(v, dtype=np.float16) for k, v in made.items()}


def _matrices(texts: Sequence[str]) -> list[Any]:
    """The counts of all texts, a sparse matrix per block."""
    from scipy.sparse import csr_matrix

    counted = [counts(text) for text in texts]
    made = []
    for n in range(len(BLOCKS)):
        buckets, often = zip(*(one[n] for one in counted), strict=True)
        ends = np.cumsum([0, *map(len, buckets)])
        shape = (len(texts), BUCKETS)
        made.append(csr_matrix((np.concatenate(often), np.concatenate(buckets), ends), shape=shape))
    return made
