"""Trained changes in four bits with a scale for every 64 numbers: a quarter of the space, a fortieth of them lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP = 64
_TOP = 7


def packed(rows: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Rows whose length is a multiple of ``GROUP``, as pairs of four-bit numbers and their scales."""
    groups = rows.reshape(len(rows), -1, GROUP)
    scale = np.maximum(np.abs(groups).max(axis=2) / _TOP, 1e-6).astype(np.float16)
    whole = np.clip(np.round(groups / scale[:, :, None].astype(np.float32)), -_TOP, _TOP).astype(np.int8) + 8
    flat = whole.reshape(len(rows), -1).astype(np.uint8)
    return flat[:, ::2] | (flat[:, 1::2] << 4), scale


def unpacked_rows(pairs: NDArray[np.uint8], scale: NDArray[np.float16]) -> NDArray[np.float32]:
    """The rows that ``packed`` was given, nearly."""
    flat = np.stack([pairs & 15, pairs >> 4], axis=2).reshape(len(pairs), -1).astype(np.float32) - 8
    groups = flat.reshape(len(flat), -1, GROUP) * scale[:, :, None].astype(np.float32)
    return groups.reshape(len(flat), -1)


def unpacked_changes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """All of a file: ``<name>.lora_a`` (r, in) and ``<name>.lora_b`` (out, r); whatever else it holds, as it is."""
    found: dict[str, NDArray[np.float32]] = {}
    for name, value in arrays.items():
        if name.endswith(".q4"):
            rows = unpacked_rows(value, arrays[f"{name.removesuffix('.q4')}.scale"])
            plain = name.removesuffix(".q4")
            found[plain] = rows.T if plain.endswith(".lora_b") else rows
        elif not name.endswith(".scale"):
            found[name] = value.astype(np.float32)
    return found
