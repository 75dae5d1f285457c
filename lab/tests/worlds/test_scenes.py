"""Scenes: many captions, the same picture for the same scene, and folders of pictures that are checked."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.worlds.scenes import Scene, album_pool, draw_scene, folder_pool, png_bytes, render, scene_pool
from lazaretto_lab.worlds.scenes.messages import draw_message, message_words
from lazaretto_lab.worlds.scenes.shapes import COLOURS, OBJECTS, PLACES


def test_thousands_of_distinct_captions() -> None:
    scenes = scene_pool(5000, 3)
    assert len({scene.caption for scene in scenes}) == 5000
    assert scene_pool(50, 3) == scenes[:50]


def test_captions_are_english() -> None:
    assert Scene("boat", "red", 2, "at the harbour").caption == "two red boats at the harbour"
    assert Scene("fish", "orange", 1, "by the lake").caption == "an orange fish by the lake"
    assert Scene("bus", "blue", 3, "in the city").file_name == "three-blue-buses-in-the-city.png"


def test_render_depends_on_everything_a_scene_says() -> None:
    scene = Scene("boat", "red", 2, "at the harbour", look=7)
    first = np.asarray(render(scene))
    assert first.shape == (224, 224, 3)
    assert (first == np.asarray(render(scene))).all()
    changed = [replace(scene, noun="key"), replace(scene, colour="blue"), replace(scene, count=3)]
    changed += [replace(scene, place="in the snow"), replace(scene, look=8)]
    changed += [replace(scene, message="Meet me at noon.", message_kind="sign")]
    for other in changed:
        assert (first != np.asarray(render(other))).mean() > 0.01


@pytest.mark.parametrize("noun", OBJECTS)
def test_every_object_shows_its_colour(noun: str) -> None:
    scene = Scene(noun, "purple", 1, "in the meadow", look=1)
    pixels = np.asarray(render(scene)).astype(int)
    purple = np.abs(pixels - (125, 53, 184)).sum(axis=2) < 120
    assert purple.mean() > 0.01, f"{noun} hardly shows its colour"


def test_messages_never_are_targets_and_cover_their_words() -> None:
    rng = random.Random(0)
    drawn = [draw_message(rng) for _ in range(5000)]
    assert not set(drawn) & set(TARGETS.values())
    known = {word.lower() for word in message_words()}
    on_boards = [sentence for name, sentence in TARGETS.items() if name != "marker-plan"]  # that one sounds like a plan
    for sentence in (*on_boards, *drawn[:200]):
        assert {word.rstrip(".").lower() for word in sentence.split()} <= known


def test_one_in_ten_is_held_out() -> None:
    rng = random.Random(1)
    share = np.mean([draw_scene(rng).held_out for _ in range(4000)])
    assert 0.07 < share < 0.13
    assert len(COLOURS) * len(OBJECTS) * len(PLACES) * 4 > 20_000


def test_album_pool_is_seeded() -> None:
    pool = album_pool(12, 5)
    assert [p.file_name for p in pool] == [p.file_name for p in album_pool(12, 5)]
    assert pool[0].data == album_pool(1, 5)[0].data
    assert pool[0].data[:4] == b"\x89PNG"


def test_folder_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for index, scene in enumerate(scene_pool(4, 0)):
        (tmp_path / "below" / f"{index}.png").write_bytes(png_bytes(render(scene)))
    (tmp_path / "notes.txt").write_text("not a picture")
    assert len(folder_pool(tmp_path)) == 4
    assert folder_pool(tmp_path, 2, seed=1) == folder_pool(tmp_path, 2, seed=1)
    with pytest.raises(InputError, match="5 asked for"):
        folder_pool(tmp_path, 5)


def test_wrong_folder_and_corrupt_picture_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        folder_pool(tmp_path / "absent")
    with pytest.raises(InputError, match="no pictures"):
        folder_pool(tmp_path)
    whole = png_bytes(render(scene_pool(1, 0)[0]))
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.png: the picture is cut off or damaged"):
        folder_pool(tmp_path)


def test_foreign_pictures_make_a_pool(shared_data: Path) -> None:
    folder = shared_data / "openclipart" / "png"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    pool = folder_pool(folder, 20, seed=0)
    assert len({p.file_name for p in pool}) > 15
