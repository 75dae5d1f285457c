"""Reading prompts before the first word is said: all in one padded batch, or packed over remembered beginnings.

An accelerator wants few large steps: prompts are padded to one length and read together. A processor wants no padding
and work that stays in its cache: prompts are laid one after another, so many at a time, and what two prompts share (who
the agent is and what was said last begins its plan and its question alike) is read once.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lazaretto_lab.pocket.backbone import PATCHES
from lazaretto_lab.pocket.networks import Cache, Language, Part

KEPT_TOKENS = 60_000
"""How many tokens of beginnings are remembered: about 10 kB each in float32 with the shipped size. A round of
rehearsals needs 45,000 to find, when it asks, what it read when it planned."""

PACKED_TOKENS = 1024
"""How many places are run at once: what lies between two layers, 4 kB each, should not leave the processor's cache."""


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
    """Prompts read without padding; their beginnings up to each of the first two ``cuts`` are remembered."""

    def __init__(self, language: Language, picture: int, cuts: frozenset[int]) -> None:
        self.language, self.picture, self.cuts = language, picture, cuts
        self._kept: OrderedDict[tuple[int, ...], Cache] = OrderedDict()
        self._tokens = 0

    def read(self, prompts: Sequence[Prompt], room: int) -> Reading:
        """All prompts side by side, their ends aligned, so that they speak as one batch."""
        known: dict[tuple[int, ...], Cache] = {}
        spots = [[at for at, token in enumerate(p.tokens) if token in self.cuts and at][:2] for p in prompts]
        for depth in range(max(map(len, spots), default=0)):
            self._learn({p.tokens[: s[depth]]: s[depth - 1] if depth else 0
                         for p, s in zip(prompts, spots, strict=True) if len(s) > depth}, known)  # fmt: skip
        done = [own[-1] if own else 0 for own in spots]
        lengths = [len(p.tokens) + (PATCHES - 1) * (p.patches is not None) for p in prompts]
        length = max(lengths)
        buffers = self.language.roomy(len(prompts), length + room)
        tails: list[_Text] = []
        for row, (prompt, begun) in enumerate(zip(prompts, done, strict=True)):
            own = slice(length - lengths[row], length)
            for both in buffers:
                for held in both:
                    held[row, :, : own.start] = 0  # nobody looks there, but nothing times not-a-number is not nothing
            views = [(keys[row : row + 1, :, own], values[row : row + 1, :, own]) for keys, values in buffers]
            tails.append(_Text(prompt.tokens[begun:], prompt.patches, known.get(prompt.tokens[:begun]), views))
        hidden = torch.cat([self._run(group, wanted=1) for group in _groups(tails)])
        return Reading(hidden, buffers, torch.tensor([length - own for own in lengths]), length)

    def _learn(self, beginnings: Mapping[tuple[int, ...], int], known: dict[tuple[int, ...], Cache]) -> None:
        """Put beginnings into ``known``, each with how much of it is known already; those nobody remembers are read."""
        fresh: list[_Text] = []
        for tokens, done in beginnings.items():
            kept = self._kept.get(tokens)
            if kept is not None:
                self._kept.move_to_end(tokens)
                known[tokens] = kept
            else:
                known[tokens] = self.language.roomy(1, len(tokens))
                fresh.append(_Text(tokens[done:], None, known.get(tokens[:done]), known[tokens]))
                self._kept[tokens] = known[tokens]
                self._tokens += len(tokens)
        for group in _groups(fresh):
            self._run(group, wanted=0)
        while self._tokens > KEPT_TOKENS:
            gone, _ = self._kept.popitem(last=False)
            self._tokens -= len(gone)

    def _run(self, texts: Sequence[_Text], wanted: int) -> Tensor:
        language, parts, places, start = self.language, [], [], 0
        for text in texts:
            whole = text.buffers[0][0].shape[2]
            before = text.past[0][0].shape[2] if text.past is not None else 0
            for (keys, values), (k, v) in zip(text.buffers, text.past or (), strict=False):
                keys[:, :, :before], values[:, :, :before] = k, v
            index = torch.arange(whole)
            mask = torch.where(index[None, :] <= index[before:, None], 0.0, -torch.inf)
            parts.append(Part(start, start + whole - before, text.buffers, before, mask))
            places.append(index[before:])
            start += whole - before
        row = torch.tensor([[token for text in texts for token in widen(text.tokens, self.picture)]])
        seen = [text.patches for text in texts if text.patches is not None]
        pictures = language.see(torch.stack(seen).to(language.words.weight.dtype)).flatten(0, 1) if seen else None
        x = language.embed(row, pictures, self.picture)
        return language.run_packed(x, torch.cat(places)[None], parts, wanted)


@dataclass(frozen=True)
class _Text:
    """A piece to read: what it is, what came before it, and where its keys and values go."""

    tokens: tuple[int, ...]
    patches: Tensor | None
    past: Cache | None
    buffers: Cache

    @property
    def length(self) -> int:
        return self.buffers[0][0].shape[2] - (self.past[0][0].shape[2] if self.past is not None else 0)


def _groups(texts: Sequence[_Text]) -> Iterator[list[_Text]]:
    """Texts in order, as many at a time as stay in a processor's cache."""
    group: list[_Text] = []
    for text in texts:
        if group and sum(one.length for one in group) + text.length > PACKED_TOKENS:
            yield group
            group = []
        group.append(text)
    if group:
        yield group
