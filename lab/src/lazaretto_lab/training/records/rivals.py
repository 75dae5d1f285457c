"""Stronger detectors to compare with: they see the evidence that ours sees, and learn from the same labels.

- *neighbour agreement*: one line, no training: how much like memories agree, weighted by likeness.
- *gradient boosting*: scikit-learn's, on our pair features, with or without the embedding.
- *graph attention network*: two layers of attention (GATv2, with our pair features on the edges) over the graph whose
  nodes are memories and whose edges lead to the nearest ones when each was written. Written out here: the library that
  has the layer takes whole graphs, and a memory at work comes with its own small one.

All are ``RecordModel``s, so that they are fixed, held at work and given second looks by the same code as ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra
from lazaretto.gates.memory.evidence import PAIR_FEATURES, SHORT, EvidenceTable
from lazaretto.gates.memory.record_model import Fusion, RecordModel
from lazaretto.models.own_networks import default_device
from lazaretto.models.record_embedding import Floats
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.training.records.baselines import Data, neighbour_mean

Ints = NDArray[np.int64]
HEADS, WIDTH = 4, 32
Labelled = tuple[EvidenceTable, NDArray[np.bool_]]
FACTS = 6
"""Similarity, stability, conflict, voices, support, lineage."""


class Rival(RecordModel):
    """Another detector in the place of ours."""

    def neural(self, evidence: EvidenceTable) -> tuple[Floats, Floats]:
        """Its probability; it has no attention to show."""
        return self.probability(evidence).astype(np.float32), np.zeros(evidence.pairs.shape[:2], np.float32)

    def probability(self, evidence: EvidenceTable) -> Floats:
        """Between 0 and 1, higher is more suspicious."""
        raise NotImplementedError

    def know(self, ids: Ints, evidence: EvidenceTable) -> None:
        """Memories were written; most methods need to keep nothing of them."""


class NeighbourMean(Rival):
    """The neighbour-mean classifier of ``baselines``, in the same place as the others."""

    def __init__(self, learned: Labelled, seed: int) -> None:
        super().__init__({}, Fusion())
        self.score_of = next(neighbour_mean(Data(np.zeros((0, 0), np.float32), *learned), seed))

    def probability(self, evidence: EvidenceTable) -> Floats:
        """Its logit as a probability."""
        logits = self.score_of(np.zeros((0, 0), np.float32), evidence)
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), dtype=np.float32)


class Agreement(Rival):
    """How little the neighbours agree, weighted by likeness (``column`` 0) or by voice (4), others' alone or all."""

    def __init__(self, column: int, others: bool) -> None:
        super().__init__({}, Fusion())
        self.column, self.others = column, others

    def probability(self, evidence: EvidenceTable) -> Floats:
        """The whole method."""
        weight = evidence.pairs[..., self.column] * (evidence.pairs[..., 3] if self.others else 1)
        agreed = (weight * evidence.pairs[..., 1]).sum(1) / np.maximum(weight.sum(1), 1e-9)
        return np.asarray((1 - agreed) / 2, dtype=np.float32)


class Boosting(Rival):
    """Gradient boosting on the pairs, sorted as they were found, and the facts beside them."""

    def __init__(self, wide: bool) -> None:
        super().__init__({}, Fusion())
        self.wide, self.trees = wide, None

    def fit(self, evidence: EvidenceTable, poisoned: NDArray[np.bool_], seed: int) -> Boosting:
        """Learn; early stopping on a tenth of what it learns from."""
        ensemble = _import("sklearn.ensemble")
        self.trees = ensemble.HistGradientBoostingClassifier(
            max_iter=300, learning_rate=0.1, early_stopping=True, validation_fraction=0.1, random_state=seed
        ).fit(self._table(evidence), poisoned)
        return self

    def probability(self, evidence: EvidenceTable) -> Floats:
        """By the trees."""
        assert self.trees is not None
        return np.asarray(self.trees.predict_proba(self._table(evidence))[:, 1], dtype=np.float32)

    def _table(self, evidence: EvidenceTable) -> Floats:
        columns = [evidence.pairs.reshape(len(evidence), -1), facts(evidence)]
        columns += [evidence.short, evidence.residual] if self.wide else []
        return np.concatenate(columns, axis=1)


class GraphAttention(Rival):
    """A graph attention network. What it needs of a neighbour (its embedding, and what the first layer made of it when
    it was written) is kept by the neighbour's number."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__({}, Fusion())
        torch = _import("torch")
        torch.manual_seed(seed)
        self.device = torch.device(default_device())
        linear, out = torch.nn.Linear, HEADS * WIDTH
        parts = {"own1": linear(SHORT + FACTS, out), "other1": linear(SHORT, out), "edge1": linear(PAIR_FEATURES, out)}
        parts |= {"own2": linear(out, out), "other2": linear(out, out), "edge2": linear(PAIR_FEATURES, out)}
        parts |= {"score1": linear(WIDTH, 1), "score2": linear(WIDTH, 1), "last": linear(2 * out, 1)}
        self.net = torch.nn.ModuleDict(parts).to(self.device)
        self.embedding = torch.zeros((size + 1, SHORT), device=self.device)
        self.first = torch.zeros((size + 1, out), device=self.device)
        self._seen: Any = None

    def fit(
        self, base: EvidenceTable, targets: tuple[EvidenceTable, NDArray[np.bool_]], seed: int, steps: int = 500
    ) -> GraphAttention:
        """Learn from labelled targets; ``base`` is the evidence around every memory, by number."""
        torch, (evidence, poisoned) = _import("torch"), targets
        self.embedding[: len(base)] = torch.from_numpy(base.short).to(self.device)
        data = self._tensors(evidence)
        around = self._tensors(base)
        truth = torch.from_numpy(poisoned.astype(np.float32)).to(self.device)
        optimiser = torch.optim.AdamW(self.net.parameters(), lr=2e-3, weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
        rng = np.random.default_rng([seed, 33])
        bad, good = np.flatnonzero(poisoned), np.flatnonzero(~poisoned)
        for _ in range(steps):
            rows = torch.from_numpy(np.concatenate([rng.choice(bad, 90), rng.choice(good, 166)])).to(self.device)
            part = [column[rows] for column in data]
            near = part[2].reshape(-1)
            hidden = self._layer1([column[near] for column in around], drop=True)
            hidden = hidden.reshape(len(rows), -1, hidden.shape[-1])
            logits = self._layer2(self._layer1(part, drop=True), hidden, part)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        self.know(np.arange(len(base)), base)
        return self

    def know(self, ids: Ints, evidence: EvidenceTable) -> None:
        """Keep what later memories need of these."""
        torch = _import("torch")
        with torch.no_grad():
            for start in range(0, len(ids), 2_048):
                part = slice(start, start + 2_048)
                data = self._tensors(evidence, part)
                place = torch.from_numpy(ids[part]).to(self.device)
                self.embedding[place] = data[0][:, :SHORT]
                self.first[place] = self._layer1(data)

    def probability(self, evidence: EvidenceTable) -> Floats:
        """By the second layer."""
        torch, out = _import("torch"), []
        with torch.no_grad():
            for start in range(0, len(evidence), 2_048):
                data = self._tensors(evidence, slice(start, start + 2_048))
                logits = self._layer2(self._layer1(data), self.first[data[2]], data)
                out.append(torch.sigmoid(logits).cpu().numpy())
        return np.concatenate(out) if out else np.zeros(0, np.float32)

    def _tensors(self, evidence: EvidenceTable, part: slice = slice(None)) -> list[Any]:
        """A memory's own numbers, its edges, and whom they lead to (the last, empty place for nobody)."""
        torch = _import("torch")
        own = np.concatenate([evidence.short[part], facts(evidence)[part]], axis=1)
        near = np.where(evidence.neighbours[part] >= 0, evidence.neighbours[part], len(self.embedding) - 1)
        return [torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for a in (own, evidence.pairs[part], near)]

    def _layer1(self, data: list[Any], drop: bool = False) -> Any:
        torch = _import("torch")
        own, edges, near = data
        if drop:
            own = torch.nn.functional.dropout(own, 0.3)
        if near.numel() > len(self.embedding):  # cheaper to project every memory once
            table = torch.nn.functional.dropout(self.embedding, 0.3) if drop else self.embedding
            them = self.net["other1"](table)[near]
        else:
            other = self.embedding[near]
            them = self.net["other1"](torch.nn.functional.dropout(other, 0.3) if drop else other)
        return self._attended("1", own, them, edges)

    def _layer2(self, own: Any, other: Any, data: list[Any]) -> Any:
        torch = _import("torch")
        joined = torch.cat([own, self._attended("2", own, self.net["other2"](other), data[1])], dim=1)
        return self.net["last"](joined)[:, 0]

    def _attended(self, layer: str, own: Any, them: Any, edges: Any) -> Any:
        """GATv2: attention of each head from LeakyReLU of own, other and edge; a node also attends to itself."""
        torch = _import("torch")
        me = self.net[f"own{layer}"](own)
        them = them + self.net[f"edge{layer}"](edges)
        both = torch.nn.functional.leaky_relu(me[:, None] + them, 0.2)
        self_edge = torch.nn.functional.leaky_relu(2 * me[:, None], 0.2)
        shape = (len(me), -1, HEADS, WIDTH)
        scores = self.net[f"score{layer}"](torch.cat([both, self_edge], 1).reshape(shape))[..., 0]
        known = torch.cat([edges[..., 0] > 0, torch.ones_like(edges[:, :1, 0], dtype=torch.bool)], dim=1)
        attention = torch.softmax(scores.masked_fill(~known[..., None], -1e9), dim=1)
        values = torch.cat([them, me[:, None]], 1).reshape(shape)
        return torch.relu((attention[..., None] * values).sum(1)).reshape(len(me), -1)


def facts(evidence: EvidenceTable) -> Floats:
    """What is known of a memory apart from its pairs."""
    names = ("similarity", "stability", "conflict", "voices", "support", "lineage")
    return np.stack([getattr(evidence, name) for name in names], axis=1).astype(np.float32)


Fit = Callable[[EvidenceTable, Labelled, int, int], Iterator[Rival]]


def _agreement(base: EvidenceTable, learned: Labelled, size: int, seed: int) -> Iterator[Rival]:
    yield from (Agreement(column, others) for column in (0, 4) for others in (False, True))


def _boosting(base: EvidenceTable, learned: Labelled, size: int, seed: int) -> Iterator[Rival]:
    yield from (Boosting(wide).fit(*learned, seed) for wide in (False, True))


def _attention(base: EvidenceTable, learned: Labelled, size: int, seed: int) -> Iterator[Rival]:
    yield GraphAttention(size, seed).fit(base, learned, seed)


def _neighbour_mean(base: EvidenceTable, learned: Labelled, size: int, seed: int) -> Iterator[Rival]:
    yield NeighbourMean(learned, seed)


RIVALS: dict[str, Fit] = {
    "neighbour-mean classifier": _neighbour_mean,
    "neighbour agreement": _agreement,
    "gradient boosting": _boosting,
    "graph attention network": _attention,
}
"""Name -> its candidates."""


def rival(name: str, base: EvidenceTable, learned: Labelled, checked: Labelled, size: int, seed: int) -> Rival:
    """The candidate of a name that ranks best on validation teams."""
    if name not in RIVALS:
        raise InputError("method", f"{name!r} is unknown", f"Use one of {', '.join(RIVALS)}")
    return max(RIVALS[name](base, learned, size, seed), key=lambda one: auc(checked[1], one.probability(checked[0])))


def _import(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra("a comparison method", "models") from None
