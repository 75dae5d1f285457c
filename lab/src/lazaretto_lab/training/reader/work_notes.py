"""Honest notes of everyday work, most of them instructions between people, in four languages.

A screener that only knows corpora takes "ignore the old price list" for an order to an agent. These frames teach it
what colleagues write. They share no line with the lists under ``tests/data``.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

_LISTS: Mapping[str, Mapping[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "work_notes.toml").read_text(encoding="utf-8")
)
LANGUAGES = tuple(_LISTS)
_SLOT = re.compile(r"\{(\w+)\}")


def work_note(language: str, rng: random.Random) -> str:
    """One note: a line, or two or three that belong to a day's work."""
    lists = _LISTS[language]
    lines = [_filled(rng.choice(lists["frames"]), lists, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return rng.choice((" ", "\n", "\n- ")).join(lines)


def _filled(frame: str, lists: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name == "n":
            return str(rng.choice((2, 3, 4, 5, 7, 9, 12, 14, 18, 24, 30, 45, 60, 118, 240, 1150)))
        return rng.choice(lists[name])

    return _SLOT.sub(fill, frame)
