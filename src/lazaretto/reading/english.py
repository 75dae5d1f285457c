"""How much of a text is common English words: the sign that parts a guessed reading from noise."""

from __future__ import annotations

import functools
import re
from pathlib import Path

WORD = re.compile(r"[a-z]+")
IS_ENGLISH = 0.4
"""Share of common words from which letters that were guessed are words."""


@functools.cache
def common() -> frozenset[str]:
    """Three hundred words that make up half of any English text."""
    return frozenset(Path(__file__).with_name("common_words.txt").read_text(encoding="ascii").split())


def english(text: str) -> float:
    """The share of common English words."""
    words = WORD.findall(text.lower())
    return sum(word in common() for word in words) / len(words) if words else 0.0
