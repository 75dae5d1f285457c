"""Writes ``channels.safetensors``: how far the channels of all-MiniLM-L6-v2 reach, for products in eight bits.

    python tools/make_channel_ranges.py

The plain encoder reads 600 written texts of the laboratory in full precision; of each channel that goes into a matrix
as wide as a state, the greatest absolute number is kept. The files of the relation models use the same numbers. Needs
the package ``onnx``, which the product does not. Then run ``tools/weight_digests.py``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import save_file

from lazaretto.models.minilm import DIMENSION, Encoder, encoder
from lazaretto.models.minilm.encoder import EncoderWeights
from lazaretto.reading.text import reading_of

ROOT = Path(__file__).parents[1]
WRITTEN = ROOT / "lab" / "src" / "lazaretto_lab" / "training" / "written"
FILES = ("notes_en", "notes_de", "notes_es", "notes_fr", "facts", "facts_prose", "rules", "facts_rules", "facts_forms",
         "long_a")  # fmt: skip
EACH, SEED = 60, 5
OUT = ROOT / "src" / "lazaretto" / "models" / "minilm" / "channels.safetensors"


def texts() -> Iterator[str]:
    """So many texts of each file, drawn by a fixed seed."""
    for name in FILES:
        rows = [json.loads(line) for line in (WRITTEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        long = [next((v for v in row.values() if isinstance(v, str) and len(v) > 40), "") for row in rows]
        some = [text for text in long if text]
        random.Random(SEED).shuffle(some)
        yield from some[:EACH]


def watched() -> tuple[onnxruntime.InferenceSession, dict[str, str]]:
    """The encoder in full precision that gives what goes into each matrix, and the output's name by matrix."""
    model = onnx.load(OUT.with_name("encoder.onnx"), load_external_data=False)
    into = {
        node.input[1].removesuffix(".weight"): node.input[0] for node in model.graph.node if node.op_type == "MatMul"
    }
    arrays = encoder._arrays(EncoderWeights(), None)
    into = {name: given for name, given in into.items() if len(arrays[f"{name}.weight"]) == DIMENSION}
    for given in sorted(set(into.values())):
        model.graph.output.append(helper.make_tensor_value_info(given, TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]), into


def main() -> None:
    """Read the texts; keep the greatest numbers."""
    session, into = watched()
    words, names = Encoder(), sorted(set(into.values()))
    reach: dict[str, NDArray[np.float32]] = {name: np.zeros(DIMENSION, np.float32) for name in names}
    for text in texts():
        ids = np.array([reading_of(text).first_window.ids])
        found = session.run(names, {"embedded": words._embedded(ids), "mask": np.ones_like(ids, np.int32)})
        for name, states in zip(names, found, strict=True):
            reach[name] = np.maximum(reach[name], np.abs(states[0]).max(axis=0))
    save_file({name: reach[given] for name, given in sorted(into.items())}, OUT)
    print(f"wrote {OUT.relative_to(ROOT)}: {len(into)} matrices, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
