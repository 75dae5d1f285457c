"""The opener by itself: what it reads out of pictures, what it refuses, and that a worker answers the same."""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import ExifTags, Image, PngImagePlugin

from lazaretto.picture_worker import child, file_texts, opener
from lazaretto.picture_worker.opener import PictureBudget, PictureRefused, open_whole
from lazaretto.picture_worker.pool import WorkerPool

BUDGET = PictureBudget(20_000_000, 4_000_000)
SECONDS = 60.0


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


def with_words() -> bytes:
    """A PNG with text, markup and a text without letters."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", "The berth\0is nine")
    info.add_itxt("Note", "<b>pay</b> the <i>pilot</i>")
    info.add_text("Number", "4711")
    return saved(Image.new("RGB", (9, 5), "teal"), "PNG", pnginfo=info)


def with_exif() -> bytes:
    """A JPEG that lies on its side, with words in several fields."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif[ExifTags.Base.ImageDescription] = "quay three"
    exif[ExifTags.Base.XPTitle] = "pears".encode("utf-16-le")
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.UserComment] = b"ASCII\0\0\0ask the pilot"
    return saved(Image.new("RGB", (8, 4), "teal"), "JPEG", exif=exif, comment=b"by hand")


def moving(frames: int, side: int = 10) -> bytes:
    made = [Image.new("RGB", (side, side), (20 * n, 0, 0)) for n in range(frames)]
    return saved(made[0], "GIF", save_all=True, append_images=made[1:])


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool()
    yield made
    made.close()


NOISE = Image.frombytes("RGB", (60, 60), random.Random(1).randbytes(60 * 60 * 3))
PICTURES = {
    "words": with_words(),
    "exif": with_exif(),
    "moving": moving(9),
    "wide": saved(Image.new("RGB", (3 * opener.SIDE, 40), "teal"), "PNG"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_worker_answers_as_the_opener(pool: WorkerPool, name: str) -> None:
    found = open_whole(PICTURES[name], BUDGET)
    assert pool.ask(PICTURES[name], BUDGET, SECONDS) == found
    said = io.BytesIO()
    child._answer(said, found)
    lengths, rest = said.getvalue()[: child.REPLY.size], said.getvalue()[child.REPLY.size :]
    words, pixels = child.REPLY.unpack(lengths)
    assert json.loads(rest[:words])["digest"] == found.digest and len(rest) == words + pixels
    assert rest[words:] == b"".join(frame.pixels for frame in found.frames)


def test_words_beside_the_pixels_are_read() -> None:
    assert dict(open_whole(PICTURES["words"], BUDGET).texts) == {
        "PNG text Title": "The berth is nine",
        "PNG text Note": "pay the pilot",
    }
    told = open_whole(PICTURES["exif"], BUDGET).texts
    assert {"quay three", "pears", "ask the pilot", "by hand"} <= {words for _, words in told}, told


def test_more_words_than_are_read_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_texts, "MAX_TEXTS", 1)
    found = open_whole(PICTURES["words"], BUDGET)
    assert len(found.texts) == 1 and found[5] is False


def test_frames_are_turned_shrunk_and_chosen() -> None:
    (lying,) = open_whole(PICTURES["exif"], BUDGET).frames
    assert (lying.width, lying.height) == (4, 8)
    (wide,) = open_whole(PICTURES["wide"], BUDGET).frames
    assert (wide.width, wide.height) == (opener.SIDE, round(40 / 3))
    found = open_whole(PICTURES["moving"], BUDGET)
    assert found.header.animated and len(found.frames) == opener.FRAMES_SHOWN
    assert len({frame.pixels for frame in found.frames}) == opener.FRAMES_SHOWN
    few = open_whole(PICTURES["moving"], PictureBudget(20_000_000, 200))
    assert few.frames == () and "pixels" in few[8], "frames past the budget are not decoded"


@pytest.mark.parametrize(
    ("data", "budget", "rule"),
    [
        (b"", BUDGET, "not_a_picture"),
        (b"GIF is what it is not", BUDGET, "not_a_picture"),
        (PICTURES["wide"], PictureBudget(10, 4_000_000), "too_large"),
        (PICTURES["wide"], PictureBudget(20_000_000, 1_000), "bomb"),
        (PICTURES["exif"][:-60], BUDGET, "damaged"),
        (saved(NOISE, "PNG")[:-4_000], BUDGET, "damaged"),
    ],
)
def test_what_is_refused_has_a_rule(pool: WorkerPool, data: bytes, budget: PictureBudget, rule: str) -> None:
    with pytest.raises(PictureRefused) as mine:
        open_whole(data, budget)
    assert mine.value.rule == rule
    with pytest.raises(PictureRefused) as theirs:
        pool.ask(data, budget, SECONDS)
    assert (theirs.value.rule, theirs.value.problem) == (mine.value.rule, mine.value.problem)


def test_limits_are_set_where_the_system_has_them() -> None:
    resource = pytest.importorskip("resource", reason="not on Windows")
    child._bound("RLIMIT_OF_NO_SYSTEM", 1)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        child._bound("RLIMIT_CORE", 0, soft_only=True)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert child._used() >= os.times().user
    assert child.memory_limit(PictureBudget(1, 1_000_000)) > child.BASE_MEMORY
