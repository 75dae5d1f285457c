"""Eight bits for claims: the channels of the encoder's states are made even before they are rounded.

A few of 384 channels reach ten times as far as the others. Rounded with one scale, the others lose their digits. So
each channel is divided by how far it usually reaches, and the matrix is multiplied by the same number (SmoothQuant,
Xiao et al. 2023). Where a layer narrows again that is not enough: there every ``BLOCK`` numbers have a scale of their
own. ``channels.safetensors`` holds how far each channel reaches (``tools/make_channel_ranges.py``).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm.session import rounded, rounded_in_blocks
from lazaretto.models.weight_files import Arrays, read_arrays

_SHARE = 0.75
"""Of the range of a channel that its matrix takes over; the rest is evened out between the rows of the matrix."""


@cache
def channel_ranges() -> Arrays:
    """The greatest number that each channel had, by the name of the matrix that it goes into."""
    return read_arrays(Path(__file__).with_name("channels.safetensors"), "the embedded models")


def rounded_even(name: str, weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A matrix (in, out) in eight bits, and what each channel is multiplied by before it."""
    reach = channel_ranges().get(name)
    if reach is None:
        return rounded_in_blocks(name, weight)
    rows = np.maximum(np.abs(weight).max(axis=1), 1e-5)
    scale = np.maximum(reach, 1e-5) ** _SHARE / rows ** (1 - _SHARE)
    scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
    return {**rounded(name, weight * scale[:, None]), f"{name}.even": 1 / scale}
