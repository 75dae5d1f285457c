"""A text as windows of tokens: the same ones for every gate, so that a window which two gates want is read once."""

from __future__ import annotations

from lazaretto.models.minilm import WINDOW_TOKENS, Tokens, window_texts

WINDOW = WINDOW_TOKENS
"""Tokens of a window, [CLS] and [SEP] included."""
BODY = WINDOW - 2
STRIDE = BODY - 48
"""Windows overlap by 48 tokens, so that an order is whole in one of them."""


def starts(tokens: int) -> list[int]:
    """Where the windows of so many tokens begin."""
    return list(range(0, tokens - BODY + STRIDE, STRIDE)) if tokens > BODY else [0]


def text_windows(text: str) -> list[Tokens]:
    """All windows of a text."""
    return window_texts([text], max_windows=10**9, stride=STRIDE)[0]
