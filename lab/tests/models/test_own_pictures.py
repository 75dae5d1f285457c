"""Pictures of the laboratory's own making, decoded in this process."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from lazaretto.errors import UnreadablePicture
from lazaretto.policy import Limits
from lazaretto_lab.models.own_pictures import first_frame, first_frame_rgb


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_frame_is_whole_and_as_stored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    assert first_frame(encoded(Image.new("RGB", (60, 20)), "JPEG", exif=exif)).size == (60, 20)
    assert first_frame_rgb(encoded(Image.new("RGB", (1_600, 900), "navy"), "JPEG")).size == (1_600, 900)


def test_only_the_first_frame_counts_against_the_limit() -> None:
    first, *rest = (Image.new("RGB", (40, 30), (n, 0, 0)) for n in (0, 100, 200))
    data = encoded(first, "GIF", save_all=True, append_images=rest, duration=50)
    assert first_frame(data, Limits(max_pixels=40 * 30)).size == (40, 30)
    with pytest.raises(UnreadablePicture) as caught:
        first_frame(data, Limits(max_pixels=40 * 30 - 1))
    assert caught.value.rule == "bomb"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_colour_mode_becomes_rgb(mode: str) -> None:
    data = encoded(Image.new(mode, (20, 10)), "JPEG" if mode == "CMYK" else "PNG")
    assert first_frame_rgb(data).mode == "RGB"


def test_transparent_parts_are_white_on_request_only() -> None:
    data = encoded(Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "PNG")
    assert first_frame_rgb(data).getpixel((0, 0)) == (255, 255, 255)
    assert first_frame(data).getpixel((0, 0)) == (255, 0, 0, 0)
    keyed = encoded(Image.new("RGB", (4, 4), (1, 2, 3)), "PNG", transparency=(1, 2, 3))
    assert first_frame_rgb(keyed).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(20)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    for action in (first_frame, first_frame_rgb):
        with pytest.raises(UnreadablePicture):
            action(data)
