"""Which windows of a text the screener reads: all of them, or of a very long text the most suspicious and some of all.

What was not read is never called clean: the caller is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lazaretto.gates.memory.text_views import View
from lazaretto.models.minilm import WINDOW_TOKENS, Tokens, window_texts

MOST_WINDOWS = 128
"""Read of one text: about 110 kB of English without disguises."""
_STRIDE = WINDOW_TOKENS - 2 - 48
"""Windows overlap by 48 tokens, so that an order is whole in one of them."""
_CUE = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|skip|instruct\w*|system|prompt|assistants?|agents?|ai|bots?|must|always|"
    r"never|forward|send|transfer|upload|reveal|password|secret|keys?|tokens?|execute|run|install|delete|disable|approve|"
    r"without|confirm\w*|do not|don't|from now on|"
    r"ignorier\w*|vergiss|anweisung\w*|müssen|sofort|ignore[zr]?|consignes?|doivent|désormais|ignora\w*|instrucciones|"
    r"deben|istruzioni|devono|instruções|devem|negeer|instructies|moeten)\b|@|https?://|<\w+>|\[inst",
    re.IGNORECASE,
)


def chosen_windows(views: Sequence[View], most: int = MOST_WINDOWS) -> tuple[list[tuple[View, Tokens]], bool]:
    """The windows to be read, the most suspicious first, and whether they are all there is to read.

    Another view is read only where it says something that the text itself does not.
    """
    windowed = window_texts([view.text for view in views], max_windows=10**9, stride=_STRIDE)
    said = _pairs(windowed[0])
    found = [(views[0], window) for window in windowed[0]]
    for view, windows in zip(views[1:], windowed[1:], strict=True):
        found += [(view, w) for w in windows if not _pairs([w]) <= said]
    ordered = sorted(found, key=lambda one: -_suspicion(*one)) if len(found) > 1 else found
    if len(ordered) <= most:
        return ordered, True
    kept, rest = ordered[: most * 2 // 3], ordered[most * 2 // 3 :]
    rest.sort(key=lambda one: one[1].offsets[1])
    spread = most - len(kept)
    return kept + [rest[round(i * (len(rest) - 1) / (spread - 1))] for i in range(spread)], False


def _pairs(windows: Sequence[Tokens]) -> set[tuple[int, int]]:
    """Neighbouring tokens; [CLS] and [SEP] are no neighbours."""
    return {pair for w in windows for pair in zip(w.ids[1:-2], w.ids[2:-1], strict=True)}


def _suspicion(view: View, window: Tokens) -> int:
    """How many different words of orders stand in a window."""
    inner = window.offsets[1:-1]
    stretch = view.text[inner[0][0] : inner[-1][1]] if inner else ""
    return len({found.lower() for found in _CUE.findall(stretch)})
