"""The parts we train: the picture head of pocket-clip and the language model of pocket-vlm.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from lazaretto_lab.pocket.backbone import PATCH_WIDTH

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values per layer."""


class ClipHead(nn.Module):
    """Patches of a picture -> a unit vector in the text encoder's space."""

    def __init__(self, width: int = 256, dimension: int = 384) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(PATCH_WIDTH)
        self.look = nn.Linear(PATCH_WIDTH, 4)
        self.hidden = nn.Linear(PATCH_WIDTH * 5, width)
        self.out = nn.Linear(width, dimension)
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, patches: Tensor) -> Tensor:
        x = self.norm(patches)
        attention = self.look(x).softmax(dim=1)
        looked = torch.einsum("nph,npc->nhc", attention, x).flatten(1)
        pooled = torch.cat([x.mean(dim=1), looked], dim=1)
        return functional.normalize(self.out(functional.gelu(self.hidden(pooled))), dim=-1)


@dataclass(frozen=True, slots=True)
class LanguageSize:
    """How large the language model is."""

    vocabulary: int
    width: int = 256
    layers: int = 5
    heads: int = 8
    limit: int = 512
    """Longest sequence, picture included."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of several texts that are run side by side without padding."""

    start: int
    stop: int
    """Its places among all."""
    buffers: Cache
    """(1, heads, before + stop - start, size) per layer: what came before it, and room for itself."""
    before: int
    mask: Tensor
    """(stop - start, before + stop - start), added to attention: which places each of its places may look at."""


def _rotary(limit: int, size: int) -> Tensor:
    rates = 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))
    angles = torch.outer(torch.arange(limit).float(), rates)
    return torch.stack([angles.cos(), angles.sin()])


def _rotate(x: Tensor, turn: Tensor) -> Tensor:
    """``x`` (..., n, heads, t, size); ``turn`` (2, n, 1, t, size/2)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = turn[0].to(x.dtype), turn[1].to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class _Layer(nn.Module):
    def __init__(self, size: LanguageSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.mix = nn.Linear(size.width, size.width, bias=False)
        self.up = nn.Linear(size.width, 4 * size.width, bias=False)
        self.down = nn.Linear(4 * size.width, size.width, bias=False)

    def forward(
        self,
        x: Tensor,
        turn: Tensor,
        mask: Tensor | None,
        past: tuple[Tensor, Tensor] | None,
        at: int | None,
        wanted: int | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """``wanted``: how many of the last places are needed after this layer; None for all."""
        n, t, width = x.shape
        q, k, v = self._looking(x, turn)
        kept = (k, v)
        if past is not None and at is not None:
            past[0][:, :, at : at + t], past[1][:, :, at : at + t] = k, v
            kept, k, v = past, past[0][:, :, : at + t], past[1][:, :, : at + t]
        elif past is not None:
            k, v = kept = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        if wanted is not None and wanted < t:
            x, q = x[:, t - wanted :], q[:, :, t - wanted :]
            mask = mask[..., t - wanted :, :] if mask is not None else None
            if not wanted:
                return x, kept
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and q.shape[2] == t)
        return self._thinking(x, y.transpose(1, 2).reshape(n, -1, width)), kept

    def packed(self, x: Tensor, turn: Tensor, parts: Sequence[Part], index: int, wanted: int | None) -> Tensor:
        """``forward`` for texts that stand one after another in ``x`` (1, t, width); each looks at itself alone.

        ``wanted`` 1 leaves the last place of each, 0 nothing but what is kept for the next words, None everything.
        """
        q, k, v = self._looking(x, turn)
        for part in parts:
            keys, values = part.buffers[index]
            keys[:, :, part.before :] = k[:, :, part.start : part.stop]
            values[:, :, part.before :] = v[:, :, part.start : part.stop]
        if wanted is not None:
            lasts = [part.stop - 1 for part in parts] if wanted else []
            x = x[:, lasts]
        if not x.shape[1]:
            return x
        y = torch.empty_like(x).view(x.shape[1], self.heads, -1)
        for number, part in enumerate(parts):
            keys, values = part.buffers[index]
            if wanted is not None:
                looking, mask, place = q[:, :, part.stop - 1 : part.stop], None, slice(number, number + 1)
            else:
                looking, mask, place = q[:, :, part.start : part.stop], part.mask, slice(part.start, part.stop)
            seen = functional.scaled_dot_product_attention(looking, keys, values, attn_mask=mask)
            y[place] = seen[0].transpose(0, 1)
        return self._thinking(x, y.view(x.shape))

    def _looking(self, x: Tensor, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = _rotate(qkv[:2], turn)
        return q, k, qkv[2]

    def _thinking(self, x: Tensor, seen: Tensor) -> Tensor:
        x = x + self.mix(seen)
        return x + cast(Tensor, self.down(functional.relu(self.up(self.norm2(x)))))


class Language(nn.Module):
    """A small causal language model that sees a picture as 49 words in the middle of its prompt."""

    def __init__(self, size: LanguageSize) -> None:
        super().__init__()
        self.size = size
        self.words = nn.Embedding(size.vocabulary, size.width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.eye = nn.Sequential(
            nn.LayerNorm(PATCH_WIDTH),
            nn.Linear(PATCH_WIDTH, size.width),
            nn.GELU(),
            nn.Linear(size.width, size.width),
        )
        self.cells = nn.Parameter(torch.randn(1, 49, size.width) * 0.02)
        self.layers = nn.ModuleList(_Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.register_buffer("turns", _rotary(size.limit, size.width // size.heads), persistent=False)

    def see(self, patches: Tensor) -> Tensor:
        """The picture's 49 words."""
        return cast(Tensor, self.eye(patches) + self.cells)

    def run(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Tensor | None = None,
        past: Cache | None = None,
        at: int | None = None,
        wanted: int | None = None,
    ) -> tuple[Tensor, Cache]:
        """Embedded words -> their hidden states, and the cache to continue from.

        With ``at``, ``past`` holds roomy buffers that are written in place from that position on (no gradients).
        ``wanted`` is how many of the last places' states are needed (None: all): the last layer computes no others.
        """
        turn = cast(Tensor, self.turns)[:, positions].unsqueeze(2)
        if mask is not None and x.device.type == "cpu":  # its kernel would make this of the mask in every layer
            mask = x.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
        cache: Cache = []
        for index, layer in enumerate(self.layers):
            last = wanted if index == len(self.layers) - 1 else None
            x, kept = layer(x, turn, mask, past[index] if past is not None else None, at, last)
            cache.append(kept)
        return cast(Tensor, self.norm(x)), cache

    def run_packed(self, x: Tensor, positions: Tensor, parts: Sequence[Part], wanted: int) -> Tensor:
        """Texts one after another in ``x`` (1, t, width), no gradients: their buffers are filled, and the state of each
        one's last place comes back, (parts, width), where ``wanted`` is 1."""
        turn = cast(Tensor, self.turns)[:, positions].unsqueeze(2)
        for index, layer in enumerate(self.layers):
            last = wanted if index == len(self.layers) - 1 else None
            x = cast(_Layer, layer).packed(x, turn, parts, index, last)
        return cast(Tensor, self.norm(x[0]))

    def roomy(self, rows: int, length: int) -> Cache:
        """Buffers for ``run(..., at=...)`` and for parts; whatever stands in them before it is written."""
        heads, width = self.size.heads, self.size.width // self.size.heads
        shape = (rows, heads, length, width)
        weight = self.words.weight
        return [(weight.new_empty(shape), weight.new_empty(shape)) for _ in self.layers]

    def embed(self, tokens: Tensor, pictures: Tensor | None, picture_token: int) -> Tensor:
        """Tokens (n, t) embedded; pictures' words, row after row, take the place of the picture tokens."""
        x = self.words(tokens)
        if pictures is None:
            return cast(Tensor, x)
        return cast(Tensor, x.masked_scatter((tokens == picture_token).unsqueeze(-1), pictures.to(x.dtype)))

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states -> a score per word of the vocabulary."""
        return hidden @ self.words.weight.t()
