"""pocket-clip: texts and pictures in one space.

The text tower is the frozen all-MiniLM-L6-v2; the picture tower is the frozen backbone with a small head trained
against captions. Texts of a general encoder share a direction, and pictures trained against captions keep a distance
from it: the same gap that lets a crafted picture come close to all plans at once in CLIP.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lazaretto.models.own_networks import torch_device
from lazaretto.models.protocol import TextEmbedder, Vectors
from lazaretto_lab.pocket.eyes import Eyes
from lazaretto_lab.pocket.weights import (
    CLIP_FILE,
    FOLDER,
    WIDE_GAP_FILE,
    fingerprint,
    load_backbone,
    load_clip_head,
)

if TYPE_CHECKING:
    from lazaretto_lab.pocket.networks import ClipHead


class PocketClip:
    """An ``ImageTextEmbedder``."""

    def __init__(
        self, eyes: Eyes, head: ClipHead, texts: TextEmbedder, fingerprint: str = "", name: str = "pocket-clip"
    ) -> None:
        self.eyes, self.head, self.texts, self.name = eyes, head.to(eyes.device), texts, name
        self.fingerprint = fingerprint
        """sha256 of the weights, where they came from a file."""
        self.dimension = texts.dimension

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        return self.texts.embed_texts(texts)

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """One unit row per encoded picture."""
        import torch

        if not images:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with torch.no_grad():
            rows = self.head(self.eyes.patches(images))
        return np.asarray(rows.cpu().numpy(), dtype=np.float32)


def load_pocket_clip(
    device: str = "cpu", eyes: Eyes | None = None, folder: Path = FOLDER, texts: TextEmbedder | None = None
) -> PocketClip:
    """pocket-clip with the shipped weights; ``eyes`` to share a backbone with pocket-vlm."""
    from lazaretto.models.minilm import shared_minilm

    eyes = eyes or Eyes(load_backbone(), torch_device(device))
    return PocketClip(eyes, load_clip_head(folder), texts or shared_minilm(), fingerprint(CLIP_FILE, folder))


def with_wide_gap(clip: PocketClip, folder: Path = FOLDER) -> PocketClip:
    """The same eyes and head among texts that lie as far from pictures as CLIP's (``wide_gap.py``)."""
    from lazaretto_lab.pocket.wide_gap import widened

    marks = f"{clip.fingerprint}-{fingerprint(WIDE_GAP_FILE, folder)}"
    return PocketClip(clip.eyes, clip.head, widened(clip.texts, folder), marks, f"{clip.name}, wide gap")
