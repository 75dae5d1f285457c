"""Trains seats of the embedded jury: low-rank adapters of the text encoder, with a small head per kind of input.

Many seats are trained at once: they share the frozen encoder and every batch, and differ in their adapters, heads,
and in which examples count for them. So a nested cross-validation of thirty seats costs about as much as three seats
one by one. What is trained is exactly what ``models.minilm`` merges when a seat is loaded: weight + b @ a.

Text that addresses the judges is mixed into both labels while training, so that it carries no weight; descriptions
are cut at random, because in the public cases a cut description hints at the label.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.content.jury.windows import HEADS, WINDOW, compose, windows
from lazaretto.gates.content.records import InputKind
from lazaretto.models.minilm.weights import LAYERS, MATRICES
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS, Example
from lazaretto_lab.training.jury.multi_adapter_encoder import MultiAdapterEncoder, pad

Weights = dict[str, NDArray[np.float16]]
_SIZE = 384


@dataclass(frozen=True, slots=True)
class Schedule:
    """What all seats of one training share."""

    seed: int = 1
    rank: int = 32
    first_layer: int = 3
    """Layers before it stay as they are, so that all seats of a jury share one pass through them."""
    window: int = WINDOW
    """Most tokens read at once."""
    rate: float = 1e-3
    head_rate: float = 2e-3
    decay: float = 0.01
    epochs: int = 3
    batch: int = 32
    dropout: float = 0.1
    addressed: float = 0.15
    """Share of examples that get a sentence to the judges."""
    cut: float = 0.4
    """Share of pair examples whose description is cut at a random place."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What may differ between the seats of one training."""

    name: str
    scale: float = 1.0
    """Multiplies the adapter: under Adam, a learning rate of its own."""
    dev: float = 2.0
    """Weight of an example that experts voted on."""
    pair: float = 1.0
    """Weight of a pair case."""
    image: float = 1.0
    """Multiplies the trust in picture cases."""
    extra: float = 0.3
    """Weight of the foreign text sets."""
    look_alikes: float = 1.0
    """Weight of harmless requests that sound harmful, and of their harmful twins."""
    given: float = 0.7
    """For picture cases: the share of the given label in the target; the rest is the seat's own current belief."""
    hazard: float = 0.2
    """Weight of naming the hazard."""
    context: float = 0.2
    """Weight of naming the benign context."""
    smoothing: float = 0.03
    held_out: frozenset[int] = frozenset()
    """Folds this seat must not see."""


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """An example as word pieces, with the fold it belongs to (-1: none, always trained on)."""

    example: Example
    text: tuple[int, ...]
    picture: tuple[int, ...]
    fold: int = -1


def encode(examples: Sequence[Example], fold: Sequence[int], tokenizer: Any, limit: int = 6000) -> list[EncodedTexts]:
    """The examples as word pieces, texts past ``limit`` characters cut."""
    texts = tokenizer.encode_batch([e.text[:limit] for e in examples], add_special_tokens=False)
    pictures = tokenizer.encode_batch([e.description[:limit] for e in examples], add_special_tokens=False)
    rows = zip(examples, texts, pictures, fold, strict=True)
    return [EncodedTexts(e, tuple(t.ids), tuple(p.ids), int(f)) for e, t, p, f in rows]


class TrainableRoles(MultiAdapterEncoder):
    """Several roles in training: one frozen encoder, stacked adapters and heads."""

    def __init__(self, encoder: Path, recipes: Sequence[Recipe], schedule: Schedule, device: str) -> None:
        import torch

        super().__init__(encoder, len(recipes), schedule.first_layer, device)
        self.recipes, self.schedule = tuple(recipes), schedule
        self.precision = torch.bfloat16 if device == "cuda" else torch.float32
        count = len(recipes)
        generator = torch.Generator().manual_seed(schedule.seed)
        self.scale = torch.tensor([r.scale for r in recipes], device=device)[:, None, None]
        self.adapters: dict[str, Any] = {}
        for layer in range(schedule.first_layer, LAYERS):
            for matrix in MATRICES:
                name = f"encoder.layer.{layer}.{matrix}.weight"
                out, into = self.frozen[name].shape
                first = torch.randn(count, schedule.rank, into, generator=generator) / into**0.5
                self.adapters[f"{name}.lora_a"] = first.to(device).requires_grad_()
                self.adapters[f"{name}.lora_b"] = torch.zeros(count, out, schedule.rank, device=device).requires_grad_()
        self.heads: dict[str, Any] = {}
        for part, width in (("risk", len(HEADS)), ("hazard", len(HAZARDS)), ("context", len(CONTEXTS))):
            weight = torch.randn(count, width, _SIZE, generator=generator) * 0.02
            self.heads[f"head.{part}.weight"] = weight.to(device).requires_grad_()
            self.heads[f"head.{part}.bias"] = torch.zeros(count, 1, width, device=device).requires_grad_()

    def weight(self, name: str) -> Any:
        """A layer's weights with the adapters, as they are now, added."""
        if f"{name}.weight.lora_a" not in self.adapters:
            return super().weight(name)
        a, b = self.adapters[f"{name}.weight.lora_a"], self.adapters[f"{name}.weight.lora_b"]
        return self.frozen[f"{name}.weight"][None] + (b * self.scale) @ a

    def read(self, pooled: Any) -> dict[str, Any]:
        """The heads' logits: name -> (seats, batch, width)."""
        return {
            part: pooled @ self.heads[f"head.{part}.weight"].transpose(1, 2) + self.heads[f"head.{part}.bias"]
            for part in ("risk", "hazard", "context")
        }

    def export(self) -> list[Weights]:
        """Each seat as it is shipped, in half precision."""
        made: list[Weights] = []
        for index, recipe in enumerate(self.recipes):
            seat = {k: v[index].detach().float().cpu().numpy() for k, v in (self.adapters | self.heads).items()}
            for key in seat:
                if key.endswith(".lora_b"):
                    seat[key] = seat[key] * recipe.scale
                if key.endswith(".bias"):
                    seat[key] = seat[key][0]
            made.append({k: v.astype(np.float16) for k, v in seat.items()})
        return made

    def round_to_shipped(self) -> None:
        """Rounds everything to half precision and products to eight bits: scores are those of the seats in use."""
        import torch

        self.precision, self.int8 = torch.float32, True
        with torch.no_grad():
            for tensor in (*self.adapters.values(), *self.heads.values()):
                tensor.copy_(tensor.half().float())


def train(
    seats: TrainableRoles,
    data: Sequence[EncodedTexts],
    addresses: Sequence[Sequence[int]],
    report: Callable[[int, int, float], None],
) -> None:
    """Trains all seats together; ``addresses`` are tokenized sentences that speak to judges."""
    import torch
    from torch.nn import functional

    plan, device = seats.schedule, seats.device
    torch.manual_seed(plan.seed)
    rng = random.Random(plan.seed)
    targets = Targets.of(data, seats.recipes, device)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(seats.adapters.values()), "lr": plan.rate, "weight_decay": plan.decay},
            {"params": list(seats.heads.values()), "lr": plan.head_rate, "weight_decay": plan.decay},
        ],
        fused=device == "cuda",
    )
    steps = plan.epochs * ((len(data) + plan.batch - 1) // plan.batch)
    warm = max(1.0, 0.06 * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / warm, max(0.0, 1 - s / steps)))
    step = 0
    for epoch in range(plan.epochs):
        for batch in _shuffled_batches(data, plan.batch, plan.window, rng):
            ids, mask = pad([_augmented(data[i], addresses, plan, rng) for i in batch], device)
            pooled = functional.dropout(seats.pool(ids, mask), plan.dropout)
            losses = _losses(seats, pooled, targets.rows(torch.tensor(batch, device=device)), epoch)
            optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            _clip_each(seats)
            optimizer.step()
            schedule.step()
            step += 1
            report(step, steps, float(losses.detach().mean()) if step % 50 == 0 else float("nan"))


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to be learnt of each example, as tensors: made once, so that a GPU does not wait for lists of numbers."""

    weight: Any
    """(examples, seats): how much an example counts for a seat; 0 is unseen."""
    head: Any
    label: Any
    noisy: Any
    """Whether the label is a source's own and may be wrong."""
    hazard: Any
    contexts: Any
    known: Any
    """Whether the benign contexts are known."""

    @classmethod
    def of(cls, data: Sequence[EncodedTexts], recipes: Sequence[Recipe], device: str) -> Targets:
        """The targets of all examples."""
        import torch

        examples = [e.example for e in data]
        made = (
            torch.tensor([[_weight(e, r) for r in recipes] for e in data]),
            torch.tensor([e.head for e in examples]),
            torch.tensor([e.label for e in examples]),
            torch.tensor([e.kind is InputKind.IMAGE and e.source != "dev" for e in examples]),
            torch.tensor([e.hazard if e.label else -1 for e in examples]),
            torch.tensor([e.contexts or (0.0,) * len(CONTEXTS) for e in examples]),
            torch.tensor([float(bool(e.contexts)) for e in examples]),
        )
        return cls(*(tensor.to(device) for tensor in made))

    def rows(self, chosen: Any) -> Targets:
        """Those of some examples."""
        return Targets(*(getattr(self, f.name)[chosen] for f in fields(self)))


def _clip_each(seats: TrainableRoles, most: float = 1.0) -> None:
    """Clips the gradient of each seat by its own norm, as if it were trained alone."""
    import torch

    gradients = [p.grad for p in (*seats.adapters.values(), *seats.heads.values())]
    squares = torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients]).sum(0)
    factor = (most / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor[:, None, None])


def _losses(seats: TrainableRoles, pooled: Any, batch: Targets, epoch: int) -> Any:
    """One loss per seat."""
    import torch
    from torch.nn import functional

    out, count = seats.read(pooled), len(seats.recipes)
    logits = out["risk"].gather(2, batch.head[None, :, None].expand(count, -1, 1))[:, :, 0]
    weight, smoothing, given = batch.weight.T, _each(seats, "smoothing")[:, None], _each(seats, "given")[:, None]
    target = batch.label[None] * (1 - 2 * smoothing) + smoothing
    if epoch:
        mixed = given * target + (1 - given) * torch.sigmoid(logits.detach())
        target = torch.where(batch.noisy[None], mixed, target)
    total = weight.sum(1).clamp(min=1e-6)
    losses = (functional.binary_cross_entropy_with_logits(logits, target, reduction="none") * weight).sum(1) / total
    seen = (weight > 0).float()
    named = seen * (batch.hazard >= 0).float()[None]
    chosen = batch.hazard.clamp(min=0)[None, :, None].expand(count, -1, 1)
    odds = functional.log_softmax(out["hazard"], 2).gather(2, chosen)[:, :, 0]
    losses = losses - _each(seats, "hazard") * (odds * named).sum(1) / named.sum(1).clamp(min=1)
    known = seen * batch.known[None]
    miss = functional.binary_cross_entropy_with_logits(
        out["context"], batch.contexts.expand(count, -1, -1), reduction="none"
    ).mean(2)
    return losses + _each(seats, "context") * (miss * known).sum(1) / known.sum(1).clamp(min=1)


def _each(seats: TrainableRoles, field: str) -> Any:
    import torch

    return torch.tensor([getattr(r, field) for r in seats.recipes], device=seats.device)


def _weight(item: EncodedTexts, recipe: Recipe) -> float:
    example = item.example
    if item.fold in recipe.held_out:
        return 0.0
    if example.source == "dev":
        return recipe.dev
    if example.source == "look_alikes":
        return recipe.look_alikes
    if example.source not in ("library", "raw"):
        return recipe.extra
    factor = {InputKind.PAIR: recipe.pair, InputKind.IMAGE: recipe.image, InputKind.TEXT: 1.0}
    return example.trust * factor[example.kind]


def _augmented(
    item: EncodedTexts, addresses: Sequence[Sequence[int]], plan: Schedule, rng: random.Random
) -> tuple[int, ...]:
    """One window of the item: now and then cut, starting later, or with a sentence to the judges in it."""
    text, picture, kind = item.text, item.picture, item.example.kind
    if kind is InputKind.PAIR and rng.random() < plan.cut and len(picture) > 40:
        picture = picture[: rng.randint(40, len(picture))]
    if addresses and rng.random() < plan.addressed:
        address = tuple(rng.choice(addresses))
        if kind is InputKind.IMAGE:
            picture = (*picture[: plan.window - 4 - len(address)], *address)
        else:
            text = (*address, *text) if rng.random() < 0.5 else (*text[: plan.window - 2 - len(address)], *address)
    start = 0
    if kind is InputKind.TEXT and len(text) > plan.window and rng.random() < 0.3:
        start = rng.randint(0, len(text) - plan.window // 2)
    return compose(kind, text, picture, start, plan.window).ids


def _shuffled_batches(data: Sequence[EncodedTexts], size: int, window: int, rng: random.Random) -> list[list[int]]:
    """Positions in random batches of similar length: little padding, still a new mixture each epoch."""
    lengths = [min(window, len(e.text) + len(e.picture)) + rng.uniform(0, 40) for e in data]
    order = sorted(range(len(data)), key=lengths.__getitem__)
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(batches)
    return batches


def score(seats: TrainableRoles, data: Sequence[EncodedTexts], limit: int = 4) -> list[NDArray[np.float32]]:
    """Risk logits per item: (seats, windows), at most ``limit`` windows."""
    import torch

    rows = [
        (i, place, w.ids)
        for i, e in enumerate(data)
        for place, w in enumerate(windows(e.example.kind, e.text, e.picture, limit, seats.schedule.window))
    ]
    rows.sort(key=lambda r: len(r[2]))
    found: list[dict[int, NDArray[np.float32]]] = [{} for _ in data]
    with torch.inference_mode():
        for begin in range(0, len(rows), 32):
            part = rows[begin : begin + 32]
            logits = seats.read(seats.pool(*pad([r[2] for r in part], seats.device)))["risk"].cpu().numpy()
            for line, (i, place, _) in enumerate(part):
                found[i][place] = logits[:, line, data[i].example.head]
    return [np.stack([item[place] for place in sorted(item)], axis=1) for item in found]
