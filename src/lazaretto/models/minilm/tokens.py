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
"""Tokens that the encoder was trained to read at once, [CLS] and [SEP] included."""


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


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text in word pieces, uncut."""

    ids: tuple[int, ...]
    """Without [CLS] and [SEP]."""
    offsets: tuple[tuple[int, int], ...]
    """Character span of each in the text."""

    def part(self, start: int, end: int) -> Pieces:
        """Some of them, at the places they have in the whole text."""
        return Pieces(self.ids[start:end], self.offsets[start:end])

    def windows(self, max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[Tokens]:
        """At most so many windows; more text than these hold is sampled evenly, its end always included.

        ``stride`` is how far each window starts after the one before it, in tokens.
        """
        body, ids, offsets = WINDOW_TOKENS - 2, self.ids, self.offsets
        starts = list(range(0, max(1, len(ids) - body + stride), stride)) if len(ids) > body else [0]
        if len(starts) > max_windows:
            picked = np.linspace(0, len(starts) - 1, max_windows).round().astype(int)
            starts = [starts[i] for i in sorted(set(picked.tolist()))]
        return [Tokens((101, *ids[s : s + body], 102), ((0, 0), *offsets[s : s + body], (0, 0))) for s in starts]


def pieces_of(text: str) -> Pieces:
    """A text in the encoder's word pieces."""
    encoded = minilm_tokenizer().encode(text, add_special_tokens=False)
    return Pieces(tuple(encoded.ids), tuple(encoded.offsets))


FIRST_WINDOW = WINDOW_TOKENS * 16
"""Characters of which the first window is made: far more than its tokens need in English or Chinese."""


def window_texts(texts: Sequence[str], max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[list[Tokens]]:
    """Each text as at most ``max_windows`` windows, as of ``Pieces.windows``.

    A text is cut before tokenizing where no window could reach: 1 MB of text must not cost 1 MB of tokenizing when a
    single window is asked for.
    """
    reach = [text if max_windows > 1 else text[:FIRST_WINDOW] for text in texts]
    return [pieces_of(text).windows(max_windows, stride) for text in reach]
