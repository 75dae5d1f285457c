"""Opening a picture that may be anything: huge, animated, broken, or not a picture at all."""

from __future__ import annotations

import io
from dataclasses import dataclass

from lazaretto.errors import InputError, TooLarge

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
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not data:
        raise InputError("image", "the file is empty", "Give an encoded picture (PNG, JPEG, GIF, WebP, BMP)")
    if len(data) > MAX_BYTES:
        raise TooLarge("image", len(data), MAX_BYTES)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise TooLarge("image (pixels)", width * height, MAX_PIXELS)
            count = int(getattr(image, "n_frames", 1))
            wanted = (
                sorted({round(i * (count - 1) / (MAX_FRAMES - 1)) for i in range(MAX_FRAMES)}) if count > 1 else [0]
            )
            frames = []
            for index in wanted:
                if count > 1:
                    image.seek(index)
                elif image.format == "JPEG":
                    image.draft("RGB", (long_side, long_side))  # decodes a huge JPEG at reduced size
                frames.append(_small_jpeg(ImageOps.exif_transpose(image), long_side))
            return Picture(width, height, image.format or "", count, tuple(frames))
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError("image", f"not a readable picture ({error})", "Give PNG, JPEG, GIF, WebP or BMP") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise InputError("image", f"the picture is damaged ({error})", "Encode it again") from None


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
