"""Greedy speech in batches: prompts with and without pictures go in, token lists come out.

What is said to a prompt does not depend on which prompts stand beside it. Sums in single precision do, in their last
bits; where that could decide between two words, the sentence is made again in double precision.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from lazaretto_lab.pocket.backbone import PATCHES
from lazaretto_lab.pocket.networks import Cache, Language
from lazaretto_lab.pocket.prefill import Beginnings, Prompt, Reading, read_together, visible
from lazaretto_lab.pocket.tokenizer import PICTURE, WordTokenizer

CLEAR = 1e-3
"""By how much the best word must lead for single precision to be trusted: about a hundred times its rounding."""


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

        self._exact: Language | None = None

    @torch.no_grad()
    def speak(self, prompts: Sequence[Prompt], max_tokens: int) -> list[list[int]]:
        """Tokens said to each prompt, without the end token."""
        limit = self.language.size.limit
        rooms = [min(max_tokens, limit - len(p.tokens) - (PATCHES - 1) * (p.patches is not None)) for p in prompts]
        if self.language.words.weight.device.type == "cpu":
            reading = self._beginnings.read(prompts, max(rooms))
        else:
            reading = read_together(self.language, prompts, self.picture, max(rooms))
        said, clear = self._say(self.language, reading, max(rooms))
        unclear = [row for row, sure in enumerate(clear) if not sure]
        if unclear:
            exact = self._exact = self._exact or copy.deepcopy(self.language).double()
            reading = read_together(exact, [prompts[row] for row in unclear], self.picture, max(rooms))
            for row, words in zip(unclear, self._say(exact, reading, max(rooms))[0], strict=True):
                said[row] = words
        end = self.tokenizer.end
        said = [row[:room] for row, room in zip(said, rooms, strict=True)]
        return [row[: row.index(end)] if end in row else row for row in said]

    def _say(self, language: Language, reading: Reading, room: int) -> tuple[list[list[int]], list[bool]]:
        """Word after word, and whether every word led clearly; rows that have ended leave the batch when half of it
        has."""
        end, last = self.tokenizer.end, language.size.limit - 1
        said: list[list[int]] = [[] for _ in reading.padding]
        clear = [True] * len(said)
        speaking = list(range(len(said)))
        hidden, cache, padding = reading.hidden, reading.cache, reading.padding
        for step in range(room):
            best = language.logits(hidden).topk(2, dim=-1)
            token = best.indices[:, 0]
            leads = (best.values[:, 0] - best.values[:, 1] > CLEAR).tolist()
            for row, word, lead in zip(speaking, token.tolist(), leads, strict=True):
                if not said[row] or said[row][-1] != end:
                    said[row].append(word)
                    clear[row] &= lead
            going = [i for i, row in enumerate(speaking) if said[row][-1] != end]
            if step == room - 1 or not going:
                break
            if 2 * len(going) <= len(speaking):
                kept = torch.tensor(going, device=padding.device)
                speaking = [speaking[i] for i in going]
                token, padding = token[kept], padding[kept]
                cache = _rows(cache, kept)
            at = reading.length + step
            # a row that has filled its room is cut off by the caller; its place only has to exist
            places = (at - padding).clamp(max=last)
            states, cache = language.run(
                language.words(token)[:, None], places[:, None], visible(padding, at, at + 1), cache, at=at
            )
            hidden = states[:, -1]
        return said, clear


def _rows(cache: Cache, kept: Tensor) -> Cache:
    return [(keys[kept], values[kept]) for keys, values in cache]
