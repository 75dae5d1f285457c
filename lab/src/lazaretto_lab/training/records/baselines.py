"""The detectors to compare with, on the same embeddings, with the same rule for every threshold.

Each takes training vectors (with labels where it learns from them), is tuned on validation teams by F1 over its grid,
and is then fixed. Fitting is done on a seeded sample, because kernels and forests do not gain from more here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra
from lazaretto.gates.memory.evidence import EvidenceTable
from lazaretto.models.record_embedding import Floats
from lazaretto_lab.metrics.detection import confusion, threshold_for_f1

Scorer = Callable[[Floats, EvidenceTable | None], NDArray[np.float64]]
"""Anomaly scores of memories from their embeddings and the evidence around them (None where a method needs none);
higher is more suspicious."""
FORMER_NAMES = {"graph attention classifier": "neighbour-mean classifier"}
"""Settings of experiments keep a method's first name, because results are stored under a hash of the settings."""
NEEDS_EVIDENCE = frozenset({"neighbour-mean classifier", "graph attention classifier"})
FIT_SAMPLE = 4_000
GAMMAS = (1 / 768, 0.1 / 768, 10 / 768)


@dataclass(frozen=True, slots=True)
class Data:
    """Memories with their truth."""

    vectors: Floats
    looked: EvidenceTable | None
    """The evidence around them, for methods that need it."""
    poisoned: NDArray[np.bool_]


def baseline(name: str, train: Data, validate: Data, seed: int) -> tuple[Scorer, float]:
    """The tuned scorer of a name, and its threshold."""
    name = FORMER_NAMES.get(name, name)
    if name not in CANDIDATES:
        raise InputError("method", f"{name!r} is unknown", f"Use one of {', '.join(CANDIDATES)}")
    best: tuple[float, Scorer, float] | None = None
    for scorer in CANDIDATES[name](train, seed):
        scores = scorer(validate.vectors, validate.looked)
        threshold = threshold_for_f1(validate.poisoned, scores)
        f1 = confusion(validate.poisoned, scores >= threshold).f1
        if best is None or f1 > best[0]:
            best = (f1, scorer, threshold)
    assert best is not None
    return best[1], best[2]


def _sample(train: Data, seed: int, size: int = FIT_SAMPLE) -> Floats:
    rows = np.random.default_rng([seed, 31]).permutation(len(train.vectors))[:size]
    return train.vectors[rows].astype(np.float32)


def _residual(train: Data, seed: int) -> Iterator[Scorer]:
    """Statistical residual: what the main directions of ordinary memories leave unexplained."""
    points = _sample(train, seed)
    mean = points.mean(0)
    _, _, axes = np.linalg.svd(points - mean, full_matrices=False)
    for kept in (8, 16, 32):
        main = axes[:kept].T

        def score(vectors: Floats, _: EvidenceTable | None, main: Floats = main) -> NDArray[np.float64]:
            rest = vectors - mean - ((vectors - mean) @ main) @ main.T
            return np.asarray(np.linalg.norm(rest, axis=1), dtype=np.float64)

        yield score


def _attention(train: Data, seed: int) -> Iterator[Scorer]:
    """Attention screening: distance from what attention over ordinary memories rebuilds."""
    keys = _sample(train, seed, 1_000)
    for sharpness in (10.0, 30.0, 60.0):

        def score(vectors: Floats, _: EvidenceTable | None, sharpness: float = sharpness) -> NDArray[np.float64]:
            out = np.empty(len(vectors))
            for start in range(0, len(vectors), 4096):
                part = vectors[start : start + 4096].astype(np.float32)
                weight = np.exp(sharpness * (part @ keys.T - 1))
                rebuilt = weight @ keys / np.maximum(weight.sum(1, keepdims=True), 1e-12)
                out[start : start + 4096] = np.linalg.norm(part - rebuilt, axis=1)
            return out

        yield score


def neighbour_mean(train: Data, seed: int) -> Iterator[Scorer]:
    """Neighbour-mean classifier: a small network over a memory and the weighted mean of its neighbours, trained on the
    same labels as ours."""
    torch = _import("torch")
    torch.manual_seed(seed)
    around = train.looked
    assert around is not None
    wide = around.short.shape[1]
    net = torch.nn.Sequential(torch.nn.Linear(2 * wide, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3)
    rng = np.random.default_rng([seed, 32])
    bad, good = np.flatnonzero(train.poisoned), np.flatnonzero(~train.poisoned)
    for _ in range(500):  # as many steps and units as ours
        rows = np.concatenate([rng.choice(bad, 180), rng.choice(good, 332)])
        truth = torch.from_numpy(train.poisoned[rows].astype(np.float32))
        logits = net(torch.from_numpy(_node(around, rows)))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def score(_: Floats, looked: EvidenceTable | None) -> NDArray[np.float64]:
        assert looked is not None
        with torch.no_grad():
            logits = net(torch.from_numpy(_node(looked, np.arange(len(looked)))))[:, 0]
        return np.asarray(logits.numpy(), dtype=np.float64)

    yield score


def _node(looked: EvidenceTable, rows: NDArray[np.int64]) -> Floats:
    """A node and the mean of its neighbours, weighted by likeness."""
    short = looked.short[rows]
    return np.concatenate([short, short - looked.residual[rows]], axis=1)


def _forest(train: Data, seed: int) -> Iterator[Scorer]:
    ensemble = _import("sklearn.ensemble")
    points = _sample(train, seed)
    for share in (0.01, 0.02, 0.05, 0.1):
        model = ensemble.IsolationForest(n_estimators=200, contamination=share, random_state=seed, n_jobs=1).fit(points)
        yield _from_sklearn(model)


def _one_class(train: Data, seed: int) -> Iterator[Scorer]:
    svm = _import("sklearn.svm")
    points = _sample(train, seed, 2_000)
    for nu in (0.01, 0.05, 0.1):
        for gamma in GAMMAS:
            model = svm.OneClassSVM(nu=nu, gamma=gamma).fit(points)
            yield _from_sklearn(model)


def _from_sklearn(model: Any) -> Scorer:
    def score(vectors: Floats, _: EvidenceTable | None) -> NDArray[np.float64]:
        return np.asarray(-model.decision_function(vectors.astype(np.float32)), dtype=np.float64)

    return score


def _import(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra("a comparison method", "models") from None


CANDIDATES: dict[str, Callable[[Data, int], Iterator[Scorer]]] = {
    "statistical residual": _residual,
    "attention screening": _attention,
    "neighbour-mean classifier": neighbour_mean,
    "isolation forest": _forest,
    "one-class svm": _one_class,
}
"""Name -> its candidates, one per point of its grid."""
