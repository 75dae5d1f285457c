"""Where the encoder runs: onnxruntime on the processor, with weights given from memory.

The graphs beside this module (``tools/make_encoder_graphs.py``) hold no weights: those of the verified base file, with
an adapter merged in, are handed over when a session opens. Only rounded numbers are kept on disk (``models/built.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto.models.weight_files import read_checked

Arrays = Mapping[str, NDArray[Any]]
_HERE = Path(__file__).parent
_MOST_THREADS = 4
"""More do not help a network of this size, and many busy processes share a machine."""


def open_session(graph: str, arrays: Arrays) -> Any:
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
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])


def thread_count() -> int:
    """``OMP_NUM_THREADS`` where it is set, else a thread per core, four at most."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else min(_MOST_THREADS, os.cpu_count() or 1)


def rounded(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) as whole numbers from -127 to 127, and the scale of each column."""
    scale = np.maximum(np.abs(weight).max(axis=0) / 127, 1e-8).astype(np.float32)
    return {f"{name}.weight": np.round(weight / scale).astype(np.int8), f"{name}.scale": scale}


BLOCK = 128
"""Numbers that share a scale in products by blocks."""


def rounded_in_blocks(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) as whole numbers around 128, and the scale of each block of each column."""
    blocks = weight.T.reshape(weight.shape[1], -1, BLOCK)
    scale = np.maximum(np.abs(blocks).max(axis=2) / 127, 1e-8).astype(np.float32)
    whole = np.round(blocks / scale[:, :, None]) + 128
    return {f"{name}.weight": whole.astype(np.uint8), f"{name}.scale": scale}


@cache
def int8_is_exact() -> bool:
    """Whether products in eight bits are exact here: on some older processors the sums overflow."""
    weight = np.full((64, 16), 127.0, np.float32)
    states = np.full((1, 4, 64), 255.0, np.float32)
    states[..., 0] = 0.0
    arrays = {**rounded("probe", weight), "probe.bias": np.zeros(16, np.float32)}
    found = open_session("probe_int8.onnx", arrays).run(None, {"embedded": states})[0]
    return bool(np.allclose(found, states @ weight, rtol=1e-4))
