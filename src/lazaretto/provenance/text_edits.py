"""A text with parts of it taken out or put right: what the gates propose and what repairs put in a text's place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from lazaretto.types import Correction

_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?]+|\n|$)\s*")

Spans = Sequence[tuple[int, int]]


def without_spans(text: str, spans: Spans) -> str:
    """The text without every sentence that one of the spans touches."""
    kept = [
        m.group()
        for m in _SENTENCE.finditer(text)
        if m.group() and not any(start < m.end() and end > m.start() for start, end in spans)
    ]
    return "".join(kept).strip()


def corrected(text: str, corrections: Sequence[Correction]) -> str:
    """The text with every correction made; they must not overlap."""
    parts, place = [], 0
    for one in sorted(corrections, key=lambda c: c.start):
        parts += [text[place : one.start], one.new]
        place = one.end
    return "".join((*parts, text[place:]))


def difference(old: str, new: str) -> str:
    """What changes, line by line, as people read it."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=1)
    return "\n".join(lines)
