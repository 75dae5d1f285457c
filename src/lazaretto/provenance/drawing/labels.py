"""Texts of agents as labels: one line, without control, hidden or direction-changing characters."""

from __future__ import annotations

import textwrap
import unicodedata


def showable(text: str, limit: int | None = None) -> str:
    """Text that cannot play tricks on a reader: one line, no control, hidden or direction-changing characters."""
    safe = "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") else c for c in " ".join(text.split())
    )
    return safe if limit is None or len(safe) <= limit else safe[: max(1, limit - 1)].rstrip() + "…"


def label_lines(text: str, letters: int, most: int = 2) -> list[str]:
    """A label in at most so many lines, each as wide as so many small Latin letters; broken between words if it can."""
    whole = showable(text)
    room = max(1, int(letters * len(whole) / sum(map(_breadth, whole)))) if whole else letters
    lines = textwrap.wrap(whole, room)
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][: room - 1].rstrip() + "…"]


def _breadth(letter: str) -> float:
    """About how wide a letter is, measured in small Latin ones."""
    return 1.8 if unicodedata.east_asian_width(letter) in "WF" else 1.4 if letter.isupper() else 1.0
