"""Greedy answers of a causal language model to many prompts at once.

A prompt whose answer is done leaves, and the next one takes its place. All answers under way share one cache of keys
and values in which they are aligned at their last word, so one step of the model writes a word of each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import DynamicCache, DynamicLayer

ATTENTION = "lazaretto_grouped"
"""Name under which ``grouped_attention`` is known to transformers."""
_ROOM = 128
"""Words that a new cache has room for before it is made anew."""
_BLOCK = 8
"""Steps before anybody looks whether an answer is done: looking makes the processor wait for the GPU."""
_AT_ONCE = 24_000
"""Words of prompts, padding included, that are read in one pass."""


def grouped_attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **_: Any
) -> tuple[Any, None]:
    """Attention of grouped queries. One new word reads keys and values as they lie, where the library's own way would
    first write them out once for each query of a group."""
    rows, heads, length, size = query.shape
    groups = key.shape[1]
    if length > 1:
        keys, values = (part.repeat_interleave(heads // groups, dim=1) for part in (key, value))
        found = scaled_dot_product_attention(query, keys, values, attn_mask=attention_mask, scale=scaling)
        return found.transpose(1, 2).contiguous(), None
    together = query.reshape(rows, groups, heads // groups, size)
    scores = torch.matmul(together, key.transpose(2, 3)) * (size**-0.5 if scaling is None else scaling)
    scores = scores.masked_fill(~attention_mask, float("-inf"))
    shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(shares, value).reshape(rows, heads, 1, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, grouped_attention)


class _Shared(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer with room for more words, written in place."""

    def hold(self, keys: Any, values: Any, filled: int) -> None:
        """Take these; ``filled`` words of them are there."""
        self.keys, self.values, self.filled, self.is_initialized = keys, values, filled, True

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Write the next words behind those that are there."""
        end = self.filled + key_states.shape[2]
        self.keys[:, :, self.filled : end] = key_states
        self.values[:, :, self.filled : end] = value_states
        self.filled = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """Words that are there."""
        return self.filled


@dataclass(slots=True)
class Asked:
    """One prompt as numbers, and how long its answer may be."""

    key: int
    prompt: Sequence[int]
    most: int
    made: list[int] = field(default_factory=list)

    @property
    def cells(self) -> int:
        """Words of it in the cache: all but the last one made."""
        return len(self.prompt) + len(self.made) - 1


class Decoder:
    """Answers under way. ``ends`` are the words that end an answer, ``slots`` how many answers share a step."""

    def __init__(self, model: Any, ends: Collection[int], slots: int) -> None:
        self._model, self._ends, self.slots = model, frozenset(ends), slots
        self._device = next(model.parameters()).device
        self.rows: list[Asked] = []
        self._cache = DynamicCache()
        self._mask = self._last = self._places = torch.empty(0)
        self._filled = 0

    @property
    def free(self) -> int:
        """Prompts that can be taken in."""
        return self.slots - len(self.rows)

    def admit(self, asked: Sequence[Asked]) -> None:
        """Read prompts, some at a time, and write the first word of each answer."""
        waiting = sorted(asked, key=lambda one: len(one.prompt))
        while waiting:
            longest, count = len(waiting[-1].prompt), 1
            while count < len(waiting) and (count + 1) * longest <= _AT_ONCE:
                count += 1
            self._read(waiting[-count:])
            del waiting[-count:]

    def forget(self) -> list[Asked]:
        """Give every prompt under way back, without what was made of it."""
        rows, self.rows = self.rows, []
        for row in rows:
            row.made.clear()
        self._cache, self._filled = DynamicCache(), 0
        return rows

    @torch.inference_mode()
    def run(self) -> list[Asked]:
        """Some steps; the prompts whose answers are done leave."""
        if not self.rows:
            return []
        if self._filled + _BLOCK > self._mask.shape[1]:
            self._arrange(list(range(len(self.rows))))
        made = []
        for _ in range(_BLOCK):
            self._mask[:, self._filled] = True
            out = self._model(
                input_ids=self._last[:, None],
                attention_mask=self._mask[:, None, None, : self._filled + 1],
                position_ids=self._places[:, None],
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
            self._last = out.logits[:, -1].argmax(dim=-1)
            self._places = self._places + 1
            self._filled += 1
            made.append(self._last)
        for row, words in zip(self.rows, torch.stack(made, dim=1).tolist(), strict=True):
            row.made += words
        return self._leave()

    @torch.inference_mode()
    def _read(self, asked: Sequence[Asked]) -> None:
        length = max(len(one.prompt) for one in asked)
        ids = torch.tensor([[0] * (length - len(one.prompt)) + list(one.prompt) for one in asked])
        there = torch.tensor([[False] * (length - len(one.prompt)) + [True] * len(one.prompt) for one in asked])
        ids, there = ids.to(self._device), there.to(self._device)
        square = torch.ones(length, length, dtype=torch.bool, device=self._device)
        # padding looks at itself: a word that looks at nothing has no finite value
        seen = (square.tril() & there[:, None, None, :]) | torch.eye(length, dtype=torch.bool, device=self._device)
        places = (there.long().cumsum(dim=1) - 1).clamp(min=0)
        cache = DynamicCache()
        out = self._model(
            input_ids=ids, attention_mask=seen, position_ids=places, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        last = out.logits[:, -1].argmax(dim=-1)
        for one, word in zip(asked, last.tolist(), strict=True):
            one.made.append(word)
        self._arrange(list(range(len(self.rows))), asked, cache, there, last, places[:, -1] + 1)

    def _leave(self) -> list[Asked]:
        """Take out what is done, its answer cut at its end."""
        done, left = [], []
        for place, row in enumerate(self.rows):
            end = next((n for n, word in enumerate(row.made) if word in self._ends), None)
            if end is None and len(row.made) < row.most:
                left.append(place)
                continue
            row.made = row.made[: row.most if end is None else min(end, row.most)]
            done.append(row)
        if done:
            self._arrange(left)
        return done

    def _arrange(self, keep: Sequence[int], new: Sequence[Asked] = (), *read: Any) -> None:
        """A cache of the rows that stay and those that are new, all aligned at their last word."""
        cache, there, last, places = read or (None, None, None, None)
        stay = [self.rows[place] for place in keep]
        width = max([row.cells for row in stay] + ([there.shape[1]] if new else []), default=0)
        self.rows = [*stay, *new]
        if not self.rows:
            self._cache, self._filled = DynamicCache(), 0
            return
        index = torch.tensor(keep, dtype=torch.long, device=self._device)
        parts: list[tuple[Any, int, Any]] = [(self._cache, self._filled, index)] if stay else []
        parts += [(cache, there.shape[1], None)] if new else []
        layers = []
        for number in range(len(parts[0][0].layers)):
            layer = _Shared()
            keys, values = (self._joined(parts, number, what, width) for what in ("keys", "values"))
            layer.hold(keys, values, width)
            layers.append(layer)
            for old, _, _ in parts:
                old.layers[number].keys = old.layers[number].values = None
        mask = torch.zeros(len(self.rows), width + _ROOM, dtype=torch.bool, device=self._device)
        lasts, at = [], []
        if stay:
            kept = min(width, self._filled)
            mask[: len(stay), width - kept : width] = self._mask[index, self._filled - kept : self._filled]
            lasts, at = [self._last[index]], [self._places[index]]
        if new:
            mask[len(stay) :, width - there.shape[1] : width] = there
            lasts, at = [*lasts, last], [*at, places]
        self._cache = DynamicCache()
        self._cache.layers = layers
        self._mask, self._filled = mask, width
        self._last, self._places = torch.cat(lasts), torch.cat(at)

    def _joined(self, parts: Sequence[tuple[Any, int, Any]], number: int, what: str, width: int) -> Any:
        """One layer's keys or values of all parts, with room for more; what lies left of every prompt is cut off."""
        some = getattr(parts[0][0].layers[number], what)
        made = torch.zeros(
            len(self.rows), some.shape[1], width + _ROOM, some.shape[3], dtype=some.dtype, device=some.device
        )
        row = 0
        for cache, filled, index in parts:
            held = getattr(cache.layers[number], what)
            kept = min(width, filled)
            held = held[:, :, filled - kept : filled] if index is None else held[index, :, filled - kept : filled]
            made[row : row + held.shape[0], :, width - kept : width] = held
            row += held.shape[0]
        return made
