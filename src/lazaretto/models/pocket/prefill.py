"""Reading prompts before the first word is said: all in one padded batch, or one by one over remembered beginnings.

An accelerator wants few large steps: prompts are padded to one length and read together. A processor core wants work
that stays in its cache: prompts are read one at a time, without padding, and what two prompts share (who the agent is
and what was said last begins its plan and its question alike) is read once. Read alone, a beginning is the same to the
last bit whichever prompts stand beside it, so a run that was interrupted continues exactly.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lazaretto.models.pocket.backbone import PATCHES
from lazaretto.models.pocket.networks import Cache, Language

KEPT_TOKENS = 30_000
"""How many tokens of beginnings are remembered: about 10 kB each in float32 with the shipped size."""


@dataclass(frozen=True)
class Prompt:
    """One prompt as tokens; a picture stands as one ``<picture>`` token that is widened when it is run."""

    tokens: tuple[int, ...]
    patches: Tensor | None = None
    """(49, features) of the picture, where there is one."""


@dataclass
class Reading:
    """Prompts that were read: what is needed to say the next word."""

    hidden: Tensor
    """(n, width): the state after each prompt's last token."""
    cache: Cache
    """Buffers with room for what will be said; prompts end at ``length``."""
    padding: Tensor
    """(n,): unused places before each prompt."""
    length: int


def widen(tokens: Sequence[int], picture: int) -> list[int]:
    """Every picture token repeated for each of the picture's cells."""
    return [t for token in tokens for t in ([token] * PATCHES if token == picture else [token])]


def visible(padding: Tensor, start: int, length: int) -> Tensor:
    """(n, 1, length - start, length): which positions each position from ``start`` on may look at."""
    index = torch.arange(length, device=padding.device)
    causal = index[None, None, :] <= index[None, start:, None]
    real = index[None, None, :] >= padding[:, None, None]
    # a padded row still looks at itself: a row of nothing would turn into not-a-number
    itself = index[None, None, :] == index[None, start:, None]
    return ((causal & real) | itself).unsqueeze(1)


def read_together(language: Language, prompts: Sequence[Prompt], picture: int, room: int) -> Reading:
    """All prompts in one padded batch."""
    device = language.words.weight.device
    rows = [widen(prompt.tokens, picture) for prompt in prompts]
    length = max(map(len, rows))
    tokens = torch.tensor([[0] * (length - len(row)) + row for row in rows], device=device)
    padding = torch.tensor([length - len(row) for row in rows], device=device)
    seen = [prompt.patches for prompt in prompts if prompt.patches is not None]
    pictures = language.see(torch.stack(seen).to(device, language.words.weight.dtype)).flatten(0, 1) if seen else None
    x = language.embed(tokens, pictures, picture)
    positions = (torch.arange(length, device=device)[None] - padding[:, None]).clamp(min=0)
    cache = language.roomy(len(rows), length + room)
    hidden, cache = language.run(x, positions, visible(padding, 0, length), cache, at=0, wanted=1)
    return Reading(hidden[:, -1], cache, padding, length)


class Beginnings:
    """Prompts read one by one; their beginnings up to each of the first two ``cuts`` are remembered."""

    def __init__(self, language: Language, picture: int, cuts: frozenset[int]) -> None:
        self.language, self.picture, self.cuts = language, picture, cuts
        self._kept: OrderedDict[tuple[int, ...], Cache] = OrderedDict()
        self._tokens = 0

    def read(self, prompts: Sequence[Prompt], room: int) -> Reading:
        """Each prompt alone, then all side by side, their ends aligned, so that they speak as one batch."""
        read = [self._one(prompt) for prompt in prompts]
        lengths = [cache[0][0].shape[2] for _, cache in read]
        length = max(lengths)
        buffers = self.language.roomy(len(read), length + room)
        for row, (_, cache) in enumerate(read):
            for (keys, values), (k, v) in zip(buffers, cache, strict=True):
                keys[row, :, length - lengths[row] : length] = k[0]
                values[row, :, length - lengths[row] : length] = v[0]
        hidden = torch.cat([hidden for hidden, _ in read])
        return Reading(hidden, buffers, torch.tensor([length - own for own in lengths]), length)

    def _one(self, prompt: Prompt) -> tuple[Tensor, Cache]:
        spots = [place for place, token in enumerate(prompt.tokens) if token in self.cuts and place][:2]
        past: Cache | None = None
        done = 0
        for spot in spots:
            past = self._beginning(prompt.tokens[:spot], done, past)
            done = spot
        hidden, cache = self._run(prompt.tokens[done:], prompt.patches, past, wanted=1)
        return hidden[:, -1], cache

    def _beginning(self, tokens: tuple[int, ...], done: int, past: Cache | None) -> Cache:
        known = self._kept.get(tokens)
        if known is not None:
            self._kept.move_to_end(tokens)
            return known
        _, cache = self._run(tokens[done:], None, past, wanted=0)
        self._kept[tokens] = cache
        self._tokens += len(tokens)
        while self._tokens > KEPT_TOKENS:
            gone, _ = self._kept.popitem(last=False)
            self._tokens -= len(gone)
        return cache

    def _run(
        self, tokens: tuple[int, ...], patches: Tensor | None, past: Cache | None, wanted: int
    ) -> tuple[Tensor, Cache]:
        language = self.language
        row = torch.tensor([widen(tokens, self.picture)])
        weight = language.words.weight
        seen = patches[None].to(weight.device, weight.dtype) if patches is not None else None
        pictures = language.see(seen).flatten(0, 1) if seen is not None else None
        x = language.embed(row, pictures, self.picture)
        start, count = (past[0][0].shape[2] if past is not None else 0), row.shape[1]
        index = torch.arange(start + count)
        mask = (index[None, :] <= index[start:, None])[None, None] if start else None
        return language.run(x, index[None, start:], mask, past, wanted=wanted)
