"""The baseline that every table shows: TF-IDF with logistic regression, on the same samples and folds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.screener.leave_one_out import FOLDS
from lazaretto_lab.training.screener.training import Held, Material, Recipe, Sampler

SAMPLES = 10_000


def tfidf_scores(fold: str, work: Path, samples: int = SAMPLES) -> dict[str, NDArray[np.float64]]:
    """Source -> the baseline's scores of its tested texts, trained without the sources of ``fold``."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_union
    except ImportError:
        raise MissingExtra("the TF-IDF baseline", "models") from None
    material, held = Material.read(work / "material.npz.xz"), Held(work / "held.npz.xz")
    sampler = Sampler(material, material.names["folds"][fold], Recipe())
    rows = sampler.batch(np.random.default_rng(0), samples)
    vectors = make_union(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=3, max_features=60_000, sublinear_tf=True),
    )
    model = LogisticRegression(C=10, solver="liblinear")
    model.fit(vectors.fit_transform(_words([ids for ids, _, _ in rows])), [label for _, _, label in rows])
    picked, windows = held.of_fold(fold)
    scores = model.decision_function(vectors.transform(_words([w for several in windows for w in several])))
    owner = np.repeat(np.arange(len(picked)), [len(several) for several in windows])
    best = np.full(len(picked), -np.inf)
    np.maximum.at(best, owner, scores)
    sources = np.array(held.rows["source"])[picked]
    return {source: best[sources == source] for source in FOLDS[fold]}


def _words(windows: list[NDArray[np.int64]]) -> list[str]:
    """Token ids as text again."""
    return minilm_tokenizer().decode_batch([ids.tolist() for ids in windows])  # type: ignore[no-any-return]
