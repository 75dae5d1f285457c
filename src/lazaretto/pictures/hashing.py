"""Perceptual hash of a picture: it stays when the picture is shrunk, encoded again or slightly changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lazaretto.picture_worker.opener import COLOUR_SIDE, GREY_SIDE, Opened, look, on_white

_FREQUENCIES = 8
_COSINES = np.cos(np.pi * (2 * np.arange(GREY_SIDE)[None, :] + 1) * np.arange(_FREQUENCIES)[:, None] / (2 * GREY_SIDE))
"""The first rows of the DCT-II matrix; a matrix product of this size is faster than loading SciPy for its ``dct``."""


@dataclass(frozen=True, slots=True)
class PerceptualHash:
    """The look of a picture from afar: a 64-bit perceptual hash and a coarse grid of colours."""

    hash: int
    colours: bytes

    @classmethod
    def of(cls, picture: Opened | Image.Image) -> PerceptualHash:
        """The hash of a picture that a worker opened, or of one that is decoded."""
        greys, colours = (picture.grey, picture.colours) if isinstance(picture, Opened) else look(on_white(picture))
        if len(colours) != COLOUR_SIDE * COLOUR_SIDE * 3:
            raise ValueError("a picture's looks are three colours in a grid of four by four")
        grey = np.frombuffer(greys, dtype=np.uint8).reshape(GREY_SIDE, GREY_SIDE).astype(np.float64)
        waves: NDArray[np.float64] = (_COSINES @ grey @ _COSINES.T).ravel()
        bits = waves > np.median(waves[1:])
        bits[0] = False  # the mean brightness: it tells nothing about shape
        return cls(int.from_bytes(np.packbits(bits).tobytes(), "big"), colours)

    def distance(self, other: PerceptualHash) -> int:
        """How many of the 64 bits differ."""
        return (self.hash ^ other.hash).bit_count()

    def colour_gap(self, other: PerceptualHash) -> int:
        """The largest difference of any colour of the grid, 0 to 255."""
        return max(abs(a - b) for a, b in zip(self.colours, other.colours, strict=True))

    def hex(self) -> str:
        """The hash as text, for storing."""
        return f"{self.hash:016x}{self.colours.hex()}"

    @classmethod
    def from_hex(cls, text: str) -> PerceptualHash:
        """Back from ``hex``."""
        return cls(int(text[:16], 16), bytes.fromhex(text[16:]))
