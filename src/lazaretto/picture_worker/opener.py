"""The only place that opens pictures. It imports Pillow alone, and ``file_texts``.

The header is held against the budget before anything is decoded. Only the formats named here are tried: some of
Pillow's readers start programs (EPS), and a TIFF's pages may each be of any size.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import NamedTuple

from PIL import ExifTags, Image, UnidentifiedImageError

from lazaretto.picture_worker.file_texts import file_texts

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
FRAMES_SHOWN = 3
"""Frames of an animation that judges see: the first, the middle and the last."""
SIDE = 1280
"""Frames for judges fit a square of this side: letters a person can read at a glance survive it."""
GREY_SIDE, COLOUR_SIDE = 32, 4
"""Sides of the small pictures for hashes."""
_STRIP = 256
"""Rows that are converted at once: a second copy of a large picture would be most of its price."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureRefused(Exception):
    """A picture that is not decoded, or not further."""

    def __init__(self, rule: str, problem: str) -> None:
        self.rule, self.problem = rule, problem
        super().__init__(problem)


class PictureBudget(NamedTuple):
    """The limits for one picture."""

    max_bytes: int
    max_pixels: int
    """Over all frames that are looked at, and those on the way to them."""


class Header(NamedTuple):
    """The facts in a picture's header, before decoding."""

    format: str
    width: int
    height: int
    animated: bool

    def __str__(self) -> str:
        return f"{self.width:,} x {self.height:,}"


class Frame(NamedTuple):
    """One frame as a viewer shows it: upright, on white, three colours."""

    width: int
    height: int
    pixels: bytes


class Opened(NamedTuple):
    """Everything that anybody wants to know of a picture, from one decoding."""

    header: Header
    digest: str
    """sha256 of the first frame's pixels: equal for every lossless encoding of one picture."""
    grey: bytes
    """The first frame in 32 x 32 greys, and below in 4 x 4 colours: what it looks like from afar."""
    colours: bytes
    texts: tuple[tuple[str, str], ...]
    """(where it stands, words) for every text that the file carries beside its pixels."""
    texts_whole: bool
    """False when there were more than are read."""
    frame_count: int
    frames: tuple[Frame, ...]
    fault: str
    """Why the later frames of an animation are not shown; ``frames`` is empty then."""


def open_whole(data: bytes, budget: PictureBudget) -> Opened:
    """Decode once; ``PictureRefused`` for data that is no picture, damaged, or past the budget."""
    image, header = _open(data, budget)
    try:
        image.load()
        digest = pixel_digest(image)
        shown = on_white(image)
        grey, colours = look(shown)
        texts, whole = file_texts(image, data)
        first = _frame(shown, _orientation(image))
        del shown
        if not header.animated:
            return Opened(header, digest, grey, colours, texts, whole, 1, (first,), "")
        count, frames, fault = _later_frames(image, header, first, budget)
        return Opened(header, digest, grey, colours, texts, whole, count, frames, fault)
    except (PictureRefused, MemoryError):
        raise
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, EOFError, struct.error ...
        raise _damaged(error) from None


def first_frame(data: bytes, budget: PictureBudget) -> Image.Image:
    """The first frame in full size, its colours and transparency as stored."""
    image, _ = _open(data, budget)
    try:
        image.load()
        return image.copy()
    except Exception as error:
        raise _damaged(error) from None


def on_white(image: Image.Image) -> Image.Image:
    """A decoded picture as it looks on white paper: no transparency, three colours."""
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    shown = Image.new("RGB", image.size, "white")
    for box, strip in _strips(image):
        layered = strip.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        shown.paste(Image.alpha_composite(white, layered).convert("RGB"), box)
    return shown


def pixel_digest(image: Image.Image) -> str:
    """sha256 of the decoded pixels: equal for every lossless encoding of one picture."""
    digest = hashlib.sha256(f"{image.width}x{image.height}:".encode())
    for _, strip in _strips(image):
        digest.update(strip.convert("RGBA").tobytes())
    return digest.hexdigest()


def look(shown: Image.Image) -> tuple[bytes, bytes]:
    """A picture on white, very small: (greys, colours)."""
    grey = shown.convert("L").resize((GREY_SIDE, GREY_SIDE), Image.Resampling.LANCZOS)
    return grey.tobytes(), shown.resize((COLOUR_SIDE, COLOUR_SIDE), Image.Resampling.BOX).tobytes()


def _strips(image: Image.Image) -> Iterator[tuple[tuple[int, int], Image.Image]]:
    for top in range(0, image.height, _STRIP):
        yield (0, top), image.crop((0, top, image.width, min(top + _STRIP, image.height)))


def _open(data: bytes, budget: PictureBudget) -> tuple[Image.Image, Header]:
    if len(data) > budget.max_bytes:
        raise PictureRefused("too_large", f"{len(data):,} bytes are past the limit of {budget.max_bytes:,}")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureRefused("bomb", f"the picture declares far more pixels than allowed ({error})") from None
    except UnidentifiedImageError:
        raise PictureRefused("not_a_picture", "the bytes are not a picture" if data else "the file is empty") from None
    except MemoryError:
        raise
    except Exception as error:  # a hostile header may raise anything
        raise PictureRefused("damaged", f"the header cannot be read ({type(error).__name__}: {error})") from None
    header = Header(image.format or "", image.width, image.height, _animated(image))
    _check_pixels(header.width * header.height, str(header), budget)
    return image, header


def _animated(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # counting frames of a damaged file; decoding will say so
        return False


def _later_frames(
    image: Image.Image, header: Header, first: Frame, budget: PictureBudget
) -> tuple[int, tuple[Frame, ...], str]:
    """(frames it holds, those shown, why not). Those on the way count too: each is drawn on top of the one before."""
    count = int(getattr(image, "n_frames", 1))
    if count < 2:
        return count, (first,), ""
    wanted = {round(i * (count - 1) / (FRAMES_SHOWN - 1)) for i in range(FRAMES_SHOWN)}
    shown, pixels, last = [first], header.width * header.height, max(wanted)
    try:
        _check_pixels(pixels * (last + 1), f"{header}, {last + 1} frames", budget)
        for index in range(1, last + 1):
            image.seek(index)
            pixels += image.width * image.height
            # a later frame may be larger than the header states
            _check_pixels(pixels, f"frame {index + 1} of {image.width:,} x {image.height:,}", budget)
            if index in wanted:
                image.load()
                shown.append(_frame(on_white(image)))
    except PictureRefused as error:
        return count, (), error.problem
    return count, tuple(shown), ""


def _frame(shown: Image.Image, orientation: int = 1) -> Frame:
    small = shown.copy() if max(shown.size) <= SIDE else shown.resize(_fitting(shown.size), reducing_gap=2.0)
    if orientation in _TURNS:
        small = small.transpose(_TURNS[orientation])
    return Frame(small.width, small.height, small.tobytes())


def _fitting(size: tuple[int, int]) -> tuple[int, int]:
    by = SIDE / max(size)
    return max(1, round(size[0] * by)), max(1, round(size[1] * by))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # no viewer would turn it either
        return 1


def _check_pixels(pixels: int, declared: str, budget: PictureBudget) -> None:
    if pixels > budget.max_pixels:
        raise PictureRefused(
            "bomb",
            f"the picture declares {declared}: {pixels:,} pixels, of which at most {budget.max_pixels:,} are decoded",
        )


def _damaged(error: Exception) -> PictureRefused:
    return PictureRefused("damaged", f"the picture is cut off or damaged ({type(error).__name__}: {error})")
