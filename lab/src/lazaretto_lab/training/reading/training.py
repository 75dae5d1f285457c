"""Trains one trunk for orders and risk: low-rank changes to all-MiniLM-L6-v2 and the heads on its states.

Nothing of it ships yet (research/LOG.md says why).

Six seats are trained at once on the same batches: seat k never sees fold k of the risky texts nor the families of
orders that belong to it; the last seat sees all. A text counts for a seat only if none of its sources is
left out there. Heads: a mark per token for orders; risk for four kinds of content, once for Strict and once for Loose;
hazards; benign contexts; a vector that is close to what the plain encoder makes of a stretch by itself.

Needs torch and numpy alone, the folder that ``prepare.py`` wrote, and three files beside it: the jury's
``multi_seat.py``, the screener's ``training.py`` as ``screener_training.py``, and the encoder's weights.

    python training.py WORK OUT [--seconds 210] [--steps 1800]
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

try:
    from lazaretto_lab.training.jury import multi_seat
    from lazaretto_lab.training.screener import training as screener
except ImportError:  # on a training machine, beside this file
    import multi_seat  # type: ignore[no-redef,import-not-found]
    import screener_training as screener  # type: ignore[no-redef,import-not-found]

SPLITS = 5
SEATS = SPLITS + 1
LAYERS, HEADS, SIZE = multi_seat.LAYERS, multi_seat.HEADS, multi_seat.SIZE
WORDS = "embeddings.word_embeddings.weight"
WIDTHS = {"marks": 1, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
WINDOW = 256
SENTENCE_ENDS = (1012, 999, 1029, 1025)
"""The word pieces . ! ? ;"""
RECIPES = {
    "strict": multi_seat.Recipe("strict", dev=3.0),
    "loose": multi_seat.Recipe("loose", dev=3.0, image=0.8, extra=0.3, given=0.5, rank=1.0),
}


@dataclass(frozen=True)
class Plan:
    """What a training depends on, besides its data."""

    seconds: float = 210.0
    """Time for the training: the number of steps is set by the pace of the first ones."""
    steps: int = 1800
    """At most."""
    orders: int = 128
    """Texts of each task per step."""
    risky: int = 48
    tokens: int = 12288
    """Padded tokens per pass."""
    rank: int = 32
    word_rank: int = 16
    rate: float = 1e-3
    head_rate: float = 2e-3
    decay: float = 0.05
    dropout: float = 0.1
    pooled_dropout: float = 0.2
    vectors: float = 0.25
    hazard: float = 0.15
    context: float = 0.25
    averaged: float = 0.998
    """Share of the old in the running mean of the weights, which is what ships."""
    seed: int = 1
    workers: int = 13


class LoggedSampler(screener.Sampler):
    """The screener's sampler, which also says which sources a text was made of."""

    def __init__(self, material: Any, recipe: Any) -> None:
        super().__init__(material, (), recipe)
        self._drawn: list[int] = []
        for name in ("orders", "foreign", "clean", "notes", "alone", "contexts"):
            setattr(self, name, _Logged(getattr(self, name), self._drawn))

    def rows(self, rng: np.random.Generator, size: int) -> list[tuple[Any, Any, float, frozenset[int]]]:
        """Half matched pairs, a quarter orders alone, the rest honest, each with its sources."""
        found: list[tuple[Any, Any, float, frozenset[int]]] = []

        def take(made: Sequence[Any]) -> None:
            sources = frozenset(int(self.material.source[n]) for n in self._drawn)
            self._drawn.clear()
            found.extend((*row, sources) for row in made)

        token = self.material.tokens
        while len(found) < size * 0.5:
            take(self._pair(rng))
        while len(found) < size * 0.75:
            order = self.orders.draw(rng)
            take([screener._row([(token(order), 1.0)])])
            if rng.random() < 0.5:  # a language must not be a clue
                take([screener._row([(token(self.alone.draw(rng, int(self.material.language[order]))), 0.0)])])
        while len(found) < size:
            if rng.random() < 0.2:
                take([screener._row([(self._crop(rng, token(self.contexts.draw(rng))), 0.0)])])
            else:
                parts = self._note(rng, self.alone, self.alone.draw(rng), several=rng.random() < 0.3)
                take([screener._row([(part, 0.0) for part in parts])])
        return found[:size]


class _Logged:
    """A pool that remembers what was drawn."""

    def __init__(self, pool: Any, drawn: list[int]) -> None:
        self._pool, self._drawn = pool, drawn

    def draw(self, rng: np.random.Generator, language: int | None = None) -> int:
        """One item."""
        self._drawn.append(self._pool.draw(rng, language))
        return self._drawn[-1]

    def draw_like(self, rng: np.random.Generator, source: int, language: int) -> int:
        """One item of the same source and language."""
        self._drawn.append(self._pool.draw_like(rng, source, language))
        return self._drawn[-1]


class Batches(Dataset[Any]):
    """Both tasks in one step, as passes of similar length. Step ``n`` depends on the seed and n alone."""

    def __init__(self, work: Path, plan: Plan) -> None:
        self.plan = plan
        self.risky = multi_seat.Data(str(work / "input.npz"))
        with np.load(io.BytesIO(lzma.decompress((work / "material.npz.xz").read_bytes()))) as arrays:
            material = screener.Material({name: arrays[name] for name in arrays.files})
        self.sampler = LoggedSampler(material, screener.Recipe())
        self.splits = [set(one) for one in json.loads((work / "splits.json").read_text())]
        self._out = [{n for n, source in enumerate(material.names["source"]) if source in one} for one in self.splits]
        self._cumulated = np.cumsum(self.risky.chance / self.risky.chance.sum())
        with np.load(work / "judged.npz") as stored:
            self.judged = stored["judged"]
            self._seen = np.concatenate([stored["seen"], np.ones((1, self.risky.count))]).astype(np.float32)
        factors = [self.risky.weights(recipe) for recipe in RECIPES.values()]
        self._factors = np.stack(factors)
        """(2, examples): what an example counts for Strict and for Loose."""

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, step: int) -> list[dict[str, NDArray[Any]]]:
        rng, plan, data = np.random.default_rng((self.plan.seed, step)), self.plan, self.risky
        rows: list[dict[str, Any]] = []
        for ids, marks, label, sources in self.sampler.rows(rng, plan.orders):
            seen = [float(not (sources & out)) for out in self._out] + [1.0]
            rows.append({"ids": ids, "marks": marks, "label": label, "seen": seen, "order": 1.0, "row": 0})
        places = np.searchsorted(self._cumulated, rng.random(plan.risky))
        for n in np.minimum(places, data.count - 1).tolist():
            ids = np.array(multi_seat.augmented(data, n, _AUGMENT, rng), np.int64)
            zeros = np.zeros(len(ids), np.float32)
            row = {"ids": ids, "marks": zeros, "label": float(data.label[n]), "order": 0.0, "row": n}
            rows.append({**row, "seen": self._seen[:, n].tolist()})
        for row in rows:
            row["span"] = _span(row["ids"], rng)
        rows.sort(key=lambda row: len(row["ids"]))
        return [self._padded(part) for part in _passes(rows, plan.tokens)]

    def _padded(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
        ids = _filled([row["ids"] for row in rows], np.int64)
        data, picked = self.risky, np.array([row["row"] for row in rows])
        spans = [(row["ids"][a:b] if b - a == len(row["ids"]) else [101, *row["ids"][a:b], 102], a, b)
                 for row in rows for a, b in [row["span"]]]  # fmt: skip
        return {
            "ids": ids,
            "marks": _filled([row["marks"] for row in rows], np.float32, ids.shape[1]),
            "label": np.array([row["label"] for row in rows], np.float32),
            "order": np.array([row["order"] for row in rows], np.float32),
            "seen": np.array([row["seen"] for row in rows], np.float32).T,
            "weight": self._factors[:, picked],
            "head": data.head[picked],
            "noisy": data.noisy[picked],
            "hazard": np.where([row["order"] for row in rows], -1, data.hazard[picked]),
            "contexts": data.contexts[picked],
            "known": data.known[picked] * np.array([1 - row["order"] for row in rows], np.float32),
            "span_ids": _filled([np.array(one[0], np.int64) for one in spans], np.int64),
            "span": np.array([[a, b] for _, a, b in spans], np.int64),
        }


_AUGMENT = multi_seat.Plan(seconds=0, window=WINDOW)


def _span(ids: NDArray[np.int64], rng: np.random.Generator) -> tuple[int, int]:
    """A sentence of the text, or all of it."""
    ends = [0, *(np.flatnonzero(np.isin(ids, SENTENCE_ENDS)).tolist()), len(ids) - 2]
    if len(ends) < 4 or rng.random() < 0.35:
        return 0, len(ids)
    n = int(rng.integers(len(ends) - 1))
    start, end = ends[n] + 1, ends[n + 1] + 1
    return (start, end) if end - start >= 4 else (0, len(ids))


def _filled(rows: Sequence[NDArray[Any]], kind: Any, length: int = 0) -> NDArray[Any]:
    length = length or -(-max(map(len, rows)) // 16) * 16
    found = np.zeros((len(rows), length), kind)
    for line, row in zip(found, rows, strict=True):
        line[: len(row)] = row
    return found


def _passes(rows: Sequence[Any], tokens: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    for row in rows:
        if found and (len(found[-1]) + 1) * len(row["ids"]) <= tokens:
            found[-1].append(row)
        else:
            found.append([row])
    return found


class Trunk:
    """The frozen encoder with stacked changes and heads, one of each per seat."""

    def __init__(self, frozen: Mapping[str, Any], plan: Plan, device: str, count: int = SEATS) -> None:
        self.frozen, self.plan, self.device, self.count = frozen, plan, device, count
        self.precision = torch.bfloat16 if device == "cuda" else torch.float32
        made = torch.Generator().manual_seed(plan.seed)
        self.changes: dict[str, Any] = {}

        def change(name: str, rank: int) -> None:
            out, into = frozen[name].shape
            first = (torch.randn(rank, into, generator=made) / into**0.5).expand(count, -1, -1).clone()
            self.changes[f"{name}.lora_a"] = first.to(device).requires_grad_()
            self.changes[f"{name}.lora_b"] = torch.zeros(count, out, rank, device=device).requires_grad_()

        for layer in range(LAYERS):
            for matrix in multi_seat.MATRICES:
                change(f"encoder.layer.{layer}.{matrix}.weight", plan.rank)
        change(WORDS, plan.word_rank)
        self.heads: dict[str, Any] = {}
        for part, width in WIDTHS.items():
            first = (torch.randn(width, SIZE, generator=made) * 0.02).expand(count, -1, -1).clone()
            self.heads[f"head.{part}.weight"] = first.to(device).requires_grad_()
            self.heads[f"head.{part}.bias"] = torch.zeros(count, 1, width, device=device).requires_grad_()
        turn = torch.eye(SIZE).expand(count, -1, -1).clone()
        self.heads["head.vector.weight"] = turn.to(device).requires_grad_()

    def merged(self) -> dict[str, Any]:
        """Every layer's weights, changes added: (seats, out, in)."""
        found = {}
        for layer in range(LAYERS):
            for matrix in multi_seat.MATRICES:
                name = f"encoder.layer.{layer}.{matrix}.weight"
                a, b = self.changes[f"{name}.lora_a"], self.changes[f"{name}.lora_b"]
                found[name] = (self.frozen[name][None] + b @ a).to(self.precision)
        return found

    def states(self, ids: Any, merged: Mapping[str, Any] | None, seat: int | None = None, drop: float = 0.0) -> Any:
        """Token states (seats, batch, length, 384); of the frozen encoder where nothing is merged in."""
        frozen, (batch, length) = self.frozen, ids.shape
        count = 1 if merged is None or seat is not None else self.count
        x = frozen[WORDS][ids][None]
        if merged is not None:
            picked = slice(None) if seat is None else slice(seat, seat + 1)
            up, down = self.changes[f"{WORDS}.lora_b"][picked], self.changes[f"{WORDS}.lora_a"][picked]
            x = x + (up[:, ids.flatten()] @ down).view(count, batch, length, SIZE)
        x = x + frozen["embeddings.position_embeddings.weight"][:length]
        x = x + frozen["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x.to(self.precision), "embeddings.LayerNorm").reshape(count, batch * length, SIZE)
        x = functional.dropout(x, drop) if drop else x
        seen = (ids != 0)[None].expand(count, -1, -1).reshape(count * batch, 1, 1, length)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}."
            parts = [self._affine(x, f"{at}attention.self.{p}", merged, seat) for p in ("query", "key", "value")]
            q, k, v = (p.view(count * batch, length, HEADS, SIZE // HEADS).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = y.transpose(1, 2).reshape(count, batch * length, SIZE)
            y = self._affine(y, f"{at}attention.output.dense", merged, seat)
            x = self._norm(x + (functional.dropout(y, drop) if drop else y), f"{at}attention.output.LayerNorm")
            y = functional.gelu(self._affine(x, f"{at}intermediate.dense", merged, seat))
            y = self._affine(y, f"{at}output.dense", merged, seat)
            x = self._norm(x + (functional.dropout(y, drop) if drop else y), f"{at}output.LayerNorm")
        return x.view(count, batch, length, SIZE)

    def _affine(self, x: Any, name: str, merged: Mapping[str, Any] | None, seat: int | None) -> Any:
        bias = self.frozen[f"{name}.bias"].to(self.precision)
        if merged is None:
            return functional.linear(x, self.frozen[f"{name}.weight"].to(self.precision), bias)
        weight = merged[f"{name}.weight"]
        weight = weight if seat is None else weight[seat : seat + 1]
        return torch.baddbmm(bias[None, None], x, weight.transpose(1, 2))

    def _norm(self, x: Any, name: str) -> Any:
        weight, bias = (self.frozen[f"{name}.{part}"].to(self.precision) for part in ("weight", "bias"))
        return functional.layer_norm(x, (SIZE,), weight, bias, 1e-12)

    def head(self, name: str, states: Any, seat: int | None = None) -> Any:
        """A head's logits: (seats, ..., width)."""
        picked = slice(None) if seat is None else slice(seat, seat + 1)
        weight, bias = self.heads[f"head.{name}.weight"][picked], self.heads[f"head.{name}.bias"][picked]
        flat = states.float().flatten(1, -2)
        return (flat @ weight.transpose(1, 2) + bias).view(*states.shape[:-1], -1)

    def parameters(self) -> list[Any]:
        """All that is trained."""
        return [*self.changes.values(), *self.heads.values()]

    def export(self, seat: int) -> dict[str, NDArray[np.float16]]:
        """One seat, in half precision."""
        found = {k: v[seat].detach().half().cpu().numpy() for k, v in (self.changes | self.heads).items()}
        return {k: v[0] if k.endswith(".bias") else v for k, v in found.items()}


def mean_state(states: Any, mask: Any) -> Any:
    """The mean over the tokens of a mask (batch, length)."""
    share = mask.float() / mask.sum(1, keepdim=True).clamp(min=1)
    return (states.float() * share[None, :, :, None]).sum(2)


def loss_of(trunk: Trunk, part: Mapping[str, Any], merged: Mapping[str, Any], later: bool) -> Any:
    """One loss per seat, a sum over the rows of a pass."""
    plan, ids = trunk.plan, part["ids"]
    states = trunk.states(ids, merged, drop=plan.dropout)
    inside = ids != 0
    orders, risky = part["seen"] * part["order"], part["seen"] * (1 - part["order"])
    loss = _orders_loss(trunk.head("marks", states)[..., 0], inside, part, orders) / plan.orders
    pooled = functional.dropout(mean_state(states, inside), plan.pooled_dropout)
    loss = loss + _risk_loss(trunk, pooled, part, risky, later)
    return loss + plan.vectors * _vector_loss(trunk, states, part) * len(ids) / (plan.orders + plan.risky)


def _orders_loss(marks: Any, inside: Any, part: Mapping[str, Any], weight: Any) -> Any:
    """Every token's mark, and every text's label."""
    inner = inside.float()[None].clone()
    inner[:, :, 0] = 0
    target = part["marks"][None].expand_as(marks)
    token = functional.binary_cross_entropy_with_logits(marks, target, reduction="none")
    per_text = (token * inner).sum(2) / inner.sum(2).clamp(min=1)
    hidden = marks.masked_fill(inner == 0, -1e4)
    top = torch.topk(hidden, min(screener.TOP_TOKENS, hidden.shape[2]), dim=2).values
    valid = (top > -9e3).float()
    value = (top * valid).sum(2) / valid.sum(2).clamp(min=1)
    record = functional.binary_cross_entropy_with_logits(value, part["label"][None].expand_as(value), reduction="none")
    return ((per_text + record) * weight).sum(1)


def _risk_loss(trunk: Trunk, pooled: Any, part: Mapping[str, Any], seen: Any, later: bool) -> Any:
    plan, count = trunk.plan, trunk.count
    total = torch.zeros(count, device=pooled.device)
    chosen = part["head"][None, :, None].expand(count, -1, 1)
    share = float((1 - part["order"]).sum()) / plan.risky
    for n, (seat, recipe) in enumerate(RECIPES.items()):
        logits = trunk.head(seat, pooled).gather(2, chosen)[:, :, 0]
        weight = seen * part["weight"][n][None]
        target = (part["label"] * (1 - 2 * recipe.smoothing) + recipe.smoothing)[None].expand_as(logits)
        if later:
            mixed = recipe.given * target + (1 - recipe.given) * torch.sigmoid(logits.detach())
            target = torch.where(part["noisy"][None], mixed, target)
        miss = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        total = total + (miss * weight).sum(1) / (plan.risky * part["mean_weight"][n])
        text = (part["head"] == 0).float()[None]
        bad, good = weight * text * (part["label"] > 0.5), weight * text * (part["label"] < 0.5)
        gap = functional.softplus(logits[:, None, :] - logits[:, :, None])
        pairs = bad[:, :, None] * good[:, None, :]
        total = total + share * recipe.rank * (gap * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1e-3)
    named = seen * (part["hazard"] >= 0).float()[None]
    odds = functional.log_softmax(trunk.head("hazard", pooled), 2)
    odds = odds.gather(2, part["hazard"].clamp(min=0)[None, :, None].expand(count, -1, 1))[:, :, 0]
    total = total - share * plan.hazard * (odds * named).sum(1) / named.sum(1).clamp(min=4)
    known = seen * part["known"][None]
    wrong = functional.binary_cross_entropy_with_logits(
        trunk.head("context", pooled), part["contexts"].expand(count, -1, -1), reduction="none"
    ).mean(2)
    return total + share * plan.context * (wrong * known).sum(1) / known.sum(1).clamp(min=4)


def _vector_loss(trunk: Trunk, states: Any, part: Mapping[str, Any]) -> Any:
    """How far a stretch's vector lies from the plain encoder's: a mean over the rows, per seat."""
    with torch.no_grad():
        wanted = mean_state(trunk.states(part["span_ids"], None), part["span_ids"] != 0)[0]
    places = torch.arange(states.shape[2], device=states.device)[None]
    inside = (places >= part["span"][:, :1]) & (places < part["span"][:, 1:])
    made = mean_state(states, inside) @ trunk.heads["head.vector.weight"].transpose(1, 2)
    return (1 - functional.cosine_similarity(made, wanted[None], dim=2)).mean(1)


def train(trunk: Trunk, batches: Batches, tell: Callable[[str], None]) -> int:
    """All seats together, for the plan's time; afterwards the trunk holds the running mean of its weights."""
    plan, device = trunk.plan, trunk.device
    torch.manual_seed(plan.seed)
    chance, factors = batches.risky.chance, batches._factors
    mean_weight = torch.tensor((factors * chance).sum(1) / chance.sum(), device=device)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(trunk.changes.values()), "lr": plan.rate},
            {"params": list(trunk.heads.values()), "lr": plan.head_rate},
        ],
        weight_decay=plan.decay,
        fused=device == "cuda",
    )
    parameters, rates = trunk.parameters(), (plan.rate, plan.head_rate)
    averages = [p.detach().clone() for p in parameters]
    loader: Any = DataLoader(
        batches, batch_size=None, shuffle=False, num_workers=plan.workers, collate_fn=_as_it_is,
        prefetch_factor=4 if plan.workers else None,
    )  # fmt: skip
    started, steps, step, total = time.monotonic(), plan.steps, 0, torch.zeros((), device=device)
    measured = started
    for parts in loader:
        if step == 20:
            measured = time.monotonic()
        if step in (60, 200, 600):
            pace = (time.monotonic() - measured) / (step - 20)
            left = plan.seconds - (time.monotonic() - started)
            steps = max(step + 20, min(plan.steps, step + int(left / pace)))
            tell(f"step {step}: {pace:.3f} s a step, {steps} steps in all")
        if step >= steps or time.monotonic() - started > plan.seconds * 1.1:
            break
        slope = min((step + 1) / max(1.0, 0.05 * steps), max(0.01, 1 - step / steps))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * slope
        optimizer.zero_grad(set_to_none=True)
        merged = trunk.merged()
        leaves = {k: v.detach().requires_grad_() for k, v in merged.items()}
        for made in parts:
            part = {k: torch.from_numpy(v).to(device, non_blocking=True) for k, v in made.items()}
            loss = loss_of(trunk, {**part, "mean_weight": mean_weight}, leaves, step > steps / 3)
            loss.sum().backward()
            total += loss.detach().mean()
        torch.autograd.backward(list(merged.values()), [leaf.grad for leaf in leaves.values()])
        _clip_each(parameters)
        optimizer.step()
        share = min(plan.averaged, (step + 1) / (step + 10))
        torch._foreach_lerp_(averages, [p.detach() for p in parameters], 1 - share)
        step += 1
        if step % 200 == 0:
            tell(f"step {step}/{steps}, loss {float(total) / 200:.3f}, {time.monotonic() - started:.0f} s")
            total.zero_()
    with torch.no_grad():
        for parameter, average in zip(parameters, averages, strict=True):
            parameter.copy_(average)
    return step


def _as_it_is(batch: Any) -> Any:
    return batch


def _clip_each(parameters: Sequence[Any], most: float = 1.0) -> None:
    """Clips the gradient of each seat by its own norm, as if it were trained alone."""
    gradients = [p.grad for p in parameters]
    squares = torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients]).sum(0)
    factor = (most / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor.view(-1, *([1] * (g.dim() - 1))))


def read_seat(
    trunk: Trunk, merged: Mapping[str, Any], seat: int, windows: Sequence[NDArray[Any]]
) -> dict[str, NDArray[np.float32]]:
    """What one seat makes of windows: the order's value and the other heads, one row each."""
    widths = {"marks": 1, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
    found = {name: np.zeros((len(windows), width), np.float32) for name, width in widths.items()}
    order = sorted(range(len(windows)), key=lambda i: len(windows[i]))
    begin = 0
    while begin < len(order):
        stop = begin + 1
        while stop < len(order) and (stop - begin + 1) * len(windows[order[stop]]) <= 65536:
            stop += 1
        chunk = order[begin:stop]
        begin = stop
        ids = torch.from_numpy(_filled([np.asarray(windows[i], np.int64) for i in chunk], np.int64)).to(trunk.device)
        with torch.inference_mode():
            states = trunk.states(ids, merged, seat)
            marks = trunk.head("marks", states, seat)[0, :, :, 0]
            found["marks"][chunk, 0] = screener.pooled(marks, (ids != 0).long()).float().cpu().numpy()
            pooled = mean_state(states, ids != 0)
            for name in ("strict", "loose", "hazard", "context"):
                found[name][chunk] = trunk.head(name, pooled, seat)[0].float().cpu().numpy()
    return found


def score_orders(trunk: Trunk, held: Any, families: Mapping[str, int], out: Path) -> None:
    """``<family>.json``: the left-out scores of every family of orders, as the screener's calibration reads them."""
    with torch.inference_mode():
        merged = trunk.merged()
    for family, seat in families.items():
        picked, several = held.of_fold(family)
        windows, owner = [w for one in several for w in one], [n for n, one in enumerate(several) for _ in one]
        value = np.full(len(several), -1e4)
        np.maximum.at(value, owner, read_seat(trunk, merged, seat, windows)["marks"][:, 0].astype(np.float64))
        result = {"run": family, "text": picked.tolist(), "logit": value.round(3).tolist()}
        (out / f"{family}.json").write_text(json.dumps(result))


def score_risky(trunk: Trunk, data: Any, judged: NDArray[np.bool_], steps: int, out: Path) -> None:
    """``jury-scores.npz``: every judged example by the seat that did not see it, as the jury's assembly reads it."""
    names = [f"{seat}:{k}" for seat in RECIPES for k in range(SPLITS)]
    logits = np.full((len(names), data.count), np.nan, np.float32)
    named = np.flatnonzero(judged & np.isin(data.weight_class, (0, 5)))
    place = {int(row): n for n, row in enumerate(named)}
    extra = {"hazard": np.zeros((len(names), len(named), 16), np.float16),
             "context": np.zeros((len(names), len(named), 6), np.float16)}  # fmt: skip
    with torch.inference_mode():
        merged = trunk.merged()
    for k in range(SPLITS):
        rows = np.flatnonzero(judged & (data.fold == k))
        several = [multi_seat.windows(int(data.kind[i]), data.text[i], data.picture[i], WINDOW) for i in rows]
        owner = np.array([n for n, one in enumerate(several) for _ in one])
        read = read_seat(trunk, merged, k, [np.array(w) for one in several for w in one])
        count = np.bincount(owner)
        first = np.searchsorted(owner, np.arange(len(rows)))
        for s, seat in enumerate(RECIPES):
            mine = read[seat][np.arange(len(owner)), data.head[rows][owner]]
            logits[s * SPLITS + k, rows] = np.bincount(owner, weights=mine) / count
            for n, row in enumerate(rows.tolist()):
                if row in place:
                    for part in ("hazard", "context"):
                        extra[part][s * SPLITS + k, place[row]] = read[part][first[n]]
    scored = np.flatnonzero(judged)
    np.savez_compressed(
        out / "jury-scores.npz", recipes=np.array(names), steps=steps, rows=scored.astype(np.int32),
        logits=logits[:, scored].astype(np.float16), named=named.astype(np.int32),
        single=np.arange(len(names), dtype=np.int32), hazard=extra["hazard"], context=extra["context"],
    )  # fmt: skip


def main() -> None:
    """One training of all seats, the scores of what each left out, and the weights that ship."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    for field in fields(Plan):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    given = parser.parse_args()
    plan = Plan(**{field.name: getattr(given, field.name) for field in fields(Plan)})
    started = time.monotonic()

    def tell(words: str) -> None:
        print(f"[{time.monotonic() - started:6.1f}] {words}", flush=True)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(2)
    torch.backends.cuda.matmul.allow_tf32 = True
    with np.load(given.work / "encoder.npz") as stored:
        frozen = {k: torch.from_numpy(stored[k].astype(np.float32)).to(device) for k in stored.files}
    batches = Batches(given.work, plan)
    tell(f"{batches.risky.count} risky and harmless texts on {device}")
    trunk = Trunk(frozen, plan, device)
    steps = train(trunk, batches, tell)
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez(given.out / "trunk.npz", **trunk.export(SPLITS))  # type: ignore[arg-type]
    tell(f"{steps} steps; scoring")
    families = json.loads((given.work / "families.json").read_text())
    score_orders(trunk, screener.Held(given.work / "held.npz.xz"), families, given.out)
    score_risky(trunk, batches.risky, batches.judged, steps, given.out)
    tell("done")


if __name__ == "__main__":
    main()
