"""Leave one source out: which sources go together, and the TF-IDF baseline that every table of texts shows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto_lab.training.screener.corpora import ATTACK_FAMILIES, load_source
from lazaretto_lab.training.screener.pairs import training_set

FOLDS = {"bipia": "tau_bench", "injecagent": "memorybank", "asb": "reflexion", "purplellama": "locomo"}
"""Attack family left out -> benign corpus left out with it."""
TRAINABLE_BENIGN = ("tau_bench", "memorybank", "reflexion")
TEST_SEED = 1000
PAIRS, BENIGN = 400, 1000
"""At most so many pairs, or benign texts, of a source are tested."""
SIZE = 28_000
"""Training samples of a fold."""


def family_of(source: str) -> str:
    """The family that is left out when a source is tested."""
    families = {name: family for family, names in ATTACK_FAMILIES.items() for name in names}
    return families.get(source) or next(family for family, benign in FOLDS.items() if benign == source)


def tested_size(source: str) -> int:
    """How many pairs or texts of a source are asked for."""
    return BENIGN if source in FOLDS.values() else PAIRS


def tfidf_scores(left_out: str, data: Path, seed: int = 0, size: int = SIZE) -> dict[str, NDArray[np.float64]]:
    """The baseline on the sources of one fold: word and character n-grams, logistic regression, same samples."""
    return dict(_tfidf(left_out, data, seed, size))


@cache
def _tfidf(left_out: str, data: Path, seed: int, size: int) -> tuple[tuple[str, NDArray[np.float64]], ...]:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_union
    except ImportError:
        raise MissingExtra("the TF-IDF baseline", "models") from None
    families = [f for f in ATTACK_FAMILIES if f != left_out]
    benign = [b for b in TRAINABLE_BENIGN if b != FOLDS[left_out]]
    samples = training_set(data, families, benign, seed, size)
    vectors = make_union(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=3, max_features=100_000, sublinear_tf=True),
    )
    model = LogisticRegression(C=10, max_iter=300)
    model.fit(vectors.fit_transform([s.text for s in samples]), [s.poisoned for s in samples])
    sources = (*ATTACK_FAMILIES[left_out], FOLDS[left_out])
    tested = {source: load_source(source, data, TEST_SEED, tested_size(source)) for source in sources}
    return tuple(
        (source, np.asarray(model.decision_function(vectors.transform([s.text for s in test]))))
        for source, test in tested.items()
    )
