"""Trained low-rank changes as whole numbers with scales, in a quarter or half of the space of sixteen bits.

Four bits with a scale for every 64 numbers lose a fortieth of the changes (sum of squares), eight bits with a scale for
every row less than a ten-thousandth (lab/results/packed). What lies in a file says which it is: ``<name>.q4`` or
``<name>.q8``, and the scales as ``<name>.scale``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP = 64
"""Four-bit numbers that share a scale."""
_TOP = {4: 7, 8: 127}


def packed(name: str, change: NDArray[Any], bits: int) -> dict[str, NDArray[Any]]:
    """One half of a change, ``<parameter>.lora_a`` (r, in) or ``<parameter>.lora_b`` (out, r), as it is stored: r rows,
    for four bits of a length that is a multiple of ``GROUP``."""
    rows = np.ascontiguousarray(change.T if name.endswith(".lora_b") else change, np.float32)
    groups = rows.reshape(len(rows), -1, GROUP if bits == 4 else rows.shape[1])
    scale = np.maximum(np.abs(groups).max(axis=2) / _TOP[bits], 1e-6).astype(np.float16)
    whole = np.clip(np.round(groups / scale[:, :, None].astype(np.float32)), -_TOP[bits], _TOP[bits])
    flat = whole.reshape(rows.shape).astype(np.int8)
    if bits == 4:
        halves = (flat + 8).astype(np.uint8)
        return {f"{name}.q4": halves[:, ::2] | (halves[:, 1::2] << 4), f"{name}.scale": scale}
    return {f"{name}.q8": flat, f"{name}.scale": scale}


def packed_changes(arrays: Mapping[str, NDArray[Any]], bits: int) -> dict[str, NDArray[Any]]:
    """All arrays of a file: changes packed, other arrays unchanged."""
    found: dict[str, NDArray[Any]] = {}
    for name, value in arrays.items():
        found.update(packed(name, value, bits) if name.endswith((".lora_a", ".lora_b")) else {name: value})
    return found


def unpacked_changes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """All arrays of a file: ``<name>.lora_a`` (r, in), ``<name>.lora_b`` (out, r); other arrays unchanged."""
    found: dict[str, NDArray[np.float32]] = {}
    for name, value in arrays.items():
        plain, _, kind = name.rpartition(".")
        if kind in ("q4", "q8"):
            rows = _rows(value, arrays[f"{plain}.scale"])
            found[plain] = rows.T if plain.endswith(".lora_b") else rows
        elif kind != "scale":
            found[name] = value.astype(np.float32, copy=False)
    return found


def _rows(stored: NDArray[Any], scale: NDArray[np.float16]) -> NDArray[np.float32]:
    """The numbers of a stored array, with each scale spread over those that share it."""
    if stored.dtype == np.uint8:
        stored = np.stack([stored & 15, stored >> 4], axis=2).reshape(len(stored), -1).astype(np.int8) - 8
    groups = stored.reshape(*scale.shape, -1).astype(np.float32) * scale[:, :, None].astype(np.float32)
    return groups.reshape(len(stored), -1)
