"""Vectors of whole texts from the same passes, as a ``TextEmbedder``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lazaretto.models.minilm import DIMENSION, window_texts
from lazaretto.models.protocol import Vectors
from lazaretto.reading.passes import OneReading, shared_reading
from lazaretto.reading.windows import STRIDE


class ReadingEmbedder:
    """Unit vectors of the first window of each text. Safe to share between threads."""

    dimension = DIMENSION

    def __init__(self, reading: OneReading) -> None:
        self._reading = reading
        self.name = reading.trunk.name

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text; no pass for a text that was read a moment ago."""
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, windows in zip(rows, window_texts(texts, stride=STRIDE), strict=True):
            row[:] = self._reading.trunk.vector(self._reading.window(windows[0].ids).states)
        return rows


@cache
def reading_embedder() -> ReadingEmbedder:
    """One per process."""
    return ReadingEmbedder(shared_reading())
