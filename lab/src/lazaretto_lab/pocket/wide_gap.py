"""The gap between texts and pictures, widened to CLIP's: the world in which a crafted picture can be fetched always.

Texts of pocket-clip share a direction that pictures hardly have (``clip.py``), but less of it than CLIP's texts do. A
picture crafted towards that direction is near to every plan, and how near decides how often it is fetched (beta). Here
every text is moved by the same amount along the one direction that tells texts from pictures best, until the centres
of both are as far apart as CLIP's. Drawn pictures all lie at one place of that direction, so which of them a plan
fetches does not change; what a crafted picture can reach does. Made and measured on benign life alone:
``lazaretto_lab.training.pocket.wide_gap``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.protocol import TextEmbedder, Vectors
from lazaretto_lab.pocket.weights import FOLDER, WIDE_GAP_FILE, checked


class WideGapTexts:
    """A ``TextEmbedder`` whose texts lie farther from pictures, all in the same direction."""

    def __init__(self, texts: TextEmbedder, direction: NDArray[np.float32], strength: float) -> None:
        self.texts, self.shift = texts, strength * direction
        self.name = f"{texts.name}, wide gap"
        self.dimension = texts.dimension

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        moved = self.texts.embed_texts(texts) + self.shift
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), dtype=np.float32)


def widened(texts: TextEmbedder, folder: Path = FOLDER) -> WideGapTexts:
    """The text tower with the gap that is kept beside the weights."""
    made = json.loads(checked(WIDE_GAP_FILE, folder).read_text())
    return WideGapTexts(texts, np.asarray(made["direction"], dtype=np.float32), float(made["strength"]))
