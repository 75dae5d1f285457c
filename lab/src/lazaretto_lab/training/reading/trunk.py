"""One encoder for orders and risk: a frozen trunk with low-rank changes and heads, one of each for every seat.

The trunk is all-MiniLM-L6-v2 or mpnet-base. Both have the same word pieces, mpnet's numbered four higher: with the
rows of its word table put where MiniLM's stand, both read the same numbers, and a token of the one is a token of the
other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from lazaretto.models.weight_files import packed_changes, unpacked_changes
from lazaretto_lab.training.jury import multi_seat

HEADS = multi_seat.HEADS
WORDS = "embeddings.word_embeddings.weight"
PLACES, KINDS = "embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"
RELATIVE = "encoder.relative_attention_bias.weight"
"""Only mpnet has it: what the distance of two tokens adds to their attention."""
WIDTHS = {"marks": 3, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
"""Rows of the heads; of ``marks``: orders, quiet lies, poison in descriptions of tools."""
BITS = 8
_AS_BERT = (
    ("attention.attn.q", "attention.self.query"), ("attention.attn.k", "attention.self.key"),
    ("attention.attn.v", "attention.self.value"), ("attention.attn.o", "attention.output.dense"),
    ("attention.LayerNorm", "attention.output.LayerNorm"),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a training depends on, besides its data."""

    seconds: float = 210.0
    """Time for the training, from where it goes on: the number of steps is set by the pace of the first ones."""
    steps: int = 1800
    """At most."""
    orders: int = 112
    """Texts of each task per step: orders, quiet lies, descriptions of tools, risk, texts without labels."""
    quiet: int = 28
    tools: int = 28
    risky: int = 48
    transfer: int = 0
    written: float = 0.3
    """Share of the texts of orders that are written pairs."""
    tokens: int = 24576
    """Padded tokens per pass."""
    rank: int = 80
    word_rank: int = 16
    rate: float = 7e-4
    head_rate: float = 2e-3
    decay: float = 0.05
    dropout: float = 0.1
    pooled_dropout: float = 0.2
    vectors: float = 0.25
    hazard: float = 0.15
    context: float = 0.25
    taught_orders: float = 2.0
    """Weight of what the teacher says of orders, and of risk."""
    taught_risk: float = 3.0
    softness: float = 2.0
    """What logits are divided by before a student is compared with its teacher."""
    least_risk: float = 0.3
    """Weight of the labels of risk at the end; it falls from 1. A training without a teacher keeps 1."""
    averaged: float = 0.998
    """Share of the old in the running mean of the weights, which is what ships."""
    seed: int = 1
    workers: int = 13


def minilm(path: Path, device: str) -> dict[str, Any]:
    """MiniLM's arrays."""
    found = multi_seat.load_safetensors(str(path), device)
    return {name: value for name, value in found.items() if name.startswith(("embeddings", "encoder"))}


def mpnet(path: Path, device: str) -> dict[str, Any]:
    """mpnet-base as ``reader.trunks`` packed it, by MiniLM's names and with MiniLM's numbers for word pieces."""
    found: dict[str, NDArray[np.float32]] = {}
    with np.load(path) as stored:
        for name in stored.files:
            if name.startswith("scale/"):
                continue
            value = stored[name].astype(np.float32)
            if name.startswith("q8/"):
                value = value * stored[f"scale/{name[3:]}"][:, None]
            plain = name.removeprefix("q8/")
            for mine, bert in _AS_BERT:
                plain = plain.replace(mine, bert)
            found[plain] = value
    words = found[WORDS]
    moved = words[4 : 4 + 30522].copy()
    moved[0], moved[multi_seat.CLS], moved[multi_seat.SEP] = words[1], words[0], words[2]
    found[WORDS], found[PLACES] = moved, found[PLACES][2:]
    found[KINDS] = np.zeros((1, words.shape[1]), np.float32)
    return {name: torch.from_numpy(value).to(device) for name, value in found.items()}


def distance_bias(table: Any, length: int) -> Any:
    """What mpnet adds to the attention of two tokens: (1, heads, length, length)."""
    places = torch.arange(length, device=table.device)
    away = places[:, None] - places[None, :]
    half, exact = 16, 8
    far = exact + (torch.log(away.abs().clamp(min=1) / exact) / math.log(128 / exact) * (half - exact)).long()
    bucket = torch.where(away.abs() < exact, away.abs(), far.clamp(max=half - 1)) + (away < 0) * half
    return table[bucket].permute(2, 0, 1)[None]


class Trunk:
    """The frozen encoder with stacked changes and heads, one of each per seat."""

    def __init__(self, frozen: Mapping[str, Any], plan: Plan, device: str, count: int) -> None:
        self.frozen, self.plan, self.device, self.count = frozen, plan, device, count
        self.size = frozen[WORDS].shape[1]
        self.layers = len({name.split(".")[2] for name in frozen if name.startswith("encoder.layer.")})
        self.small = 1e-5 if RELATIVE in frozen else 1e-12
        self.precision = torch.bfloat16 if device == "cuda" else torch.float32
        made = torch.Generator().manual_seed(plan.seed)
        self.changes: dict[str, Any] = {}

        def change(name: str, rank: int) -> None:
            out, into = frozen[name].shape
            first = (torch.randn(rank, into, generator=made) / into**0.5).expand(count, -1, -1).clone()
            self.changes[f"{name}.lora_a"] = first.to(device).requires_grad_()
            self.changes[f"{name}.lora_b"] = torch.zeros(count, out, rank, device=device).requires_grad_()

        for layer in range(self.layers):
            for matrix in multi_seat.MATRICES:
                change(f"encoder.layer.{layer}.{matrix}.weight", plan.rank)
        change(WORDS, plan.word_rank)
        self.heads: dict[str, Any] = {}
        for part, width in WIDTHS.items():
            first = (torch.randn(width, self.size, generator=made) * 0.02).expand(count, -1, -1).clone()
            self.heads[f"head.{part}.weight"] = first.to(device).requires_grad_()
            self.heads[f"head.{part}.bias"] = torch.zeros(count, 1, width, device=device).requires_grad_()
        if plan.vectors:
            turn = torch.eye(self.size).expand(count, -1, -1).clone()
            self.heads["head.vector.weight"] = turn.to(device).requires_grad_()

    def merged(self) -> dict[str, Any]:
        """Every layer's weights, changes added: (seats, out, in)."""
        found = {}
        for layer in range(self.layers):
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
            x = x + (up[:, ids.flatten()] @ down).view(count, batch, length, self.size)
        x = x + frozen[PLACES][:length]
        x = x + frozen[KINDS][0]
        x = self._norm(x.to(self.precision), "embeddings.LayerNorm").reshape(count, batch * length, self.size)
        x = functional.dropout(x, drop) if drop else x
        seen = self._attended(ids, count)
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}."
            parts = [self._affine(x, f"{at}attention.self.{p}", merged, seat) for p in ("query", "key", "value")]
            q, k, v = (p.view(count * batch, length, HEADS, self.size // HEADS).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = y.transpose(1, 2).reshape(count, batch * length, self.size)
            y = self._affine(y, f"{at}attention.output.dense", merged, seat)
            x = self._norm(x + (functional.dropout(y, drop) if drop else y), f"{at}attention.output.LayerNorm")
            y = functional.gelu(self._affine(x, f"{at}intermediate.dense", merged, seat))
            y = self._affine(y, f"{at}output.dense", merged, seat)
            x = self._norm(x + (functional.dropout(y, drop) if drop else y), f"{at}output.LayerNorm")
        return x.view(count, batch, length, self.size)

    def _attended(self, ids: Any, count: int) -> Any:
        batch, length = ids.shape
        seen = (ids != 0)[None].expand(count, -1, -1).reshape(count * batch, 1, 1, length)
        if RELATIVE not in self.frozen:
            return seen
        bias = distance_bias(self.frozen[RELATIVE].to(self.precision), length)
        return bias.expand(count * batch, -1, -1, -1).masked_fill(~seen, -1e4)

    def _affine(self, x: Any, name: str, merged: Mapping[str, Any] | None, seat: int | None) -> Any:
        bias = self.frozen[f"{name}.bias"].to(self.precision)
        if merged is None:
            return functional.linear(x, self.frozen[f"{name}.weight"].to(self.precision), bias)
        weight = merged[f"{name}.weight"]
        weight = weight if seat is None else weight[seat : seat + 1]
        return torch.baddbmm(bias[None, None], x, weight.transpose(1, 2))

    def _norm(self, x: Any, name: str) -> Any:
        weight, bias = (self.frozen[f"{name}.{part}"].to(self.precision) for part in ("weight", "bias"))
        return functional.layer_norm(x, (self.size,), weight, bias, self.small)

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

    def take(self, seat: int, arrays: Mapping[str, Any]) -> None:
        """Begin a seat with changes of this rank or a lower one, and with the heads that are given."""
        with torch.no_grad():
            for name, value in arrays.items():
                mine = (self.changes | self.heads)[name][seat]
                given = torch.as_tensor(value, dtype=mine.dtype, device=self.device)
                if name.endswith(".lora_b"):
                    mine.zero_()
                    mine[:, : given.shape[1]].copy_(given)
                elif name.endswith(".lora_a"):
                    mine[: len(given)].copy_(given)
                else:
                    mine.copy_(given.view_as(mine))

    def packed(self, seat: int) -> dict[str, NDArray[Any]]:
        """One seat as it ships."""
        return packed_changes(self.export(seat), BITS)

    def round(self) -> None:
        """Give every seat the numbers that its packed file holds, so that whatever is measured is what ships."""
        with torch.no_grad():
            for seat in range(self.count):
                held = unpacked_changes(self.packed(seat))
                for name, value in (self.changes | self.heads).items():
                    value[seat].copy_(torch.from_numpy(held[name]).to(self.device).view_as(value[seat]))


def mean_state(states: Any, mask: Any) -> Any:
    """The mean over the tokens of a mask (batch, length)."""
    share = mask.float() / mask.sum(1, keepdim=True).clamp(min=1)
    return (states.float() * share[None, :, :, None]).sum(2)
