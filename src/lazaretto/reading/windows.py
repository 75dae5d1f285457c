"""Chooses the windows of a text that the screener reads: all of them, or the most suspicious and some of the rest.

A text that was not read whole is never called clean: the answer says whether all windows were chosen.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.models.minilm import WINDOW_TOKENS, Tokens
from lazaretto.processor_time import is_over
from lazaretto.reading.text import reading_of
from lazaretto.reading.views import View

MOST_WINDOWS = 128
"""Read of one text: about 110 kB of English without disguises."""
_STRIDE = WINDOW_TOKENS - 2 - 48
"""Windows overlap by 48 tokens, so that an order is whole in one of them."""
_RUN, _AROUND = 6, 48
"""A view says nothing new where each of its runs of so many tokens was read before; shorter runs would let words in
another order pass as read. And the tokens that are read on both sides of a new run."""
_Run = tuple[int, ...]
_CUE = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|skip|instruct\w*|system|prompt|assistants?|agents?|ai|bots?|must|always|"
    r"never|forward|send|transfer|upload|reveal|password|secret|keys?|tokens?|execute|run|install|delete|disable|approve|"
    r"without|confirm\w*|do not|don't|from now on|"
    r"ignorier\w*|vergiss|anweisung\w*|müssen|sofort|ignore[zr]?|consignes?|doivent|désormais|ignora\w*|instrucciones|"
    r"deben|istruzioni|devono|instruções|devem|negeer|instructies|moeten)\b|@|https?://|<\w+>|\[inst",
    re.IGNORECASE,
)
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


def chosen_windows(
    views: Sequence[View], most: int = MOST_WINDOWS, until: float = math.inf
) -> tuple[list[tuple[View, Tokens]], bool]:
    """The windows to be read, the most suspicious first, and whether they are all there is to read.

    Equal windows are read once. Another view is read only where it says something that was not read in those before
    it, with some words around that, and where there is time for it until a moment of ``processor_time.worked``.
    """
    known_runs, seen = set[_Run](), set[tuple[int, ...]]()
    found: list[tuple[View, Tokens]] = []
    whole = True
    for view in views:
        if found and is_over(until):
            whole = False
            break
        pieces = reading_of(view.text).pieces
        new = _new_parts(_runs(pieces.ids), known_runs, len(pieces.ids))
        parts = new if found else [(0, len(pieces.ids))]
        for start, end in parts:
            for window in pieces.part(start, end).windows(10**9, _STRIDE):
                if window.ids not in seen:
                    seen.add(window.ids)
                    found.append((view, window))
    ordered = sorted(found, key=lambda pair: -_suspicion(*pair)) if len(found) > 1 else found
    if len(ordered) <= most:
        return ordered, whole
    kept, rest = ordered[: most * 2 // 3], ordered[most * 2 // 3 :]
    rest.sort(key=lambda pair: pair[1].offsets[1])
    spread = most - len(kept)
    return kept + [rest[round(i * (len(rest) - 1) / (spread - 1))] for i in range(spread)], False


def _runs(ids: Sequence[int]) -> list[_Run]:
    """Every few tokens that follow each other; all of them where there are fewer."""
    if len(ids) <= _RUN:
        return [tuple(ids)]
    return list(zip(*(ids[at:] for at in range(_RUN)), strict=False))


def _new_parts(runs: Sequence[_Run], known: set[_Run], length: int) -> list[tuple[int, int]]:
    """The stretches of tokens with runs that are not known yet, with some tokens on both sides; the runs become
    known."""
    parts: list[tuple[int, int]] = []
    for at, run in enumerate(runs):
        if run in known:
            continue
        known.add(run)
        start, end = max(0, at - _AROUND), min(length, at + _RUN + _AROUND)
        if parts and start <= parts[-1][1]:
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
    return parts


def _suspicion(view: View, window: Tokens) -> int:
    """How many different words of orders stand in a window."""
    inner = window.offsets[1:-1]
    stretch = view.text[inner[0][0] : inner[-1][1]] if inner else ""
    return len({found.lower() for found in _CUE.findall(stretch)})
