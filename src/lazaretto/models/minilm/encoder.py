"""Texts as word pieces in windows, the network that reads them with its weights, and unit vectors of texts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra, ModelUnavailable
from lazaretto.models.built import built, digest_of, source_of
from lazaretto.models.minilm.base import SHA256, minilm_folder
from lazaretto.models.protocol import Vectors
from lazaretto.models.weight_files import Arrays, give_back_memory, read_arrays, read_checked
from lazaretto.processor_time import pace

# Where the encoder runs: onnxruntime on the processor, with weights given from memory.
#
# The graphs beside this module (``tools/make_encoder_graphs.py``) hold no weights: those of the verified base file,
# with an adapter merged in, are handed over when a session opens. Only rounded numbers are kept on disk
# (``models/built.py``).

GivenArrays = Mapping[str, NDArray[Any]]
_HERE = Path(__file__).parent
_MOST_THREADS = 4
"""More do not help a network of this size, and many busy processes share a machine."""


def open_session(graph: str, arrays: GivenArrays) -> Any:
    """A session of one of the graphs beside this module."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("the runtime of the embedded models (onnxruntime)", "gates") from None
    network = read_checked(_HERE / graph, "the embedded models")
    onnxruntime.disable_telemetry_events()  # where the program imported it before us
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.inter_op_num_threads = 1
    # Waiting threads sleep: on a machine with more work than cores, spinning ones take the time of those they wait for.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    slower = ["SkipLayerNormFusion"]  # an addition and the layer norm behind it take less time apart
    return onnxruntime.InferenceSession(
        network, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower
    )


def thread_count() -> int:
    """``OMP_NUM_THREADS`` where it is set, else a thread per core, four at most."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else min(_MOST_THREADS, os.cpu_count() or 1)


def rounded(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) as whole numbers from -127 to 127, and the scale of each column."""
    scale = np.maximum(np.abs(weight).max(axis=0) / 127, 1e-8).astype(np.float32)
    return {f"{name}.weight": np.round(weight / scale).astype(np.int8), f"{name}.scale": scale}


_UNSIGNED = "_unsigned"
BLOCK = 128
"""Numbers that share a scale in products by blocks."""


def rounded_in_blocks(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) as whole numbers around 128, and the scale of each block of each column."""
    blocks = weight.T.reshape(weight.shape[1], -1, BLOCK)
    scale = np.maximum(np.abs(blocks).max(axis=2) / 127, 1e-8).astype(np.float32)
    whole = np.round(blocks / scale[:, :, None]) + 128
    return {f"{name}.weight": whole.astype(np.uint8), f"{name}.scale": scale}


def unsigned(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The same matrices as numbers from 1 to 255 around a zero of 128: the same sums, in steps that do not overflow."""
    found: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        found[name] = array
        if array.dtype == np.int8:
            found[name] = (array.astype(np.int16) + 128).astype(np.uint8)
            found[f"{name.removesuffix('.weight')}.zero"] = np.full(array.shape[1], 128, np.uint8)
    return found


@cache
def exact_graphs() -> str | None:
    """The end of the graphs whose products in eight bits are exact here; None: of none.

    On processors without instructions for eight bits the sums of signed weights overflow, those of unsigned ones do
    not; they take a fifth more time.
    """
    weight = np.full((64, 16), 127.0, np.float32)
    states = np.full((1, 4, 64), 255.0, np.float32)
    states[..., 0] = 0.0
    arrays = {**rounded("probe", weight), "probe.bias": np.zeros(16, np.float32)}
    for end, given in (("", arrays), (_UNSIGNED, unsigned(arrays))):
        found = open_session(f"probe_int8{end}.onnx", given).run(None, {"embedded": states})[0]
        if np.allclose(found, states @ weight, rtol=1e-4):
            return end
    return None


# Eight bits for claims: the channels of the encoder's states are made even before they are rounded.
#
# A few of 384 channels reach ten times as far as the others. Rounded with one scale, the others lose their digits. So
# each channel is divided by how far it usually reaches, and the matrix is multiplied by the same number (SmoothQuant,
# Xiao et al. 2023). Where a layer narrows again that is not enough: there every ``BLOCK`` numbers have a scale of their
# own. ``channels.safetensors`` holds how far each channel reaches (``tools/make_channel_ranges.py``).

_SHARE = 0.75
"""Of the range of a channel that its matrix takes over; the rest is evened out between the rows of the matrix."""


@cache
def channel_ranges() -> Arrays:
    """The greatest number that each channel had, by the name of the matrix that it goes into."""
    return read_arrays(Path(__file__).with_name("channels.safetensors"), "the embedded models")


def rounded_even(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) in eight bits, and what each channel is multiplied by before it."""
    reach = channel_ranges().get(name)
    if reach is None:
        return rounded_in_blocks(name, weight)
    rows = np.maximum(np.abs(weight).max(axis=1), 1e-5)
    scale = np.maximum(reach, 1e-5) ** _SHARE / rows ** (1 - _SHARE)
    scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
    return {**rounded(name, weight * scale[:, None]), f"{name}.even": 1 / scale}


# The encoder's weights: those of the verified base file, with our small adapters added.

DIMENSION, LAYERS, HEADS = 384, 6, 12
WORDS = "embeddings.word_embeddings.weight"
MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
"""The matrices of a layer."""

_SHARING = threading.Lock()
"""Several gates load at once; one of them reads a shared table."""

Adapter = Mapping[str, NDArray[np.floating[Any]]]
"""Changes to the encoder: ``<parameter>.lora_a`` (r, in) and ``<parameter>.lora_b`` (out, r) are added as b @ a;
``<parameter>.delta`` is added as it is."""


class EncoderWeights:
    """The weights of one encoder: those of the file, with an adapter's changes added. Matrices are not kept here."""

    def __init__(self, adapter: Adapter | None = None) -> None:
        self._file = _open_file()
        self._adapter = adapter or {}
        names = set(self._file.keys())
        for key in self._adapter:
            name, _, kind = key.rpartition(".")
            if kind not in ("lora_a", "lora_b", "delta"):
                raise ModelUnavailable(f"the adapter has {key!r}: neither lora_a, lora_b nor delta")
            if name not in names:
                raise ModelUnavailable(f"the adapter names {name!r}, which all-MiniLM-L6-v2 does not have")

    def shared(self, name: str) -> NDArray[np.float32]:
        """A parameter of the file, without the adapter's change; one copy per process."""
        with _SHARING:
            return _shared_tensor(name)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A parameter as this encoder uses it."""
        stored: NDArray[np.float32] = self._file.get_tensor(name)
        if f"{name}.delta" in self._adapter:
            stored = stored + np.asarray(self._adapter[f"{name}.delta"], np.float32)
        if f"{name}.lora_a" in self._adapter:
            stored = stored + self._factor(name, "lora_b") @ self._factor(name, "lora_a")
        return stored

    def change(self, name: str) -> Callable[[NDArray[np.int64]], NDArray[np.float32]] | None:
        """The adapter's change to given rows of a table, as a function; None where it changes nothing there."""
        if f"{name}.delta" in self._adapter:
            table = np.asarray(self._adapter[f"{name}.delta"], np.float32)
            return lambda rows: table[rows]
        if f"{name}.lora_a" in self._adapter:
            down, up = self._factor(name, "lora_a"), np.ascontiguousarray(self._factor(name, "lora_b"))
            return lambda rows: up[rows] @ down
        return None

    def _factor(self, name: str, kind: str) -> NDArray[np.float32]:
        if f"{name}.{kind}" not in self._adapter:
            raise ModelUnavailable(f"the adapter has half of {name!r}: {kind} is missing")
        return np.asarray(self._adapter[f"{name}.{kind}"], np.float32)


@cache
def _shared_tensor(name: str) -> NDArray[np.float32]:
    tensor: NDArray[np.float32] = _open_file().get_tensor(name)
    return tensor


def _open_file() -> Any:
    """The weights, each read when it is asked for."""
    try:
        from safetensors import safe_open
    except ImportError:
        raise MissingExtra("all-MiniLM-L6-v2", "gates") from None
    return safe_open(minilm_folder() / "model.safetensors", framework="np")


def split_heads(weights: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.float32]]]:
    """A trained model's file as (adapter, heads)."""
    adapter = {k: v for k, v in weights.items() if not k.startswith("head.")}
    heads = {k.removeprefix("head."): np.asarray(v, np.float32) for k, v in weights.items() if k.startswith("head.")}
    return adapter, heads


# Texts as word pieces in windows, the network that reads them, and unit vectors of texts.
#
# ``Encoder``: windows of token ids in, token states out. ``MiniLM``: texts in, unit vectors out. A test holds it equal
# to the official pipeline to four decimals.

WINDOW_TOKENS = 256
"""Tokens that the encoder was trained to read at once, [CLS] and [SEP] included."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One window of a text, as the encoder sees it."""

    ids: tuple[int, ...]
    """[CLS] ... [SEP] included."""
    offsets: tuple[tuple[int, int], ...]
    """Character span of each token in the text; (0, 0) for [CLS] and [SEP]."""


@cache
def minilm_tokenizer() -> Any:
    """The word-piece tokenizer of the encoder, without padding or truncation."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("the tokenizer of all-MiniLM-L6-v2", "gates") from None
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text in word pieces, uncut."""

    ids: tuple[int, ...]
    """Without [CLS] and [SEP]."""
    offsets: tuple[tuple[int, int], ...]
    """Character span of each in the text."""

    def part(self, start: int, end: int) -> Pieces:
        """Some of them, at the places they have in the whole text."""
        return Pieces(self.ids[start:end], self.offsets[start:end])

    def windows(self, max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[Tokens]:
        """At most so many windows; more text than these hold is sampled evenly, its end always included.

        ``stride`` is how far each window starts after the one before it, in tokens.
        """
        body, ids, offsets = WINDOW_TOKENS - 2, self.ids, self.offsets
        starts = list(range(0, max(1, len(ids) - body + stride), stride)) if len(ids) > body else [0]
        if len(starts) > max_windows:
            picked = np.linspace(0, len(starts) - 1, max_windows).round().astype(int)
            starts = [starts[i] for i in sorted(set(picked.tolist()))]
        return [Tokens((101, *ids[s : s + body], 102), ((0, 0), *offsets[s : s + body], (0, 0))) for s in starts]


def pieces_of(text: str) -> Pieces:
    """A text in the encoder's word pieces."""
    encoded = minilm_tokenizer().encode(text, add_special_tokens=False)
    return Pieces(tuple(encoded.ids), tuple(encoded.offsets))


FIRST_WINDOW = WINDOW_TOKENS * 16
"""Characters of which the first window is made: far more than its tokens need in English or Chinese."""


def window_texts(texts: Sequence[str], max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[list[Tokens]]:
    """Each text as at most ``max_windows`` windows, as of ``Pieces.windows``.

    A text is cut before tokenizing where no window could reach: 1 MB of text must not cost 1 MB of tokenizing when a
    single window is asked for.
    """
    reach = [text if max_windows > 1 else text[:FIRST_WINDOW] for text in texts]
    return [pieces_of(text).windows(max_windows, stride) for text in reach]


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
_MADE_BY = (__file__, __file__, __file__)


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
        end = exact_graphs() if self._one_by_one else None
        if end is not None:
            kind, rounding, self._slower = ("even", rounded_even, _EVEN) if even else ("int8", rounded, 1.0)
            graph = f"encoder_{kind}{end}.onnx"
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
    kept = built("minilm", made_from, lambda: _arrays(weights, rounding))
    return unsigned(kept) if _UNSIGNED in graph else kept


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
