"""The encoder as a ``TextEmbedder``: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lazaretto.errors import InputError
from lazaretto.models.minilm.encoder import Encoder
from lazaretto.models.minilm.tokens import Tokens, window_texts
from lazaretto.models.minilm.weights import DIMENSION, Adapter
from lazaretto.models.protocol import Vectors


class MiniLM:
    """Unit vectors of texts. Safe to share between threads."""

    dimension = DIMENSION

    def __init__(
        self,
        adapter: Adapter | None = None,
        name: str = "all-MiniLM-L6-v2",
        max_windows: int = 1,
        *,
        int8: bool = False,
        blocks: bool = False,
    ) -> None:
        """``max_windows`` > 1 reads that many windows of a long text and averages them, instead of its first alone.
        ``int8``, ``blocks``: as of ``Encoder``."""
        if max_windows < 1:
            raise InputError("max_windows", f"{max_windows} is not a number of windows", "Use 1 or more")
        self.name = name
        self.max_windows = max_windows
        self._encoder = Encoder(adapter, int8=int8, blocks=blocks)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text: the mean of its token states (and of its windows, where there are several)."""
        return self.embed_windows(window_texts(texts, self.max_windows))

    def embed_windows(self, windowed: Sequence[Sequence[Tokens]]) -> Vectors:
        """The same for texts that are cut into windows already."""
        states = iter(self._encoder.token_states([w.ids for windows in windowed for w in windows]))
        rows = np.zeros((len(windowed), DIMENSION), dtype=np.float32)
        for row, windows in zip(rows, windowed, strict=True):
            for _ in windows:
                pooled = next(states).mean(axis=0)
                row += pooled / np.linalg.norm(pooled)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows


@cache
def shared_minilm() -> MiniLM:
    """One plain encoder per process, in full precision, for everyone who needs no adapter."""
    return MiniLM()


@cache
def claim_minilm() -> MiniLM:
    """One per process for claims: eight bits in blocks, whose cosines are within a hundredth of full precision's."""
    return MiniLM(name="all-MiniLM-L6-v2-8bit-blocks", blocks=True)
