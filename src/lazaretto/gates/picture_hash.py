"""What a picture is known by: a digest of its pixels, and a hash of what it looks like from afar."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lazaretto.pictures import on_white

_SIDE = 32
_FREQUENCIES = 8
_COSINES = np.cos(np.pi * (2 * np.arange(_SIDE)[None, :] + 1) * np.arange(_FREQUENCIES)[:, None] / (2 * _SIDE))
"""The first rows of the DCT-II matrix; a matrix product of this size is faster than loading SciPy for its ``dct``."""
_COLOUR_SIDE = 4


def pixel_digest(image: Image.Image) -> str:
    """sha256 of the decoded pixels: equal for every lossless encoding of one picture."""
    pixels = image.convert("RGBA")
    return hashlib.sha256(f"{pixels.width}x{pixels.height}:".encode() + pixels.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class PerceptualHash:
    """What a picture looks like from afar: a 64-bit perceptual hash and a coarse grid of colours."""

    hash: int
    colours: bytes

    @classmethod
    def of(cls, image: Image.Image) -> PerceptualHash:
        """The hash of a decoded picture."""
        shown = on_white(image)
        resample = Image.Resampling.LANCZOS
        grey = np.asarray(shown.convert("L").resize((_SIDE, _SIDE), resample), dtype=np.float64)
        waves: NDArray[np.float64] = (_COSINES @ grey @ _COSINES.T).ravel()
        bits = waves > np.median(waves[1:])
        bits[0] = False  # the mean brightness: it tells nothing about shape
        colours = shown.resize((_COLOUR_SIDE, _COLOUR_SIDE), Image.Resampling.BOX).tobytes()
        return cls(int.from_bytes(np.packbits(bits).tobytes(), "big"), colours)

    def distance(self, other: PerceptualHash) -> int:
        """How many of the 64 bits differ."""
        return (self.hash ^ other.hash).bit_count()

    def colour_gap(self, other: PerceptualHash) -> int:
        """The largest difference of any colour of the grid, 0 to 255."""
        return max(abs(a - b) for a, b in zip(self.colours, other.colours, strict=True))

    def hex(self) -> str:
        """As text, for storing."""
        return f"{self.hash:016x}{self.colours.hex()}"

    @classmethod
    def from_hex(cls, text: str) -> PerceptualHash:
        """Back from ``hex``."""
        return cls(int(text[:16], 16), bytes.fromhex(text[16:]))
