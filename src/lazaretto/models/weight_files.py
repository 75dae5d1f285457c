"""Weights that ship with the product: read from their files, verified and unpacked.

Arrays are in one file, fitted numbers as JSON beside it.

``weights/sha256.json`` names the sha256 of every one of them, and of the networks' graphs; no other file is read:
damage, or a file of another version, would silently change verdicts. Who may write to the installation may
write that list too.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable

SHIPPED = Path(__file__).parent
MANIFEST = "weights/sha256.json"
_TOOL = "tools/weight_digests.py"
"""Writes the list."""
_SUFFIXES = (".json", ".safetensors", ".onnx")
Arrays = dict[str, NDArray[np.float32]]
_expected: dict[Path, str] = {}
"""Files of other distributions with their sha256."""


def expect(file: Path, sha256: str) -> None:
    """Have a file outside of this package checked too, each time it is read."""
    _expected[file] = sha256


def read_checked(file: Path, model: str) -> bytes:
    """A file's bytes; ``ModelUnavailable`` where it should ship with this version but differs from it.

    ``model`` is its name in errors. Files in other folders, which a user trained, are read unchecked, but for those
    that ``expect`` named.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        fix = f"; run: {reinstall()}" if file.is_relative_to(SHIPPED) else ""
        raise ModelUnavailable(f"the weights of {model} are not in {file.parent}: {error}{fix}") from None
    if file.is_relative_to(SHIPPED):
        wanted = _manifest(SHIPPED).get(file.relative_to(SHIPPED).as_posix())
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            raise ModelUnavailable(
                f"{file} is not this version's (sha256 {found}), {model} does not read with it; run: {reinstall()}"
            )
    elif file in _expected and hashlib.sha256(data).hexdigest() != _expected[file]:
        raise ModelUnavailable(f"{file} is not this version's any more, {model} does not read with it")
    return data


def read_arrays(file: Path, model: str) -> Arrays:
    """The arrays of a safetensors file, unpacked and checked."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError:
        raise MissingExtra(model, "gates") from None
    data = read_checked(file, model)
    try:
        return unpacked_changes(load(data))
    except SafetensorError as error:
        raise ModelUnavailable(f"the weights of {model} in {file} cannot be read: {error}") from None


def read_fitted(file: Path, model: str) -> dict[str, Any]:
    """Numbers that were fitted for a model, from JSON, checked."""
    fitted: dict[str, Any] = json.loads(read_checked(file, model))
    return fitted


def read_weights(file: Path, fitted: Path, model: str) -> tuple[Arrays, dict[str, Any]]:
    """``read_arrays`` and ``read_fitted`` together."""
    return read_arrays(file, model), read_fitted(fitted, model)


def damaged() -> Iterator[str]:
    """The faults of the weights that ship, one text for each damaged file."""
    for name in sorted({*_manifest(SHIPPED), *digests(SHIPPED)}):  # one that the list does not name is not read either
        try:
            read_checked(SHIPPED / name, "lazaretto")
        except ModelUnavailable as error:
            yield str(error)


def digests(folder: Path) -> dict[str, str]:
    """Name and sha256 of every weight file in a folder, as the list has them."""
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.suffix in _SUFFIXES}
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files) if name != MANIFEST}


def reinstall() -> str:
    """The command that restores this version's files."""
    if (SHIPPED / "../../.." / _TOOL).is_file():  # a source tree, where a developer may have trained them
        return f"git checkout -- {SHIPPED}, or python {_TOOL} if you replaced it"
    return f"pip install --force-reinstall --no-deps lazaretto=={version('lazaretto')}"


@cache
def _manifest(folder: Path) -> dict[str, str]:
    try:
        listed: dict[str, str] = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelUnavailable(f"{folder / MANIFEST} cannot be read: {error}; run: {reinstall()}") from None
    return listed


# Trained low-rank changes as whole numbers with scales, in a quarter or half of the space of sixteen bits.
#
# Four bits with a scale for every 64 numbers lose a fortieth of the changes (sum of squares), eight bits with a scale
# for every row less than a ten-thousandth (lab/results/packed). What lies in a file says which it is: ``<name>.q4`` or
# ``<name>.q8``, and the scales as ``<name>.scale``.

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


# Memory that loading weights freed goes back to the system; glibc would keep it.


def give_back_memory() -> None:
    """Hand free memory back: 135 MB of a worker after its gates were loaded, 90 MB after a model that only some texts
    need."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
