"""A text with parts of it removed or corrected: proposals of gates, and replacements by repairs."""

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
    for correction in sorted(corrections, key=lambda c: c.start):
        parts += [text[place : correction.start], correction.new]
        place = correction.end
    return "".join((*parts, text[place:]))


def difference(old: str, new: str) -> str:
    """The change, line by line, for people to read."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=1)
    return "\n".join(lines)
