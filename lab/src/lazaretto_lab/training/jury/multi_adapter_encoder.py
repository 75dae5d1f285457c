"""One text encoder with many adapters, trained and scored together: all read the same batches at once.

One by one, such small models leave a GPU idle between kernels. The layers that no adapter touches are computed once
for all of them. transformers' encoder cannot do either, hence this small one of our own; a test holds it equal to
transformers' to four decimals. What is trained here is read by ``lazaretto.models.minilm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.errors import MissingExtra
from lazaretto.models.minilm.weights import DIMENSION, HEADS, LAYERS


class MultiAdapterEncoder:
    """all-MiniLM-L6-v2 with ``count`` versions of the layers from ``first_layer`` on."""

    def __init__(self, folder: Path, count: int, first_layer: int, device: str = "cpu") -> None:
        try:
            import torch
            from safetensors.torch import load_file
        except ImportError:
            raise MissingExtra("the embedded jury", "models") from None
        self.count, self.first_layer, self.device = count, first_layer, device
        self.precision: Any = torch.float32
        self.int8 = False
        """Whether products are rounded as ``models.minilm.session`` does: to score many seats as they will be run."""
        stored = load_file(folder / "model.safetensors")
        self.frozen = {k: v.float().to(device) for k, v in stored.items() if v.is_floating_point()}

    def weight(self, name: str) -> Any:
        """A layer's weights, (count or 1, out, in); overridden by whoever adapts them."""
        return self.frozen[f"{name}.weight"][None]

    def states(self, ids: Any, mask: Any) -> Any:
        """The last hidden states: (count, batch, length, 384)."""
        import torch

        frozen, (batch, length) = self.frozen, ids.shape
        with torch.no_grad():
            x = (
                frozen["embeddings.word_embeddings.weight"][ids]
                + frozen["embeddings.position_embeddings.weight"][:length]
            )
            x = x + frozen["embeddings.token_type_embeddings.weight"][0]
            x = self._norm(x.to(self.precision), "embeddings.LayerNorm").reshape(1, batch * length, DIMENSION)
            for layer in range(self.first_layer):
                x = self._layer(x, layer, mask)
        x = x.expand(self.count, -1, -1)
        for layer in range(self.first_layer, LAYERS):
            x = self._layer(x, layer, mask)
        return x.view(self.count, batch, length, DIMENSION)

    def pool(self, ids: Any, mask: Any) -> Any:
        """Mean token states: (count, batch, 384)."""
        share = (mask.float() / mask.sum(1, keepdim=True))[None, :, :, None]
        return (self.states(ids, mask).float() * share).sum(2)

    def _layer(self, x: Any, layer: int, mask: Any) -> Any:
        import torch
        from torch.nn import functional

        (batch, length), count, at = mask.shape, x.shape[0], f"encoder.layer.{layer}."
        parts = [f"{at}attention.self.{part}" for part in ("query", "key", "value")]
        weights = torch.cat([self.weight(p).expand(count, -1, -1) for p in parts], 1)
        joint = self._affine(x, weights, torch.cat([self.frozen[f"{p}.bias"] for p in parts]), mask)
        q, k, v = joint.view(count * batch, length, 3, HEADS, DIMENSION // HEADS).permute(2, 0, 3, 1, 4)
        seen = mask.bool()[None].expand(count, -1, -1).reshape(count * batch, 1, 1, length)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        y = y.transpose(1, 2).reshape(count, batch * length, DIMENSION)
        x = self._norm(x + self._dense(y, f"{at}attention.output.dense", mask), f"{at}attention.output.LayerNorm")
        y = functional.gelu(self._dense(x, f"{at}intermediate.dense", mask))
        y = self._dense(y, f"{at}output.dense", mask)
        return self._norm(x + y, f"{at}output.LayerNorm")

    def _dense(self, x: Any, name: str, mask: Any) -> Any:
        return self._affine(x, self.weight(name), self.frozen[f"{name}.bias"], mask)

    def _affine(self, x: Any, weight: Any, bias: Any, mask: Any) -> Any:
        import torch

        if self.int8:
            x, weight = _rounded_input(x, mask), _rounded_weight(weight)
        turned = weight.to(self.precision).transpose(1, 2).expand(x.shape[0], -1, -1)
        return torch.baddbmm(bias.to(self.precision)[None, None], x, turned)

    def _norm(self, x: Any, name: str) -> Any:
        from torch.nn import functional

        weight, bias = (self.frozen[f"{name}.{part}"].to(self.precision) for part in ("weight", "bias"))
        return functional.layer_norm(x, (DIMENSION,), weight, bias, 1e-12)


def _rounded_weight(weight: Any) -> Any:
    """Weights as eight-bit numbers with a scale per row."""
    scale = (weight.abs().amax(2, keepdim=True) / 127).clamp(min=1e-8)
    return (weight / scale).round().clamp(-127, 127) * scale


def _rounded_input(x: Any, mask: Any) -> Any:
    """States (count, batch x length, width) as eight-bit numbers with a scale per window; padding does not count."""
    (batch, length), (count, _, width) = mask.shape, x.shape
    parts = x.reshape(count, batch, length, width)
    seen = parts * mask[None, :, :, None]
    low, high = seen.amin((2, 3), keepdim=True), seen.amax((2, 3), keepdim=True)
    scale = ((high - low) / 254).clamp(min=1e-8)
    zero = (-low / scale).round()
    return ((parts / scale + zero).round().clamp(0, 254) - zero).mul(scale).reshape(x.shape)


def pad(rows: Sequence[Sequence[int]], device: str, step: int = 16) -> tuple[Any, Any]:
    """Token ids and their mask, padded; a multiple of 16 keeps a GPU's attention on its fast path."""
    import torch

    longest = max(len(r) for r in rows)
    ids = np.zeros((len(rows), -(-longest // step) * step), dtype=np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    tensor = torch.from_numpy(ids).to(device)
    return tensor, (tensor != 0).long()
