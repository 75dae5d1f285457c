"""The network itself: windows of token ids in, token states out.

Our own rather than transformers', because it shares weights between encoders, multiplies in eight bits, and imports
in a moment; a test holds it equal to the official pipeline to four decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm.int8 import int8_linear
from lazaretto.models.minilm.weights import DIMENSION, HEADS, LAYERS, Adapter, EncoderWeights
from lazaretto.models.torch_loading import torch_device

_BATCH_TOKENS = 8192
"""Tokens per forward pass, padding included: bounds memory whatever the caller sends."""
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_Step = Callable[[Any], Any]


class Encoder:
    """all-MiniLM-L6-v2, plain or with an adapter merged in. Safe to share between threads."""

    def __init__(self, adapter: Adapter | None = None, *, int8: bool = False, device: str = "cpu") -> None:
        """``int8``: products of numbers rounded to eight bits. Windows are then read one by one, so that what a window
        scores never depends on what was read beside it."""
        self.device = torch_device(device)
        weights = EncoderWeights(adapter)
        self._one_by_one = int8
        self._make_linear = int8_linear if int8 else _linear
        self._tables = [weights.tensor(f"embeddings.{table}.weight").to(self.device) for table in _TABLES]
        self._start = self._norm(weights, "embeddings.LayerNorm")
        self._layers = [self._layer(weights, f"encoder.layer.{index}.") for index in range(LAYERS)]

    def token_states(self, windows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """The last hidden states of each window of token ids, (tokens, 384), in order."""
        import torch

        states: list[NDArray[np.float32]] = [np.empty((0, DIMENSION), np.float32)] * len(windows)
        lengths = [len(window) for window in windows]
        for batch in [[i] for i in range(len(windows))] if self._one_by_one else _batches(lengths):
            longest = max(lengths[i] for i in batch)
            ids = torch.zeros((len(batch), longest), dtype=torch.long)
            for row, i in enumerate(batch):
                ids[row, : lengths[i]] = torch.tensor(windows[i])
            sizes = torch.tensor([lengths[i] for i in batch])
            seen = None if bool((sizes == longest).all()) else torch.arange(longest) < sizes[:, None]
            with torch.inference_mode():
                hidden = self._forward(ids, seen).cpu().numpy()
            for row, i in enumerate(batch):
                states[i] = hidden[row, : lengths[i]]
        return states

    def _forward(self, ids: Any, seen: Any) -> Any:
        words, places, kinds = self._tables
        mask = None if seen is None else seen[:, None, None, :].to(self.device)
        x = self._start(words[ids.to(self.device)] + places[: ids.shape[1]] + kinds[0])
        for layer in self._layers:
            x = layer(x, mask)
        return x

    def _layer(self, weights: EncoderWeights, at: str) -> Callable[[Any, Any], Any]:
        """One layer: states (batch, length, 384) and who is seen in, states out."""
        from torch.nn import functional

        joint = self._product(weights, *(f"{at}attention.self.{part}" for part in ("query", "key", "value")))
        gather = self._product(weights, f"{at}attention.output.dense")
        widen = self._product(weights, f"{at}intermediate.dense", gelu=True)
        narrow = self._product(weights, f"{at}output.dense")
        attended = self._norm(weights, f"{at}attention.output.LayerNorm")
        done = self._norm(weights, f"{at}output.LayerNorm")

        def run(x: Any, mask: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = joint(x).view(batch, length, 3, HEADS, DIMENSION // HEADS).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = attended(x + gather(y.transpose(1, 2).reshape(batch, length, DIMENSION)))
            return done(x + narrow(widen(x)))

        return run

    def _product(self, weights: EncoderWeights, *names: str, gelu: bool = False) -> _Step:
        """Several products of the same states as one."""
        import torch

        matrix, bias = (torch.cat([weights.tensor(f"{n}.{part}") for n in names]) for part in ("weight", "bias"))
        return self._make_linear(matrix.to(self.device), bias.to(self.device), gelu)

    def _norm(self, weights: EncoderWeights, name: str) -> _Step:
        from torch.nn import functional

        scale, shift = (weights.tensor(f"{name}.{part}").to(self.device) for part in ("weight", "bias"))
        return lambda x: functional.layer_norm(x, (DIMENSION,), scale, shift, 1e-12)


def _linear(weight: Any, bias: Any, gelu: bool) -> _Step:
    """x -> x @ weight.T + bias, through a gelu where asked."""
    from torch.nn import functional

    if gelu:
        return lambda x: functional.gelu(functional.linear(x, weight, bias))
    return lambda x: functional.linear(x, weight, bias)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices grouped by similar length, so that little padding is computed."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[i] <= _BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
