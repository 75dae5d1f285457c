"""Texts as the encoder sees them: word pieces, in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lazaretto.errors import MissingExtra
from lazaretto.models.minilm.base import minilm_folder

WINDOW_TOKENS = 256
"""What the encoder was trained to read at once, [CLS] and [SEP] included."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One window of a text, as the encoder sees it."""

    ids: tuple[int, ...]
    """[CLS] ... [SEP] included."""
    offsets: tuple[tuple[int, int], ...]
    """Character span of each token in the text; (0, 0) for [CLS] and [SEP]."""


@cache
def minilm_tokenizer() -> Any:
    """The word-piece tokenizer of the encoder, without padding or truncation."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("the tokenizer of all-MiniLM-L6-v2", "gates") from None
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def window_texts(texts: Sequence[str], max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[list[Tokens]]:
    """Each text as at most ``max_windows`` windows; a longer text is sampled evenly, its end always included.

    ``stride`` is how far each window starts after the one before it, in tokens.
    """
    body = WINDOW_TOKENS - 2
    windowed: list[list[Tokens]] = []
    # A text is cut before tokenizing where no window could reach: 1 MB of text must not cost 1 MB of tokenizing
    # when a single window is asked for. 16 characters per token is far above what English or Chinese needs.
    for text in texts:
        reach = text if max_windows > 1 else text[: WINDOW_TOKENS * 16]
        encoded = minilm_tokenizer().encode(reach, add_special_tokens=False)
        ids, offsets = encoded.ids, encoded.offsets
        starts = list(range(0, max(1, len(ids) - body + stride), stride)) if len(ids) > body else [0]
        if len(starts) > max_windows:
            picked = np.linspace(0, len(starts) - 1, max_windows).round().astype(int)
            starts = [starts[i] for i in sorted(set(picked.tolist()))]
        windowed.append(
            [Tokens((101, *ids[s : s + body], 102), ((0, 0), *offsets[s : s + body], (0, 0))) for s in starts]
        )
    return windowed
