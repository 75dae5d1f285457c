"""Pictures from strangers: read the header, hold it against the limits, and only then decode.

``PIL.Image.open`` reads headers alone; nothing here decodes a picture that declares more pixels than allowed. Only the
formats named here are tried, because some of Pillow's other readers start programs (EPS) or are rarely tested.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
SIDE = 32
_FREQUENCIES = 8
_POSITIONS = np.arange(SIDE)
_COSINES = np.cos(np.pi * (2 * _POSITIONS[None, :] + 1) * np.arange(_FREQUENCIES)[:, None] / (2 * SIDE))
"""The first rows of the DCT-II matrix; a matrix product of this size is faster than loading SciPy for its ``dct``."""
COLOUR_SIDE = 4


class Unreadable(Exception):
    """The bytes are not a picture that may be decoded; ``rule`` says why in one word, the text in a sentence."""

    def __init__(self, rule: str, problem: str) -> None:
        self.rule = rule
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Header:
    """What a picture says about itself, before decoding."""

    format: str
    width: int
    height: int
    animated: bool

    @property
    def pixels(self) -> int:
        """Width times height."""
        return self.width * self.height


def _open(data: bytes, max_pixels: int) -> tuple[Image.Image, Header]:
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Unreadable("bomb", f"the picture declares far more pixels than allowed ({error})") from None
    except UnidentifiedImageError:
        raise Unreadable("not_a_picture", f"the bytes are not a picture ({', '.join(FORMATS)})") from None
    except Exception as error:  # a hostile header may raise anything
        raise Unreadable("damaged", f"the header cannot be read ({type(error).__name__}: {error})") from None
    header = Header(image.format or "", image.width, image.height, _animated(image))
    if header.pixels > max_pixels:
        size = f"{header.width:,} x {header.height:,}"
        raise Unreadable("bomb", f"the picture declares {size} pixels; at most {max_pixels:,} are decoded")
    return image, header


def _animated(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # counting frames of a damaged file; decoding will say so
        return False


def header(data: bytes, max_pixels: int) -> Header:
    """What the picture declares; ``Unreadable`` when it is none, or past the limit."""
    return _open(data, max_pixels)[1]


def decode(data: bytes, max_pixels: int) -> Image.Image:
    """The first frame; ``Unreadable`` when the data are cut off, damaged or past the limit."""
    image, _ = _open(data, max_pixels)
    try:
        image.load()
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, EOFError, struct.error ...
        raise Unreadable("damaged", f"the picture is cut off or damaged ({type(error).__name__}: {error})") from None
    return image


def flat(image: Image.Image) -> Image.Image:
    """The picture as a viewer shows it on white paper: no transparency, three colours."""
    if image.mode in ("RGB", "L"):
        return image.convert("RGB")
    layered = image.convert("RGBA")
    paper = Image.new("RGBA", layered.size, "white")
    paper.alpha_composite(layered)
    return paper.convert("RGB")


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
        """The look of a decoded picture."""
        shown = flat(image)
        resample = Image.Resampling.LANCZOS
        grey = np.asarray(shown.convert("L").resize((SIDE, SIDE), resample), dtype=np.float64)
        waves: NDArray[np.float64] = (_COSINES @ grey @ _COSINES.T).ravel()
        bits = waves > np.median(waves[1:])
        bits[0] = False  # the mean brightness: it tells nothing about shape
        colours = shown.resize((COLOUR_SIDE, COLOUR_SIDE), Image.Resampling.BOX).tobytes()
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


def after_the_end(data: bytes, kind: str) -> int:
    """How many bytes stand after the picture's own end; 0 where the format does not say where it ends."""
    finders = {"PNG": _png_end, "JPEG": _jpeg_end, "GIF": _gif_end, "WEBP": _riff_end, "BMP": _bmp_end}
    finder = finders.get(kind)
    end = finder(data) if finder else len(data)
    return max(0, len(data) - end)


def _png_end(data: bytes) -> int:
    place = 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        kind = data[place + 4 : place + 8]
        place += 12 + length
        if kind == b"IEND":
            return min(place, len(data))
    return len(data)


def _jpeg_end(data: bytes) -> int:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xD9:
            return place + 2
        if marker == 0xFF:  # filler
            place += 1
            continue
        place += 2 if 0xD0 <= marker <= 0xD7 else 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        if marker == 0xDA:  # entropy-coded data run until a marker that is neither stuffing nor a restart
            place = _after_scan(data, place)
    return len(data)


def _after_scan(data: bytes, place: int) -> int:
    while True:
        place = data.find(b"\xff", place)
        if place < 0 or place + 1 >= len(data):
            return len(data)
        if data[place + 1] == 0 or 0xD0 <= data[place + 1] <= 0xD7:
            place += 2
        else:
            return place


def _gif_end(data: bytes) -> int:
    if len(data) < 13:
        return len(data)
    place = 13 + _colour_table(data[10])
    while place < len(data):
        block = data[place]
        if block == 0x3B:
            return place + 1
        if block == 0x2C and place + 10 <= len(data):
            place += 10 + _colour_table(data[place + 9]) + 1
        elif block == 0x21:
            place += 2
        else:
            return len(data)
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return len(data)


def _colour_table(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _riff_end(data: bytes) -> int:
    return 8 + int.from_bytes(data[4:8], "little")


def _bmp_end(data: bytes) -> int:
    return int.from_bytes(data[2:6], "little") or len(data)
