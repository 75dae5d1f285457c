"""Opening a picture that may be anything: huge, animated, broken, or not a picture at all."""

from __future__ import annotations

import io
from dataclasses import dataclass

from lazaretto.errors import InputError, TooLarge
from lazaretto.pictures import FORMATS, Unreadable, header

MAX_BYTES = 64 * 1024 * 1024
MAX_PIXELS = 120_000_000
"""Past this a picture is refused unread: it would take gigabytes to decode."""
LONG_SIDE = 1024
"""Frames are made to fit a square of this side before any model sees them."""
MAX_FRAMES = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as models get it: a few frames, small enough, in one format."""

    width: int
    height: int
    """As stored, before anything was made smaller."""
    format: str
    frame_count: int
    frames: tuple[bytes, ...]
    """JPEG bytes: the one frame, or up to ``MAX_FRAMES`` spread over an animation, first and last included."""


def open_picture(data: bytes, *, long_side: int = LONG_SIDE) -> Picture:
    """The picture, or an ``InputError`` that says what is wrong with it."""
    from PIL import Image, ImageOps

    if not data:
        raise InputError("image", "the file is empty", f"Give an encoded picture ({', '.join(FORMATS)})")
    if len(data) > MAX_BYTES:
        raise TooLarge("image", len(data), MAX_BYTES)
    try:
        header(data, MAX_PIXELS)
    except Unreadable as error:
        raise InputError("image", str(error), f"Give an encoded picture ({', '.join(FORMATS)})") from None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height, kind = *image.size, image.format or ""
            count = int(getattr(image, "n_frames", 1))
            wanted = (
                sorted({round(i * (count - 1) / (MAX_FRAMES - 1)) for i in range(MAX_FRAMES)}) if count > 1 else [0]
            )
            frames = []
            for index in wanted:
                if count > 1:
                    image.seek(index)
                elif kind == "JPEG":
                    image.draft("RGB", (long_side, long_side))  # decodes a huge JPEG at reduced size
                frames.append(_small_jpeg(ImageOps.exif_transpose(image), long_side))
            return Picture(width, height, kind, count, tuple(frames))
    except Exception as error:  # a hostile file may raise anything while it is decoded
        raise InputError(
            "image", f"the picture is damaged ({type(error).__name__}: {error})", "Encode it again"
        ) from None


def _small_jpeg(image: object, long_side: int) -> bytes:
    from PIL import Image

    assert isinstance(image, Image.Image)
    frame = image.convert("RGBA") if image.mode in ("P", "LA", "PA") else image
    if frame.mode == "RGBA":
        ground = Image.new("RGB", frame.size, "white")
        ground.paste(frame, mask=frame.getchannel("A"))
        frame = ground
    frame = frame.convert("RGB")
    frame.thumbnail((long_side, long_side))
    out = io.BytesIO()
    frame.save(out, "JPEG", quality=85)
    return out.getvalue()
