"""One pass of one network per window of a text, for all gates: marks of orders and the debaters' views of its risk.

``TextTrunk`` is all-MiniLM-L6-v2 with low-rank changes and heads: a window of token ids in, a score per token and head
out. Every head is a linear function of a token's state, so the score of a stretch is the mean of its tokens' scores,
and the share of each phrase in it is exact. ``OneReading`` reads each window once: a thread that asks for a window that
was read finds it, and a thread that asks while it is read waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import ModelUnavailable
from lazaretto.kept_texts import KeptTexts, digest, namespace
from lazaretto.models.minilm import DIMENSION, Encoder, split_heads
from lazaretto.models.weight_files import read_arrays
from lazaretto.processor_time import apart

WEIGHTS = Path(__file__).parents[1] / "models" / "weights" / "reading"
PICTURES = WEIGHTS.parent / "jury"
FILE, ORDERS, JURY = "trunk.safetensors", "orders.json", "jury.json"
HEADS: Mapping[str, int] = {"marks": 3, "strict": 4, "loose": 4, "hazard": 16, "context": 6}
"""Each head, and the number of its scores: marks of orders, of quiet lies and of poison in descriptions of tools; risk
of four kinds of content as each debater sees it; hazards; benign contexts."""
MOST_BYTES = 8 << 20
"""Memory for windows that were read last: about 240 full ones, more than the longest text has."""
Floats = NDArray[np.float32]
_ENDS = accumulate(HEADS.values(), initial=0)
_COLUMNS = {head: slice(*ends) for head, ends in zip(HEADS, pairwise(_ENDS), strict=True)}


@dataclass(frozen=True, slots=True)
class WindowScores:
    """The result of one pass over a window."""

    scores: Floats
    """(tokens, scores of all heads)."""

    def of(self, head: str) -> Floats:
        """A head's scores, each for all tokens."""
        return self.scores[:, _COLUMNS[head]].T

    def mean(self, head: str) -> Floats:
        """The scores of a head for the whole window."""
        found: Floats = self.scores[:, _COLUMNS[head]].mean(axis=0)
        return found

    def size(self) -> int:
        """About how many bytes it takes."""
        return 500 + self.scores.nbytes


class TextTrunk:
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


class PictureNetworks:
    """Both debaters' networks for a picture's description, alone or beside a text; no other gate reads those.

    Safe to share between threads; every call is two passes.
    """

    def __init__(self, folder: Path = PICTURES) -> None:
        self._networks = {name: _network(folder / f"{name}.safetensors") for name in ("strict", "loose")}

    def read(self, ids: Sequence[int]) -> WindowScores:
        """The scores of both; hazards are the strict network's, benign contexts the loose one's, and no marks."""
        scores = np.zeros((len(ids), sum(HEADS.values())), np.float32)
        for name, beside in (("strict", "hazard"), ("loose", "context")):
            encoder, heads = self._networks[name]
            states = encoder.token_states([ids])[0]
            for head, column in (("risk", name), (beside, beside)):
                scores[:, _COLUMNS[column]] = states @ heads[f"{head}.weight"].T + heads[f"{head}.bias"]
        return WindowScores(scores)


def _network(file: Path) -> tuple[Encoder, Mapping[str, Floats]]:
    adapter, heads = split_heads(read_arrays(file, "the jury of pictures"))
    return Encoder(adapter, int8=True), heads


class Reads(Protocol):
    """A reader of windows, such as ``TextTrunk``."""

    def read(self, ids: Sequence[int]) -> WindowScores:
        """One pass."""
        ...


class OneReading:
    """A trunk that reads each window once; loaded when it is first asked. Safe to share between threads.

    The scores are kept in so many bytes, by a digest of the namespace and the window's ids, and forgotten when content
    is erased, also those of a window that was being read meanwhile (``kept_texts``).
    """

    def __init__(self, load: Callable[[], Reads] = TextTrunk, most_bytes: int = MOST_BYTES) -> None:
        self._load = load
        self._trunk: Reads | None = None
        self.passes = 0
        """Windows that the trunk has read."""
        self._kept: KeptTexts[WindowScores] = KeptTexts(most_bytes, WindowScores.size)
        self._in_hand: dict[bytes, Future[WindowScores]] = {}
        self._lock, self._loading = threading.Lock(), threading.Lock()

    def warm_up(self) -> Reads:
        """The trunk, loaded once; no item's time is spent on it."""
        with self._loading:
            if self._trunk is None:
                with apart():
                    self._trunk = self._load()
            return self._trunk

    def window(self, ids: Sequence[int]) -> WindowScores:
        """The scores of a window; a pass only where it was not read a moment ago."""
        key = _key(ids)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                return known
            others = self._in_hand.get(key)
            if others is None:
                mine: Future[WindowScores] = Future()
                self._in_hand[key] = mine
        return others.result() if others is not None else self._read(key, ids, mine)

    def _read(self, key: bytes, ids: Sequence[int], mine: Future[WindowScores]) -> WindowScores:
        try:
            made = self.warm_up().read(ids)
        except BaseException as error:
            with self._lock:
                del self._in_hand[key]
            mine.set_exception(error)
            raise
        with self._lock:
            self.passes += 1
            self._kept.put(key, made)
            del self._in_hand[key]
        mine.set_result(made)
        return made

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether a window was read a moment ago, and costs nothing."""
        return self._kept.get(_key(ids)) is not None

    @property
    def bytes(self) -> int:
        """About how much is kept."""
        return self._kept.bytes


def _key(ids: Sequence[int]) -> bytes:
    return digest(namespace(), " ".join(map(str, ids)))


_shared = OneReading()
"""Made here and not when first asked: gates warm up side by side, and must not have one each."""


def shared_reading() -> OneReading:
    """The one of this process."""
    return _shared
