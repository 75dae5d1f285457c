"""What albums are filled with: our own drawn pictures, a folder of the user's, or notes."""

from __future__ import annotations

from pathlib import Path

from lazaretto.agents.album import AlbumItem, note_item, picture_item
from lazaretto.agents.prompts import picture_title
from lazaretto_lab.worlds.scenes.album import PoolPicture, album_pool, folder_pool
from lazaretto_lab.worlds.scenes.scene import Scene, scene_pool
from lazaretto_lab.worlds.streams import stream


def scene_pictures(count: int, seed: int) -> tuple[AlbumItem, ...]:
    """``count`` pictures drawn by our own generator."""
    return _as_items(album_pool(count, seed))


def folder_pictures(folder: str | Path, count: int | None, seed: int) -> tuple[AlbumItem, ...]:
    """Pictures of a folder; a file that cannot be read is an error that names it."""
    return _as_items(folder_pool(folder, count, seed))


def scene_notes(count: int, seed: int) -> tuple[AlbumItem, ...]:
    """``count`` notes that say what a drawn picture would show."""
    rng = stream(seed, "notes")
    scenes = scene_pool(count, seed)
    return tuple(note_item(_note(scene, rng.random() < 0.5), scene.caption) for scene in scenes)


def _note(scene: Scene, seen: bool) -> str:
    verb = "is" if scene.count == 1 else "are"
    head = "I saw" if seen else f"There {verb}"
    return f"{head} {scene.subject} {scene.place}."


def _as_items(pictures: tuple[PoolPicture, ...]) -> tuple[AlbumItem, ...]:
    return tuple(picture_item(picture.data, picture_title(picture.file_name)) for picture in pictures)
