"""Chooses the stretches of a very long text that are read: the most suspicious, and some of all."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

_CUE_PARTS = (
    "ignor", "disregard", "forget", "overrid", "bypass", "skip", "instruct", "system", "prompt", "assistant", "agent",
    " ai", "bot", "must", "always", "never", "forward", "send", "transfer", "upload", "reveal", "password", "secret",
    "key", "token", "execut", "run ", "install", "delet", "disabl", "approv", "without", "confirm", "do not", "don't",
    "from now on", "vergiss", "anweisung", "müssen", "sofort", "consigne", "doivent", "désormais", "instruccion",
    "deben", "istruzion", "devono", "instruç", "devem", "negeer", "moeten", "@", "http", "<", "[inst",
)  # fmt: skip

MOST_CHARACTERS = 120_000
"""Looked at of one text: more than all windows hold. Of a longer one the most suspicious stretches, and some of all."""
_STRETCH = 4_000


@dataclass(frozen=True, slots=True)
class Shortened:
    """The stretches of a very long text that are read, one after the other."""

    text: str
    places: tuple[tuple[int, int], ...]
    """Where each stretch begins: here, and in the whole text."""

    def in_whole(self, at: int) -> int:
        """The place in the whole text of a place here."""
        here, there = self.places[bisect.bisect_right(self.places, (at, 1 << 62)) - 1]
        return there + at - here


def shortened(text: str, most: int = MOST_CHARACTERS) -> Shortened | None:
    """The stretches to read of a text that is too long; None for one that is not."""
    if len(text) <= most:
        return None
    starts, count = range(0, len(text), _STRETCH), most // _STRETCH
    order = sorted(starts, key=lambda at: -_cues(text[at : at + _STRETCH].lower()))
    kept = set(order[: count * 2 // 3])
    rest, spread = [at for at in starts if at not in kept], count - len(kept)
    kept.update(rest[round(i * (len(rest) - 1) / (spread - 1))] for i in range(spread))
    parts, places, here = [], [], 0
    for at in sorted(kept):
        places.append((here, at))
        parts.append(text[at : at + _STRETCH])
        here += len(parts[-1]) + 1
    return Shortened("\n".join(parts), tuple(places))


def _cues(stretch: str) -> int:
    """How many parts of words of orders stand in a stretch: cheap, for there may be hundreds of stretches."""
    return sum(part in stretch for part in _CUE_PARTS)
