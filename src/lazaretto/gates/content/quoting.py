"""Data inside a prompt stands between marks with a fresh code, and everything that looks like a mark is defused.

Content cannot close a block whose code it does not know; the code itself is cut out of the content first.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from lazaretto.gates.content.injections import visible

_MARK_LIKE = re.compile(r"[<＜﹤](?=\s*[/／]?\s*[A-Za-z!|<＜])|\[(?=/?INST\])", re.IGNORECASE)


def fresh_code() -> str:
    """A code nobody can guess; new for every debate."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True)
class Quoter:
    """Wraps data for one debate."""

    code: str = field(default_factory=fresh_code)
    memo: dict[object, str] = field(default_factory=dict, compare=False)
    """Parts of this debate's file that were already written; every later call starts with the same ones."""

    def block(self, name: str, data: str) -> str:
        """``data`` between marks named ``name``."""
        return f"<{name} {self.code}>\n{self.defuse(data)}\n</{name} {self.code}>"

    def defuse(self, data: str) -> str:
        """``data`` with mark-like signs replaced by look-alikes and the code removed, so that no block can be opened
        or closed from inside.
        """
        shown = visible(data)
        return _MARK_LIKE.sub(lambda m: "⟦" if m.group() == "[" else "‹", shown).replace(self.code, "······")


def shorten(text: str, limit: int) -> str:
    """A text that fits: whole, or its head, five samples of its middle and its tail, with the missing
    part given in numbers.
    """
    if len(text) <= limit:
        return text
    head, tail, piece = limit * 2 // 5, limit // 5, limit * 2 // 25
    middle = len(text) - head - tail
    parts = [text[:head]]
    for index in range(5):
        start = head + (index * middle) // 5 + max(0, (middle // 5 - piece) // 2)
        parts.append(text[start : start + piece])
    parts.append(text[-tail:])
    gap = f"\n[... cut: this content has {len(text):,} characters; samples are shown ...]\n"
    return gap.join(parts)
