"""all-MiniLM-L6-v2 for reading on a CPU: products in eight bits, plain or with one of our adapters.

Weights are rounded to eight bits with a scale per row, states with a scale per window, sums and everything between
the products stay in full precision. Windows are read one by one, so that what a window scores never depends on what
was read beside it. ``stacked`` rounds in the same way when it scores the seats of a cross-validation. Where a machine
has no exact eight-bit products, full ones are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.minilm import DIMENSION, Adapter, adapter_changes, minilm_folder, window_texts
from lazaretto.models.protocol import Vectors
from lazaretto.models.stacked import LAYERS

_HEADS = 12
_SWIFT_TOKENS = 128
"""What the encoder's authors trained it on; for finding cases, reading on is not worth its time (research/LOG.md)."""


class EightBitEncoder:
    """The encoder with an adapter merged in; an empty adapter is the plain encoder."""

    def __init__(self, adapter: Adapter) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtra("the embedded models", "models") from None
        self._frozen = _frozen()
        changes = {name: torch.from_numpy(change) for name, change in adapter_changes(adapter)}
        unknown = sorted(set(changes) - set(self._frozen))
        if unknown:
            raise ModelUnavailable(f"an adapter names {unknown[0]!r}, which all-MiniLM-L6-v2 does not have")
        touched = {int(name.split(".")[2]) for name in changes}
        self._layers = [_layer(changes, i) if i in touched else _plain_layer(i) for i in range(LAYERS)]

    def token_states(self, row: Sequence[int]) -> NDArray[np.float32]:
        """The last hidden states of one window of token ids: (tokens, 384)."""
        import torch

        with torch.inference_mode():
            x = self._embedded(row)
            for layer in self._layers:
                x = layer(x)
            states: NDArray[np.float32] = x.numpy()
        return states

    def _embedded(self, row: Sequence[int]) -> Any:
        import torch

        words, places, kind = (
            self._frozen[f"embeddings.{table}.weight"]
            for table in ("word_embeddings", "position_embeddings", "token_type_embeddings")
        )
        return _norm(self._frozen, "embeddings.LayerNorm", words[torch.tensor(row)] + places[: len(row)] + kind[0])


class SwiftMiniLM:
    """The plain encoder as a ``TextEmbedder``: the beginning of each text, as a unit vector."""

    name = "all-MiniLM-L6-v2-8bit-128"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._encoder = EightBitEncoder({})

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text."""
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, (window,) in zip(rows, window_texts(texts), strict=True):
            ids = window.ids if len(window.ids) <= _SWIFT_TOKENS else (*window.ids[: _SWIFT_TOKENS - 1], window.ids[-1])
            row += self._encoder.token_states(ids).mean(axis=0)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows


@cache
def swift_minilm() -> SwiftMiniLM:
    """One per process."""
    return SwiftMiniLM()


@cache
def _frozen() -> Mapping[str, Any]:
    """The encoder's own weights in full precision, loaded once."""
    from safetensors.torch import load_file

    stored = load_file(minilm_folder() / "model.safetensors")
    return {name: tensor for name, tensor in stored.items() if tensor.is_floating_point()}


@cache
def _plain_layer(index: int) -> Callable[[Any], Any]:
    return _layer({}, index)


def _layer(changes: Mapping[str, Any], index: int) -> Callable[[Any], Any]:
    """One layer, with what is added to its weights: states of a window in, states out."""
    import torch
    from torch.nn import functional

    frozen = _frozen()
    at = f"encoder.layer.{index}."

    def product(*names: str, bend: str = "none") -> Callable[[Any], Any]:
        weights = [frozen[f"{at}{n}.weight"] + changes.get(f"{at}{n}.weight", 0.0) for n in names]
        return _product(torch.cat(weights), torch.cat([frozen[f"{at}{n}.bias"] for n in names]), bend)

    joint = product("attention.self.query", "attention.self.key", "attention.self.value")
    widen = product("intermediate.dense", bend="gelu")
    gather, narrow = product("attention.output.dense"), product("output.dense")

    def run(x: Any) -> Any:
        q, k, v = joint(x).view(1, len(x), 3, _HEADS, DIMENSION // _HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(len(x), DIMENSION)
        x = _norm(frozen, f"{at}attention.output.LayerNorm", x + gather(seen))
        return _norm(frozen, f"{at}output.LayerNorm", x + narrow(widen(x)))

    return run


def _norm(frozen: Mapping[str, Any], name: str, x: Any) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, (DIMENSION,), frozen[f"{name}.weight"], frozen[f"{name}.bias"], 1e-12)


def _product(weight: Any, bias: Any, bend: str = "none") -> Callable[[Any], Any]:
    """x -> x @ weight.T + bias, bent by ``bend`` (none or gelu): in eight bits where this machine can."""
    from torch.nn import functional

    if eight_bits_work():
        return _eight_bit_product(weight, bias, bend)
    if bend == "gelu":
        return lambda x: functional.gelu(functional.linear(x, weight, bias))
    return lambda x: functional.linear(x, weight, bias)


def _eight_bit_product(weight: Any, bias: Any, bend: str) -> Callable[[Any], Any]:
    import torch

    scale = (weight.abs().amax(1) / 127).clamp(min=1e-8)
    packed = torch.ops.onednn.qlinear_prepack((weight / scale[:, None]).round().to(torch.int8), None)
    nothing = torch.zeros(len(scale), dtype=torch.int32)
    multiply = torch.ops.onednn.qlinear_pointwise.default

    def run(x: Any) -> Any:
        low, high = (end.item() for end in torch.aminmax(x))
        low, high = min(low, 0.0), max(high, 0.0)
        step = max((high - low) / 254, 1e-8)
        zero = round(-low / step) - 127
        whole = x.mul(1 / step).add_(zero).round_().to(torch.int8)
        return multiply(whole, step, zero, packed, scale, nothing, bias, 1.0, 0, torch.float32, bend, [], "none")

    return run


@cache
def eight_bits_work() -> bool:
    """Whether torch's eight-bit products exist here and are exact: some processors overflow in the sums."""
    import torch

    weight, x = torch.full((16, 64), 127.0), torch.full((4, 64), 255.0)
    x[:, 0] = 0.0
    try:
        found = _eight_bit_product(weight, torch.zeros(16), "none")(x)
    except (RuntimeError, NotImplementedError, AttributeError):
        return False
    return bool(torch.allclose(found, x @ weight.T))
