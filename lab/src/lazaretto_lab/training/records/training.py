"""Trains attention, contrastive encoder and recognition layer together, then fixes fusion and thresholds.

Loss: recognition (binary cross-entropy) plus NT-Xent at temperature 0.1. Positives of a memory are memories of the same
kind and another view of itself (dropped and noised dimensions); hard negatives are honest memories that were given
another's action ("cross-poisoning"). Fusion weights and thresholds come from validation teams and are then fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto.gates.memory.evidence import PAIR_FEATURES, SHORT, EvidenceTable, selected
from lazaretto.gates.memory.record_model import AT_WORK_RATE, ATTENDED, Fusion, RecordModel
from lazaretto.models.own_networks import default_device
from lazaretto_lab.metrics.detection import auc, threshold_at_fpr, threshold_for_f1
from lazaretto_lab.metrics.intervals import wilson_interval

TEMPERATURE = 0.1
BINS = 16
DROPPED = 0.5
"""Share of dimensions that a view of a memory lacks: teams differ, and a few dimensions tell them apart too well."""
RATES = (0.001, 0.0025, 0.004, 0.005, 0.006, 0.008, 0.01, 0.0125, 0.015, 0.02, 0.05)
"""False-positive rates for which a threshold is kept."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How to train; the defaults are those of every published row."""

    seed: int = 0
    steps: int = 500
    batch: int = 512
    poison_share: float = 0.35
    """Of each batch; poison is rare in the stream."""
    rate: float = 2e-3
    contrast: float = 0.3
    """Weight of the contrastive loss; 0 leaves it out."""
    blind: float = 0.0
    """Share of training memories whose embedding is hidden: they must be told from what others say alone, which does
    not change with the type of attack."""
    temperature: float = TEMPERATURE
    """tau of the contrastive loss."""
    alphas: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
    """Candidates of the fusion weight; the paper's is 0.6."""
    use_graph: bool = True
    """Without: neither residuals nor attention reach the encoder, nor conflict the credibility."""


def train(
    looked: EvidenceTable, poisoned: NDArray[np.bool_], settings: TrainingSettings
) -> dict[str, NDArray[np.float32]]:
    """Weights by name. ``poisoned`` includes the cross-poisoned ones."""
    torch = _torch()
    torch.manual_seed(settings.seed)
    torch.set_num_threads(min(2, torch.get_num_threads()))
    device = default_device()
    net = _network(torch).to(device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=settings.steps)
    rng = np.random.default_rng([settings.seed, 11])
    bad, good = np.flatnonzero(poisoned), np.flatnonzero(~poisoned)
    share = round(settings.batch * settings.poison_share)
    for _ in range(settings.steps):
        rows = np.concatenate([rng.choice(bad, share), rng.choice(good, settings.batch - share)])
        part = without_graph(selected(looked, rows), settings.use_graph)
        truth = torch.from_numpy(poisoned[rows].astype(np.float32)).to(device)
        loss = _loss(torch, net, part, truth, settings)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return {name: value.detach().cpu().numpy().astype(np.float32) for name, value in net.state_dict().items()}


def without_graph(looked: EvidenceTable, use_graph: bool) -> EvidenceTable:
    """The same look with everything that comes from other memories taken out, for the ablation."""
    if use_graph:
        return looked
    return replace(
        looked,
        residual=np.zeros_like(looked.residual),
        pairs=np.zeros_like(looked.pairs),
        conflict=np.full_like(looked.conflict, 0.5),
        lineage=np.ones_like(looked.lineage),
    )


def fit_fusion(
    model: RecordModel, looked: EvidenceTable, poisoned: NDArray[np.bool_], settings: TrainingSettings
) -> Fusion:
    """Fusion weight, thresholds and calibration from validation teams."""
    neural = model.neural(looked)[0]
    credibility = model.credibility(looked)
    best = max(settings.alphas, key=lambda a: auc(poisoned, a * (1 - credibility) + (1 - a) * neural))
    fused = best * (1 - credibility) + (1 - best) * neural
    knots, risk, low, high = calibration(fused, poisoned)
    return replace(
        model.fusion,
        alpha=best,
        threshold=threshold_for_f1(poisoned, fused),
        by_rate=tuple((rate, threshold_at_fpr(poisoned, fused, rate)) for rate in RATES),
        hold=threshold_at_fpr(poisoned, fused, AT_WORK_RATE),
        knots=knots, risk=risk, low=low, high=high,
    )  # fmt: skip


def calibration(
    scores: NDArray[np.float32], poisoned: NDArray[np.bool_]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Score -> probability by bins with as many poisoned memories each, made monotone, with Wilson's intervals."""
    edges = np.unique(np.quantile(scores[poisoned], np.linspace(0, 1, BINS)))
    place = np.searchsorted(edges, scores, side="right")
    knots, risk, low, high = [], [], [], []
    for number in range(len(edges) + 1):
        inside = place == number
        if inside.any():
            share = wilson_interval(int(poisoned[inside].sum()), int(inside.sum()))
            knots.append(float(scores[inside].mean()))
            risk.append(share.value)
            low.append(share.low)
            high.append(share.high)
    rising = [tuple(np.maximum.accumulate(curve).tolist()) for curve in (risk, low, high)]
    return tuple(knots), rising[0], rising[1], rising[2]


def _loss(torch: Any, net: Any, part: EvidenceTable, truth: Any, settings: TrainingSettings) -> Any:
    views = [_inputs(torch, net, part, settings.blind) for _ in range(2 if settings.contrast else 1)]
    encoded = [_encode(torch, net, view) for view in views]
    logits = torch.cat([net["recognise"](h)[:, 0] for h in encoded])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth.repeat(len(views)))
    if settings.contrast:
        near = nt_xent(torch, torch.cat(encoded), truth.repeat(2), settings.temperature)
        loss = loss + settings.contrast * near
    return loss


def nt_xent(torch: Any, h: Any, kind: Any, temperature: float = TEMPERATURE) -> Any:
    """NT-Xent with every memory of the same kind as a positive (the other view among them).

    The sum over positives is taken from the sum of each kind's vectors, which spares a mask over all pairs.
    """
    likeness = (h @ h.T / temperature).fill_diagonal_(-1e9)
    sums = torch.stack([h[kind == 0].sum(0), h[kind == 1].sum(0)])
    counts = torch.stack([(kind == 0).sum(), (kind == 1).sum()])
    place = kind.long()
    others = (counts[place] - 1).clamp(min=1)
    near = (h * (sums[place] - h)).sum(1) / (temperature * others)
    return (torch.logsumexp(likeness, dim=1) * (counts[place] > 1) - near).mean()


def _inputs(torch: Any, net: Any, part: EvidenceTable, blind: float) -> Any:
    device = next(net.parameters()).device
    pairs = torch.from_numpy(part.pairs).to(device)
    known = pairs[..., 0] > 0
    logits = net["attend"](pairs)[..., 0].masked_fill(~known, -30.0)
    attention = torch.softmax(logits, dim=1) * known
    gathered = (attention[..., None] * net["value"](pairs)).sum(1)
    dense = torch.from_numpy(np.concatenate([part.short, part.residual], axis=1)).to(device)
    dense = torch.nn.functional.dropout(dense, DROPPED) + 0.01 * torch.randn_like(dense)
    if blind:
        dense = dense * (torch.rand((len(dense), 1), device=device) >= blind)
    return torch.cat([dense, gathered], dim=1)


def _encode(torch: Any, net: Any, inputs: Any) -> Any:
    return torch.nn.functional.normalize(net["second"](torch.relu(net["first"](inputs))), dim=1)


def _network(torch: Any) -> Any:
    linear = torch.nn.Linear
    net = torch.nn.ModuleDict(
        {
            "attend": torch.nn.Sequential(linear(PAIR_FEATURES, 16), torch.nn.ReLU(), linear(16, 1)),
            "value": linear(PAIR_FEATURES, ATTENDED),
            "first": linear(2 * SHORT + ATTENDED, 256),
            "second": linear(256, 128),
            "recognise": linear(128, 1),
        }
    )
    with torch.no_grad():
        net["recognise"].weight *= 10  # unit vectors need a long weight to reach sure probabilities
    return net


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("training the detector", "models") from None
    return torch
