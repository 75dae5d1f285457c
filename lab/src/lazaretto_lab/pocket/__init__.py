"""Two small real networks that Lazaretto trains itself: pocket-clip retrieves, pocket-vlm speaks."""

from __future__ import annotations

from pathlib import Path

from lazaretto.models.own_networks import torch_device
from lazaretto.models.protocol import TextEmbedder
from lazaretto_lab.pocket.clip import PocketClip, load_pocket_clip
from lazaretto_lab.pocket.eyes import Eyes
from lazaretto_lab.pocket.vlm import PocketVlm, load_pocket_vlm
from lazaretto_lab.pocket.weights import FOLDER, load_backbone

__all__ = ["Eyes", "PocketClip", "PocketVlm", "load_pocket_clip", "load_pocket_models", "load_pocket_vlm"]


def load_pocket_models(
    device: str = "cpu", folder: Path = FOLDER, texts: TextEmbedder | None = None
) -> tuple[PocketVlm, PocketClip]:
    """Both models over one pair of eyes, so that a picture is encoded once for both.

    ``texts`` takes the place of the text tower, for instance the same encoder with a memory.
    """
    eyes = Eyes(load_backbone(), torch_device(device))
    return load_pocket_vlm(device, eyes, folder), load_pocket_clip(device, eyes, folder, texts)
