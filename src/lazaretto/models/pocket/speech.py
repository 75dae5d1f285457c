"""Greedy speech in batches: prompts with and without pictures go in, token lists come out.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lazaretto.models.pocket.networks import Cache, Language
from lazaretto.models.pocket.prefill import Beginnings, Prompt, Reading, read_together, visible
from lazaretto.models.pocket.tokenizer import PICTURE, WordTokenizer


def picture_prompt(tokenizer: WordTokenizer, text: str, tasks: Sequence[str], has_picture: bool) -> tuple[int, ...]:
    """Tokens of a prompt text; the picture is placed after persona and history, before the first of ``tasks``.

    There it lets everything before it be computed once and used again, whatever the picture.
    """
    tokens = tokenizer.encode(text)
    if not has_picture:
        return tuple(tokens)
    marks = {tokenizer.ids[task] for task in tasks}
    spot = next((i for i, token in enumerate(tokens) if token in marks), len(tokens))
    return (*tokens[:spot], tokenizer.ids[PICTURE], *tokens[spot:])


class Speaker:
    """Says what the language model says to a batch of prompts, greedily."""

    def __init__(self, language: Language, tokenizer: WordTokenizer, cuts: Sequence[str] = ()) -> None:
        """``cuts``: phrases before which a prompt's beginning is worth remembering."""
        self.language, self.tokenizer = language, tokenizer
        self.picture = tokenizer.ids[PICTURE]
        marks = frozenset(tokenizer.ids[cut] for cut in cuts if cut in tokenizer.ids)
        self._beginnings = Beginnings(language, self.picture, marks | {self.picture})

    @torch.no_grad()
    def speak(self, prompts: Sequence[Prompt], max_tokens: int) -> list[list[int]]:
        """Tokens said to each prompt, without the end token."""
        longest = max(len(p.tokens) + 49 * (p.patches is not None) for p in prompts)
        room = min(max_tokens, self.language.size.limit - longest)
        if self.language.words.weight.device.type == "cpu":
            reading = self._beginnings.read(prompts, room)
        else:
            reading = read_together(self.language, prompts, self.picture, room)
        said = self._say(reading, room)
        end = self.tokenizer.end
        return [row[: row.index(end)] if end in row else row for row in said]

    def _say(self, reading: Reading, room: int) -> list[list[int]]:
        """Word after word; rows that have ended leave the batch when half of it has."""
        language, end = self.language, self.tokenizer.end
        said: list[list[int]] = [[] for _ in reading.padding]
        speaking = list(range(len(said)))
        hidden, cache, padding = reading.hidden, reading.cache, reading.padding
        for step in range(room):
            token = language.logits(hidden).argmax(dim=-1)
            for row, word in zip(speaking, token.tolist(), strict=True):
                if not said[row] or said[row][-1] != end:
                    said[row].append(word)
            going = [i for i, row in enumerate(speaking) if said[row][-1] != end]
            if step == room - 1 or not going:
                break
            if 2 * len(going) <= len(speaking):
                kept = torch.tensor(going, device=padding.device)
                speaking = [speaking[i] for i in going]
                token, padding = token[kept], padding[kept]
                cache = _rows(cache, kept)
            at = reading.length + step
            states, cache = language.run(
                language.words(token)[:, None], (at - padding)[:, None], visible(padding, at, at + 1), cache, at=at
            )
            hidden = states[:, -1]
        return said


def _rows(cache: Cache, kept: Tensor) -> Cache:
    return [(keys[kept], values[kept]) for keys, values in cache]
