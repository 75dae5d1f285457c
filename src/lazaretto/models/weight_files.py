"""Weights that ship with the product: arrays in one file, fitted numbers as JSON beside it.

``weights/sha256.json`` names the sha256 of every one of them, and of the networks' graphs; no other file is read:
damage, or a file of another version, would silently change verdicts. Who may write to the installation may
write that list too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.packed_changes import unpacked_changes

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
