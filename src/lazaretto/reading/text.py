"""One reading of a text for all gates: each part is made when it is first asked for, and kept for a while."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.language import Languages, Stretch
from lazaretto.models.minilm import DIMENSION, FIRST_WINDOW, Pieces, Tokens, claim_minilm, pieces_of
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
