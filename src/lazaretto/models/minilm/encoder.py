"""The network itself (``Encoder``: windows of token ids in, token states out), and unit vectors of texts (``MiniLM``).

A test holds it equal to the official pipeline to four decimals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.models.built import built, digest_of, source_of
from lazaretto.models.freed_memory import give_back_memory
from lazaretto.models.minilm import channels, session
from lazaretto.models.minilm import weights as weights_module
from lazaretto.models.minilm.base import SHA256
from lazaretto.models.minilm.channels import channel_ranges, rounded_even
from lazaretto.models.minilm.session import int8_is_exact, open_session, rounded
from lazaretto.models.minilm.tokens import Tokens, window_texts
from lazaretto.models.minilm.weights import DIMENSION, LAYERS, WORDS, Adapter, EncoderWeights
from lazaretto.models.protocol import Vectors
from lazaretto.processor_time import pace

_BATCH_TOKENS = 8192
"""Tokens per forward pass, padding included: bounds memory for any input."""
_PADDED = 1.1
"""Longest window of a batch, as a multiple of its shortest: a quarter of the time for pairs of claims was padding."""
_QUIET_S, _QUIET_SQUARE_S = 3.0e-4, 3.0e-7
"""Seconds that a token takes in eight bits on a quiet Neoverse N1 core, and that it takes more for each token it is
read with (lab/results/kernels/arm64.json)."""
_FULL, _EVEN = 2.3, 1.1
"""The same in full precision and with even channels, as a multiple."""
_TELLING = 32
"""Tokens of a window below which it says little about the machine."""
_MADE_BY = (session.__file__, weights_module.__file__, channels.__file__)


class Encoder:
    """all-MiniLM-L6-v2, plain or with an adapter merged in. Safe to share between threads."""

    def __init__(self, adapter: Adapter | None = None, *, int8: bool = False, even: bool = False) -> None:
        """``int8``: products of numbers rounded to eight bits, where this processor does them exactly.

        ``even``: in eight bits too, after the channels are made even: a little slower than ``int8``, and closer to full
        precision by far.

        In eight bits windows are read one by one, so that what a window scores never depends on what was read beside
        it, and no padding is computed.
        """
        weights = EncoderWeights(adapter)
        self._one_by_one = int8 or even
        graph, rounding, self._slower = "encoder.onnx", None, _FULL
        if self._one_by_one and int8_is_exact():
            graph, rounding, self._slower = "encoder_int8.onnx", rounded, 1.0
            if even:
                graph, rounding, self._slower = "encoder_even.onnx", rounded_even, _EVEN
        self._session = open_session(graph, _kept_arrays(weights, graph, rounding, adapter or {}))
        self._words, self._word_change = weights.shared(WORDS), weights.change(WORDS)
        self._places = weights.tensor("embeddings.position_embeddings.weight")
        self._places = self._places + weights.tensor("embeddings.token_type_embeddings.weight")[0]
        del weights
        give_back_memory()

    def token_states(self, windows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """The last hidden states of each window of token ids, (tokens, 384), in order."""
        states: list[NDArray[np.float32]] = [np.empty((0, DIMENSION), np.float32)] * len(windows)
        lengths = [len(window) for window in windows]
        for batch in [[i] for i in range(len(windows))] if self._one_by_one else _batches(lengths):
            longest = max(lengths[i] for i in batch)
            ids = np.zeros((len(batch), longest), np.int64)
            seen = np.zeros((len(batch), longest), np.int32)
            for row, i in enumerate(batch):
                ids[row, : lengths[i]] = windows[i]
                seen[row, : lengths[i]] = 1
            hidden = self._run(ids, seen)
            for row, i in enumerate(batch):
                states[i] = hidden[row, : lengths[i]]
        return states

    def _run(self, ids: NDArray[np.int64], seen: NDArray[np.int32]) -> NDArray[np.float32]:
        """One pass; how long it took says how busy the machine is."""
        began = time.thread_time()
        hidden: NDArray[np.float32] = self._session.run(None, {"embedded": self._embedded(ids), "mask": seen})[0]
        rows, tokens = ids.shape
        if tokens >= _TELLING:
            quiet = rows * (_QUIET_S * tokens + _QUIET_SQUARE_S * tokens**2) * self._slower
            pace.passed(time.thread_time() - began, quiet)
        return hidden

    def _embedded(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Word and place of each token; an adapter's change to the words is looked up, not added to the whole table."""
        found: NDArray[np.float32] = self._words[ids] + self._places[: ids.shape[1]]
        if self._word_change is not None:
            found += self._word_change(ids)
        return found


_Rounding = Callable[[str, NDArray[np.float32]], dict[str, NDArray[Any]]]


def _kept_arrays(
    weights: EncoderWeights, graph: str, rounding: _Rounding | None, adapter: Adapter
) -> Mapping[str, NDArray[Any]]:
    """Rounded weights are kept for the next process; those in full precision are read as fast as they are made."""
    if rounding is None:
        return _arrays(weights, None)
    reach = digest_of(channel_ranges() if rounding is rounded_even else {})
    made_from = (SHA256["model.safetensors"], graph, digest_of(adapter), reach, source_of(__file__, *_MADE_BY))
    return built("minilm", made_from, lambda: _arrays(weights, rounding))


def _arrays(weights: EncoderWeights, rounding: _Rounding | None) -> dict[str, NDArray[Any]]:
    """The weights as the graph names them: matrices turned to (in, out), those of query, key and value as one."""
    found: dict[str, NDArray[Any]] = {}

    def norm(name: str) -> None:
        for part in ("weight", "bias"):
            found[f"{name}.{part}"] = weights.tensor(f"{name}.{part}")

    def linear(name: str, *sources: str) -> None:
        matrix = np.concatenate([weights.tensor(f"{source}.weight") for source in sources]).T
        found[f"{name}.bias"] = np.concatenate([weights.tensor(f"{source}.bias") for source in sources])
        found.update(rounding(name, matrix) if rounding else {f"{name}.weight": matrix})

    norm("embeddings.LayerNorm")
    for n in range(LAYERS):
        at = f"encoder.layer.{n}."
        parts = (f"{at}attention.self.{part}" for part in ("query", "key", "value"))
        linear(f"{at}attention.self.joint", *parts)
        for name in ("attention.output.dense", "intermediate.dense", "output.dense"):
            linear(f"{at}{name}", f"{at}{name}")
        norm(f"{at}attention.output.LayerNorm")
        norm(f"{at}output.LayerNorm")
    return found


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices grouped by similar length, so that little padding is computed."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        alike = bool(batches) and lengths[i] <= _PADDED * lengths[batches[-1][0]]
        if alike and (len(batches[-1]) + 1) * lengths[i] <= _BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


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
        even: bool = False,
    ) -> None:
        """``max_windows`` > 1 reads that many windows of a long text and averages them, instead of its first alone.
        ``int8``, ``even``: as of ``Encoder``."""
        if max_windows < 1:
            raise InputError("max_windows", f"{max_windows} is not a number of windows", "Use 1 or more")
        self.name = name
        self.max_windows = max_windows
        self._encoder = Encoder(adapter, int8=int8, even=even)

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
    """One per process for claims: eight bits with even channels, whose cosines are within .02 of full precision's.

    The name is that of an earlier rounding, and stored vectors bear it: both are as near to full precision.
    """
    return MiniLM(name="all-MiniLM-L6-v2-8bit-blocks", even=True)
