"""Pictures from strangers: the only place that opens them.

The header is read first and held against the policy's limits, and only then is anything decoded. Only the formats
named here are tried: some of Pillow's readers start programs (EPS), and a TIFF's pages may each be of any size.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, ImageOps, UnidentifiedImageError

from lazaretto.errors import UnreadablePicture
from lazaretto.policy import DEFAULT_LIMITS, Limits

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
FRAMES_SHOWN = 3
"""Of an animation judges see the first, the middle and the last frame."""

_FIXES = {
    "not_a_picture": f"Give the bytes of a picture ({', '.join(FORMATS)})",
    "bomb": "Make it smaller, or raise limits.max_pixels in the policy",
    "damaged": "Encode it again",
    "too_large": "Make it smaller, or raise limits.max_image_bytes in the policy",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What a picture says about itself, before decoding."""

    format: str
    width: int
    height: int
    animated: bool

    def __str__(self) -> str:
        return f"{self.width:,} x {self.height:,}"


@dataclass(frozen=True, slots=True)
class Picture:
    """A decoded picture."""

    header: Header
    frame_count: int
    """Frames it holds; 1 when only the first was asked for."""
    frames: tuple[Image.Image, ...]
    """Those that were asked for, in order."""


def read_header(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Header:
    """What the picture declares; ``UnreadablePicture`` when it is none, or past the limits."""
    return _open(data, limits)[1]


def first_frame(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """The first frame, its colours and transparency as stored."""
    return decode(data, limits).frames[0]


def first_frame_rgb(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """The first frame in three colours on white, in full size: what a network is given."""
    return decode(data, limits, flat=True).frames[0]


def frames_for_judges(data: bytes, limits: Limits = DEFAULT_LIMITS, *, side: int) -> Picture:
    """Up to ``FRAMES_SHOWN`` frames as a viewer shows them: upright, on white, shrunk to fit a square of ``side``."""
    return decode(data, limits, frames=FRAMES_SHOWN, flat=True, side=side)


def decode(
    data: bytes, limits: Limits = DEFAULT_LIMITS, *, frames: int = 1, flat: bool = False, side: int = 0
) -> Picture:
    """The one function that decodes; ``UnreadablePicture`` for what is no picture, damaged, or past the limits.

    ``frames``: at most so many, spread evenly from the first to the last. Those on the way to them count against
    ``max_pixels``, too: every frame is drawn on top of the one before. ``flat``: three colours, on white. ``side``:
    turned upright and shrunk to fit a square.
    """
    image, header = _open(data, limits)
    try:
        count = int(getattr(image, "n_frames", 1)) if frames > 1 else 1
        wanted = {round(i * (count - 1) / (frames - 1)) for i in range(frames)} if count > 1 else {0}
        last = max(wanted)
        _check_pixels(header.width * header.height * (last + 1), f"{header}, {last + 1} frames", limits)
        if side and count == 1:
            image.draft("RGB", (side, side))  # a large JPEG is decoded at reduced size
        shown, pixels = [], 0
        for index in range(last + 1):
            if index:
                image.seek(index)
            pixels += image.width * image.height
            # a later frame may be larger than the header said
            _check_pixels(pixels, f"frame {index + 1} of {image.width:,} x {image.height:,}", limits)
            if index in wanted:
                shown.append(_frame(image, flat, side))
        return Picture(header, count, tuple(shown))
    except UnreadablePicture:
        raise
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, EOFError, struct.error ...
        raise _unreadable("damaged", f"the picture is cut off or damaged ({type(error).__name__}: {error})") from None


def on_white(image: Image.Image) -> Image.Image:
    """A decoded picture as it looks on white paper: no transparency, three colours."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert("RGB")


def _open(data: bytes, limits: Limits) -> tuple[Image.Image, Header]:
    if len(data) > limits.max_image_bytes:
        raise _unreadable("too_large", f"{len(data):,} bytes are past the limit of {limits.max_image_bytes:,}")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _unreadable("bomb", f"the picture declares far more pixels than allowed ({error})") from None
    except UnidentifiedImageError:
        raise _unreadable("not_a_picture", "the bytes are not a picture" if data else "the file is empty") from None
    except Exception as error:  # a hostile header may raise anything
        raise _unreadable("damaged", f"the header cannot be read ({type(error).__name__}: {error})") from None
    header = Header(image.format or "", image.width, image.height, _animated(image))
    _check_pixels(header.width * header.height, str(header), limits)
    return image, header


def _animated(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # counting frames of a damaged file; decoding will say so
        return False


def _check_pixels(pixels: int, declared: str, limits: Limits) -> None:
    if pixels > limits.max_pixels:
        problem = (
            f"the picture declares {declared}: {pixels:,} pixels, of which at most {limits.max_pixels:,} are decoded"
        )
        raise _unreadable("bomb", problem)


def _frame(image: Image.Image, flat: bool, side: int) -> Image.Image:
    image.load()
    frame = ImageOps.exif_transpose(image) if side else image
    frame = on_white(frame) if flat else frame.copy()  # of its own: the next frame is drawn into ``image``
    if side:
        frame.thumbnail((side, side))
    return frame


def _unreadable(rule: str, problem: str) -> UnreadablePicture:
    return UnreadablePicture(rule, problem, _FIXES[rule])
