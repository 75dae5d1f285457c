"""Weights that ship with the product: arrays in one file, what was fitted on them as JSON beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable

Arrays = dict[str, NDArray[np.floating[Any]]]


def read_weights(arrays: Path, fitted: str, model: str) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a safetensors file and the JSON named ``fitted`` beside it; ``model`` is what errors call it."""
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtra(model, "gates") from None
    try:
        return load_file(arrays), json.loads(arrays.with_name(fitted).read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnavailable(f"the weights of {model} are not in {arrays.parent}: {error}") from None
