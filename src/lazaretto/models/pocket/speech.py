"""Greedy speech in batches: prompts with and without pictures go in, token lists come out.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lazaretto.models.pocket.backbone import PATCHES
from lazaretto.models.pocket.networks import Language
from lazaretto.models.pocket.tokenizer import PICTURE, WordTokenizer


@dataclass(frozen=True)
class Prompt:
    """One prompt as tokens; a picture stands as one ``<picture>`` token that is widened when it is run."""

    tokens: tuple[int, ...]
    patches: Tensor | None = None
    """(49, features) of the picture, where there is one."""


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


def widen(tokens: Sequence[int], picture: int) -> list[int]:
    """Every picture token repeated for each of the picture's cells."""
    return [t for token in tokens for t in ([token] * PATCHES if token == picture else [token])]


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Left-padded tokens (pad is token 0) and how much of each row is padding."""
    length = max(map(len, rows))
    table = torch.tensor([[0] * (length - len(row)) + list(row) for row in rows], device=device)
    return table, torch.tensor([length - len(row) for row in rows], device=device)


def visible(padding: Tensor, start: int, length: int) -> Tensor:
    """(n, 1, length - start, length): which positions each position from ``start`` on may look at."""
    index = torch.arange(length, device=padding.device)
    causal = index[None, None, :] <= index[None, start:, None]
    real = index[None, None, :] >= padding[:, None, None]
    # a padded row still looks at itself: a row of nothing would turn into not-a-number
    itself = index[None, None, :] == index[None, start:, None]
    return ((causal & real) | itself).unsqueeze(1)


@torch.no_grad()
def speak(language: Language, tokenizer: WordTokenizer, prompts: Sequence[Prompt], max_tokens: int) -> list[list[int]]:
    """What the model says to each prompt (one batch), greedily, without the end token."""
    device = language.words.weight.device
    picture = tokenizer.ids[PICTURE]
    rows = [widen(prompt.tokens, picture) for prompt in prompts]
    tokens, padding = _padded(rows, device)
    length = tokens.shape[1]
    room = min(max_tokens, language.size.limit - length)
    seen = [prompt.patches for prompt in prompts if prompt.patches is not None]
    pictures = language.see(torch.stack(seen).to(device, language.words.weight.dtype)).flatten(0, 1) if seen else None
    x = language.embed(tokens, pictures, picture)
    positions = (torch.arange(length, device=device)[None] - padding[:, None]).clamp(min=0)
    cache = language.roomy(len(rows), length + room)
    hidden, cache = language.run(x, positions, visible(padding, 0, length), cache, at=0)
    out: list[Tensor] = []
    done = torch.zeros(len(rows), dtype=torch.bool, device=device)
    for step in range(room):
        token = language.logits(hidden[:, -1]).argmax(dim=-1).masked_fill(done, tokenizer.end)
        out.append(token)
        done = done | (token == tokenizer.end)
        if step == room - 1 or bool(done.all()):
            break
        at = length + step
        hidden, cache = language.run(
            language.words(token)[:, None], (at - padding)[:, None], visible(padding, at, at + 1), cache, at=at
        )
    said = torch.stack(out, dim=1).tolist() if out else [[] for _ in rows]
    return [row[: row.index(tokenizer.end)] if tokenizer.end in row else row for row in said]
