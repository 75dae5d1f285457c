"""The one opener of pictures: what is refused before it is decoded, and what callers get."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from PIL import Image

from lazaretto import pictures
from lazaretto.errors import InputError, UnreadablePicture
from lazaretto.picture_worker import opener
from lazaretto.policy import Limits

REPOSITORY = Path(__file__).resolve().parent.parent
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)  # type: ignore[arg-type]
    return out.getvalue()


def colours(count: int, size: tuple[int, int] = (40, 30)) -> list[Image.Image]:
    return [Image.new("RGB", size, (n * 200 // max(1, count - 1), 0, 0)) for n in range(count)]


def animation(kind: str, count: int, size: tuple[int, int] = (40, 30)) -> bytes:
    first, *rest = colours(count, size)
    return encoded(first, kind, save_all=True, append_images=rest, duration=50)


def refused(data: bytes, limits: Limits | None = None) -> str:
    """The rule by which every way of opening refuses the bytes."""
    rules = set()
    for action in (lambda: pictures.opened(data, limits or Limits()),):
        with pytest.raises(UnreadablePicture) as caught:
            action()
        assert isinstance(caught.value, InputError) and caught.value.field == "image" and caught.value.fix
        rules.add(caught.value.rule)
    assert len(rules) == 1, rules
    return rules.pop()


def shown(data: bytes, limits: Limits | None = None, side: int = 100) -> pictures.Picture:
    return pictures.frames_for_judges(pictures.opened(data, limits or Limits()), side=side)


def test_nothing_else_opens_pictures() -> None:
    sources = [
        file
        for folder in ("src/lazaretto", "lab/src/lazaretto_lab", "lab/benchmarks")
        for file in (REPOSITORY / folder).rglob("*.py")
    ]
    opening = [file for file in sources if "Image.open(" in file.read_text() or "Pillow.open(" in file.read_text()]
    assert len(sources) > 200
    assert opening == [REPOSITORY / "src/lazaretto/picture_worker/opener.py"]
    text = opening[0].read_text()
    assert text.count("Image.open(") == text.count("formats=FORMATS") == 1
    here = [f for f in sources if "first_frame" in f.read_text() and "src/lazaretto/" in f.as_posix()]
    assert [f.name for f in here] == ["opener.py"], "in the product, workers open pictures"


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "not_a_picture"),
        (EPS, "not_a_picture"),
        (b"plainly not a picture", "not_a_picture"),
        (encoded(Image.new("RGB", (20, 20)), "PPM"), "not_a_picture"),
        (encoded(Image.new("RGB", (20, 20)), "TIFF"), "not_a_picture"),
        (encoded(Image.new("RGB", (300, 300), "red"), "PNG")[:200], "damaged"),
    ],
)
def test_what_may_not_be_decoded_is_refused(data: bytes, rule: str) -> None:
    assert refused(data) == rule


def test_a_tiff_whose_second_page_is_huge_is_refused() -> None:
    pages = encoded(
        Image.new("1", (9, 9)),
        "TIFF",
        save_all=True,
        append_images=[Image.new("1", (9_000, 9_000))],
        compression="group4",
    )
    assert refused(pages) == "not_a_picture"


def test_the_limits_on_bytes_and_pixels_hold() -> None:
    data = encoded(Image.new("1", (400, 400)), "PNG")
    assert pictures.opened(data, Limits(max_pixels=160_000)).header.width == 400
    assert refused(data, Limits(max_pixels=159_999)) == "bomb"
    assert refused(data, Limits(max_image_bytes=len(data) - 1)) == "too_large"


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_shown_by_its_first_middle_and_last_frames(kind: str) -> None:
    picture = shown(animation(kind, 21))
    assert (picture.frame_count, picture.header.animated, len(picture.frames)) == (21, True, 3)
    reds = [frame.getpixel((5, 5))[0] for frame in picture.frames]
    assert reds == pytest.approx([0, 100, 200], abs=6)


def test_frames_on_the_way_count_against_the_limit() -> None:
    data = animation("GIF", 50)
    whole = Limits(max_pixels=50 * 40 * 30)
    assert shown(data, whole).frame_count == 50
    with pytest.raises(UnreadablePicture, match="50 frames") as caught:
        shown(data, Limits(max_pixels=50 * 40 * 30 - 1))
    assert caught.value.rule == "bomb"


def test_a_later_frame_larger_than_the_header_said_is_refused_undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(animation("GIF", 2))
    second = data.index(b",", data.index(b",") + 10)
    while struct.unpack_from("<HHHH", data, second + 1) not in ((0, 0, 40, 30),):
        second = data.index(b",", second + 1)
    struct.pack_into("<HHHH", data, second + 1, 0, 0, 5_000, 5_000)
    with pytest.raises(UnreadablePicture, match="frame 2 of 5,000 x 5,000") as caught:
        shown(bytes(data), Limits(max_pixels=1_000_000))
    assert caught.value.rule == "bomb"
    loaded = []
    load = Image.Image.load
    monkeypatch.setattr(Image.Image, "load", lambda self: (loaded.append(self.size), load(self))[1])
    assert "frame 2" in opener.open_whole(bytes(data), opener.PictureBudget(10_000, 1_000_000)).fault
    assert (5_000, 5_000) not in loaded


def test_a_large_photograph_is_shrunk_for_judges() -> None:
    data = encoded(Image.new("RGB", (1_600, 900), "navy"), "JPEG")
    (small,) = shown(data, side=400).frames
    assert small.size == (400, 225)


def test_judges_see_a_picture_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    data = encoded(Image.new("RGB", (60, 20)), "JPEG", exif=exif)
    assert shown(data).frames[0].size == (20, 60)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_colour_mode_becomes_rgb(mode: str) -> None:
    data = encoded(Image.new(mode, (20, 10)), "JPEG" if mode == "CMYK" else "PNG")
    assert shown(data).frames[0].mode == "RGB"


def test_transparent_parts_are_white() -> None:
    data = encoded(Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "PNG")
    keyed = encoded(Image.new("RGB", (4, 4), (1, 2, 3)), "PNG", transparency=(1, 2, 3))
    assert [shown(one).frames[0].getpixel((0, 0)) for one in (data, keyed)] == [(255, 255, 255)] * 2
