"""The trunk and its heads: a window of token ids in, a score per token and head out.

Every head is a linear function of the states, pooled by a mean. So a head's score of a window is the mean of its
tokens' scores, the share of each phrase in it is exact, and the score without a line is the mean without its tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import ModelUnavailable
from lazaretto.models.deep.packed import unpacked_changes
from lazaretto.models.minilm import DIMENSION, Encoder, split_heads
from lazaretto.models.weight_files import read_weights

WEIGHTS = Path(__file__).parents[1] / "models" / "weights" / "reading"
FILE = "trunk.safetensors"
TOKEN_HEADS: Mapping[str, int] = {"marks": 1, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
"""Heads that score tokens, and how many scores each gives."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class WindowReading:
    """What one pass over a window says."""

    scores: Floats
    """(tokens, scores of all heads)."""
    states: NDArray[np.float16]
    """(tokens, 384), rounded: for vectors of stretches."""

    def of(self, head: str, part: int | None = None) -> Floats:
        """The scores of a head, (tokens, its scores); ``part``: one of its scores, (tokens,)."""
        first, last = _COLUMNS[head]
        return self.scores[:, first:last] if part is None else self.scores[:, first + part]

    def without(self, start: int, end: int) -> WindowReading:
        """The same without a stretch of its tokens: what the rest says, read beside them."""
        kept = np.r_[0:start, end : len(self.scores)]
        return WindowReading(self.scores[kept], self.states[kept])

    def size(self) -> int:
        """About how many bytes it takes."""
        return 500 + self.scores.nbytes + self.states.nbytes


def _columns() -> dict[str, tuple[int, int]]:
    found, first = dict[str, tuple[int, int]](), 0
    for head, count in TOKEN_HEADS.items():
        found[head] = (first, first + count)
        first += count
    return found


_COLUMNS = _columns()


class Trunk:
    """The network with its heads. Safe to share between threads; every call is a pass."""

    def __init__(self, folder: Path = WEIGHTS) -> None:
        arrays, self.orders = read_weights(folder / FILE, "orders.json", "the one reading of texts")
        self.sha256 = hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
        self.folder = folder
        adapter, heads = split_heads(unpacked_changes(arrays))
        self._weight, self._bias = _joined(heads)
        self._vector = heads["vector.weight"]
        self._encoder = Encoder(adapter, int8=True)

    @property
    def name(self) -> str:
        """What its vectors carry: those of another trunk, or of other weights, are never compared with them."""
        return f"reading-{self.sha256[:16]}"

    def read(self, ids: Sequence[int]) -> WindowReading:
        """One pass over a window, [CLS] and [SEP] included."""
        states = self._encoder.token_states([ids])[0]
        return WindowReading(states @ self._weight + self._bias, states.astype(np.float16))

    def vector(self, states: NDArray[np.floating[Any]]) -> Floats:
        """The unit vector of a stretch of tokens."""
        made: Floats = self._vector @ states.astype(np.float32).mean(axis=0)
        made /= max(float(np.linalg.norm(made)), 1e-12)
        return made


def _joined(heads: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """All heads that score tokens as one product."""
    for head, count in TOKEN_HEADS.items():
        found = heads.get(f"{head}.weight")
        if found is None or found.shape != (count, DIMENSION) or f"{head}.bias" not in heads:
            raise ModelUnavailable(f"{FILE} has no head {head!r} of {count} scores")
    weight = np.concatenate([heads[f"{head}.weight"] for head in TOKEN_HEADS]).T
    return np.ascontiguousarray(weight), np.concatenate([heads[f"{head}.bias"] for head in TOKEN_HEADS])
