"""One reading of a text for all gates, each part made when it is first asked for; and the windows that are read."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.language import Languages, Stretch
from lazaretto.models.minilm import DIMENSION, FIRST_WINDOW, WINDOW_TOKENS, Pieces, Tokens, claim_minilm, pieces_of
from lazaretto.models.protocol import Vectors
from lazaretto.processor_time import is_over
from lazaretto.reading.views import View, views

_MOST_BYTES = 8 << 20
"""Memory for the readings that were asked for last."""
_PER_CHARACTER, _PER_TEXT = 40, 4_000
"""About how many bytes a text takes with all that can be made of it: most are the places of its word pieces."""

_BEGINNING = 128
"""Tokens that the encoder's authors trained it on."""


class Reading:
    """One text, read once. Several threads may ask at once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lock = threading.RLock()
        self._views: tuple[View, ...] | None = None
        self._pieces: Pieces | None = None
        self._first: Pieces | None = None
        self._languages: Languages | None = None
        self._vector: NDArray[np.float32] | None = None
        self._unknown: dict[tuple[str, ...], tuple[Stretch, ...]] = {}

    def views(self, until: float = math.inf) -> tuple[View, ...]:
        """The text itself and what it says without its disguises; ``until``: as of ``reading.views.views``."""
        with self._lock:
            if self._views is not None:
                return self._views
            found = views(self.text, until)
            if not is_over(until):  # all there are
                self._views = found
            return found

    @property
    def pieces(self) -> Pieces:
        """The whole text in word pieces."""
        with self._lock:
            if self._pieces is None:
                self._pieces = pieces_of(self.text)
            return self._pieces

    @property
    def first_window(self) -> Tokens:
        """Its beginning, as much as the encoder reads at once; a long text is not tokenized further for that."""
        if len(self.text) <= FIRST_WINDOW:
            return self.pieces.windows()[0]
        with self._lock:
            if self._first is None:
                self._first = pieces_of(self.text[:FIRST_WINDOW])
            return self._first.windows()[0]

    @property
    def vector(self) -> NDArray[np.float32]:
        """The plain encoder's unit vector of its first window: what claims are compared by, and cases found by."""
        with self._lock:
            if self._vector is None:
                self._vector = np.array(claim_minilm().embed_windows([[self.first_window]])[0], np.float32)
            return self._vector

    @property
    def language(self) -> str:
        """Its main language, as of ``models.language.language_of``."""
        return self._all_languages().main

    def unknown(self, known: Collection[str], until: float = math.inf) -> tuple[Stretch, ...]:
        """Its parts in none of the known languages; ``until``: as of ``models.language.Languages``."""
        key = tuple(known)
        with self._lock:
            if key in self._unknown:
                return self._unknown[key]
            languages = self._all_languages(until)
            found = languages.unknown(key, until)
            if languages.whole:
                self._unknown[key] = found
            else:  # the next call may have more time
                self._languages = None
            return found

    def _all_languages(self, until: float = math.inf) -> Languages:
        with self._lock:
            if self._languages is None:
                self._languages = Languages(self.text, until)
            return self._languages


_kept: KeptTexts[Reading] = KeptTexts(_MOST_BYTES, lambda kept: _PER_TEXT + _PER_CHARACTER * len(kept.text))
_lock = threading.Lock()


def reading_of(text: str) -> Reading:
    """The reading of a text: the one that others asked for lately, else a new one."""
    key = digest(text)
    with _lock:
        found = _kept.get(key)
        if found is None:
            found = Reading(text)
            _kept.put(key, found)
        return found


class ReadVectors:
    """The vectors of readings as a ``TextEmbedder``: a text that was read for its claims is not read again.

    Of a text longer than ``_BEGINNING`` tokens, the beginning alone is read: for finding cases, reading on is not worth
    its time (research/LOG.md).
    """

    name = "all-MiniLM-L6-v2-8bit-blocks-128"
    dimension = DIMENSION

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text."""
        rows = [self._vector(reading_of(text)) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, DIMENSION), np.float32)

    def _vector(self, read: Reading) -> NDArray[np.float32]:
        window = read.first_window
        if len(window.ids) <= _BEGINNING:
            return read.vector
        cut = Tokens(
            (*window.ids[: _BEGINNING - 1], window.ids[-1]),
            (*window.offsets[: _BEGINNING - 1], window.offsets[-1]),
        )
        return np.asarray(claim_minilm().embed_windows([[cut]])[0], np.float32)


# Chooses the windows of a text that the screener reads: all of them, or the most suspicious and some of the rest.
#
# A text that was not read whole is never called clean: the answer says whether all windows were chosen.

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
