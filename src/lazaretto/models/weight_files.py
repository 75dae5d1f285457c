"""Weights that ship with the product: arrays in one file, what was fitted on them as JSON beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.packed_changes import unpacked_changes

Arrays = dict[str, NDArray[np.float32]]


def read_arrays(file: Path, model: str) -> Arrays:
    """The arrays of a safetensors file, unpacked; ``model`` is what errors call it."""
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtra(model, "gates") from None
    try:
        return unpacked_changes(load_file(file))
    except OSError as error:
        raise ModelUnavailable(f"the weights of {model} are not in {file.parent}: {error}") from None


def read_weights(file: Path, fitted: Path, model: str) -> tuple[Arrays, dict[str, Any]]:
    """The same, and the JSON that was fitted on them."""
    arrays = read_arrays(file, model)
    try:
        return arrays, json.loads(fitted.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnavailable(f"the weights of {model} are not in {fitted.parent}: {error}") from None
