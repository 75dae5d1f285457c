"""The trunk and its heads: a window of token ids in, a score per token and head out.

One pass of all-MiniLM-L6-v2 with low-rank changes. Every head is a linear function of a token's state, so the score of
a stretch is the mean of its tokens' scores, and the share of each phrase in it is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import ModelUnavailable
from lazaretto.models.minilm import DIMENSION, Encoder, split_heads
from lazaretto.models.weight_files import read_arrays

WEIGHTS = Path(__file__).parents[1] / "models" / "weights" / "reading"
FILE, ORDERS, JURY = "trunk.safetensors", "orders.json", "jury.json"
HEADS: Mapping[str, int] = {"marks": 3, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
"""Each head, and how many scores it gives: marks of orders, of quiet lies and of poison in descriptions of tools; risk
of four kinds of content as each debater sees it; hazards; benign contexts."""
Floats = NDArray[np.float32]


def _columns() -> dict[str, tuple[int, int]]:
    found, first = dict[str, tuple[int, int]](), 0
    for head, count in HEADS.items():
        found[head] = (first, first + count)
        first += count
    return found


_COLUMNS = _columns()


@dataclass(frozen=True, slots=True)
class WindowScores:
    """What one pass over a window says."""

    scores: Floats
    """(tokens, scores of all heads)."""

    def of(self, head: str, part: int = 0) -> Floats:
        """One score of a head for every token."""
        return self.scores[:, _COLUMNS[head][0] + part]

    def mean(self, head: str) -> Floats:
        """The scores of a head for the whole window."""
        first, last = _COLUMNS[head]
        found: Floats = self.scores[:, first:last].mean(axis=0)
        return found

    def size(self) -> int:
        """About how many bytes it takes."""
        return 500 + self.scores.nbytes


class Trunk:
    """The network with its heads. Safe to share between threads; every call is a pass."""

    def __init__(self, folder: Path = WEIGHTS) -> None:
        adapter, heads = split_heads(read_arrays(folder / FILE, "the one reading of texts"))
        self._weight, self._bias = _joined(heads)
        self._encoder = Encoder(adapter, int8=True)

    def read(self, ids: Sequence[int]) -> WindowScores:
        """One pass over a window, [CLS] and [SEP] included."""
        return WindowScores(self._encoder.token_states([ids])[0] @ self._weight + self._bias)


def _joined(heads: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """All heads as one product."""
    for head, count in HEADS.items():
        found = heads.get(f"{head}.weight")
        if found is None or found.shape != (count, DIMENSION) or f"{head}.bias" not in heads:
            raise ModelUnavailable(f"{FILE} has no head {head!r} of {count} scores")
    weight = np.concatenate([heads[f"{head}.weight"] for head in HEADS]).T
    return np.ascontiguousarray(weight), np.concatenate([heads[f"{head}.bias"] for head in HEADS])
