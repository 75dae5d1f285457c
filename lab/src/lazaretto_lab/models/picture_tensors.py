"""Image processors once more, in torch: what a model sees of a picture, with gradients for its pixels.

Processors of transformers read encoded pictures, and no gradient passes through them. What they do to a square picture
is a change of size, a normalisation and, for Qwen2-VL, a cut into patches; that is repeated here, and tests compare the
two. Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lazaretto.errors import ModelUnavailable


class PictureTensors:
    """The differentiable twin of one image processor."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._mean = torch.tensor(processor.image_mean).view(1, 3, 1, 1)
        self._std = torch.tensor(processor.image_std).view(1, 3, 1, 1)
        self.patched = hasattr(processor, "merge_size")
        """Whether a picture becomes rows of patches (Qwen2-VL) instead of one tensor."""

    def __call__(self, pictures: Tensor) -> Tensor:
        """(n, 3, side, side) in 0 to 1 -> (n, ...): for each what the processor would give for it alone."""
        if pictures.shape[-1] != pictures.shape[-2]:
            raise ModelUnavailable(f"a picture of {tuple(pictures.shape[-2:])} is not square")
        side = self._side(int(pictures.shape[-1]))
        if side != pictures.shape[-1]:
            pictures = functional.interpolate(pictures, size=(side, side), mode="bicubic", antialias=True).clamp(0, 1)
        ready = (pictures - self._mean.to(pictures)) / self._std.to(pictures)
        return self._patches(ready) if self.patched else ready

    def _side(self, side: int) -> int:
        if self.patched:
            return self._smart_side(side)
        size = dict(getattr(self._processor, "crop_size", None) or {}) or dict(self._processor.size)
        return int(size.get("height") or size["shortest_edge"])

    def _smart_side(self, side: int) -> int:
        """As Qwen2-VL fits pictures: a whole number of merged patches, within its least and most pixels."""
        made = self._processor
        unit, size = int(made.patch_size * made.merge_size), dict(made.size)
        least, most = int(size["shortest_edge"]), int(size["longest_edge"])
        fitted = max(unit, round(side / unit) * unit)
        if fitted**2 > most:
            return max(unit, int(most**0.5 // unit) * unit)
        if fitted**2 < least:
            return -int(-(least**0.5) // unit) * unit
        return fitted

    def _patches(self, ready: Tensor) -> Tensor:
        made = self._processor
        patch, merge, frames = made.patch_size, made.merge_size, made.temporal_patch_size
        count, grid = len(ready), ready.shape[-1] // patch
        blocks = ready[:, None].expand(-1, frames, -1, -1, -1)  # one still picture fills all frames of a patch
        blocks = blocks.reshape(count, frames, 3, grid // merge, merge, patch, grid // merge, merge, patch)
        return blocks.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(count, grid * grid, 3 * frames * patch * patch)
