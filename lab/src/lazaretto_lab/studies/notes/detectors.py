"""Detectors to compare with, on the embeddings of the notes; each learns and is fixed on a world of another seed."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto_lab.metrics.detection import threshold_for_f1
from lazaretto_lab.studies.notes.defences import Score, embedded
from lazaretto_lab.training.records.baselines import Data, baseline
from lazaretto_lab.worlds.shared_notes.scenario import Scenario
from lazaretto_lab.worlds.shared_notes.world import Undefended, World

METHODS = ("statistical residual", "attention screening", "isolation forest", "one-class svm", "tf-idf classifier")
"""Those of the numeric world that need nothing but vectors, and a bag of words."""
_OTHER_SEEDS = 1_000
"""Added to a seed for the world a detector learns on; one more for the world it is fixed on."""


def detector(name: str, scenario: Scenario) -> tuple[Score, float]:
    """A detector's score and its threshold."""
    if name not in METHODS:
        raise InputError("method", f"{name!r} is unknown", f"Use ours, none or one of {', '.join(METHODS)}")
    texts, truth = _material(scenario.seed + _OTHER_SEEDS)
    checked, known = _material(scenario.seed + _OTHER_SEEDS + 1)
    if name == "tf-idf classifier":
        return _bag_of_words(texts, truth, checked, known)
    train, validate = (Data(embedded(t), None, np.array(p)) for t, p in ((texts, truth), (checked, known)))
    ordinary = Data(train.vectors[~train.poisoned], None, train.poisoned[~train.poisoned])
    scorer, threshold = baseline(name, ordinary, validate, scenario.seed)
    return (lambda text: float(scorer(embedded([text]), None)[0])), threshold


@cache
def _material(seed: int) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Notes of an undefended world with their truth; those made of lies are left out."""
    notes = [n for n in World(Scenario(seed=seed), Undefended()).run().notes if n.goal >= 0 or n.origin < 0]
    return tuple(n.text for n in notes), tuple(n.goal >= 0 for n in notes)


def _bag_of_words(
    texts: tuple[str, ...], truth: tuple[bool, ...], checked: tuple[str, ...], known: tuple[bool, ...]
) -> tuple[Score, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2)
    model = LogisticRegression(class_weight="balanced", max_iter=500).fit(words.fit_transform(texts), truth)

    def scores(several: tuple[str, ...]) -> NDArray[np.float64]:
        return np.asarray(model.predict_proba(words.transform(several))[:, 1], np.float64)

    return (lambda text: float(scores((text,))[0])), threshold_for_f1(known, scores(checked))
