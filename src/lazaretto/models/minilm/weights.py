"""The encoder's weights: those of the verified base file, with our small adapters added."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.minilm.base import minilm_folder

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
