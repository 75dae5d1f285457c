"""What may happen to a picture on its way: JPEG, a flip, a change of size. Torch is imported at the top: import this
module from inside functions."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from lazaretto_lab.models.own_pictures import first_frame_rgb


def augmented(pixels: Tensor, kinds: Sequence[str], rng: torch.Generator) -> Tensor:
    """Pictures (n, 3, side, side) in 0 to 255, changed at random by half of the named kinds; gradients pass through."""
    for kind in kinds:
        if float(torch.rand((), generator=rng)) < 0.5:
            pixels = _CHANGES[kind](pixels, rng)
    return pixels


def _flip(pixels: Tensor, rng: torch.Generator) -> Tensor:
    return pixels.flip(-1)


def _resize(pixels: Tensor, rng: torch.Generator) -> Tensor:
    side = pixels.shape[-1]
    smaller = int(side * (0.75 + 0.2 * float(torch.rand((), generator=rng))))
    small = functional.interpolate(pixels, size=(smaller, smaller), mode="bilinear", antialias=True)
    return functional.interpolate(small, size=(side, side), mode="bilinear").clamp(0, 255)


def _jpeg(pixels: Tensor, rng: torch.Generator) -> Tensor:
    """Straight through: the picture is really compressed, the gradient passes as if it were not."""
    quality = int(70 + 25 * float(torch.rand((), generator=rng)))
    squeezed = [jpeg_array(p.detach().permute(1, 2, 0).round().to(torch.uint8).cpu().numpy(), quality) for p in pixels]
    real = torch.from_numpy(np.stack(squeezed)).to(pixels).permute(0, 3, 1, 2)
    return pixels + (real - pixels).detach()


def jpeg_array(array: np.ndarray, quality: int) -> np.ndarray:
    """8-bit pixels after JPEG compression."""
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="JPEG", quality=quality)
    return np.array(first_frame_rgb(buffer.getvalue()))


_CHANGES = {"flip": _flip, "resize": _resize, "jpeg": _jpeg}
