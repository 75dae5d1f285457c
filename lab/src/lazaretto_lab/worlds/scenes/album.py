"""Where albums get their pictures: our own scenes, or any folder of images."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from lazaretto.errors import InputError
from lazaretto_lab.models.own_pictures import first_frame_rgb
from lazaretto_lab.worlds.scenes.messages import draw_message
from lazaretto_lab.worlds.scenes.render import png_bytes, render
from lazaretto_lab.worlds.scenes.scene import Scene, scene_pool

SIGN_SHARE = 0.1
"""How many pictures of our own carry a board with a message."""
ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"})


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """One picture an album may hold."""

    file_name: str
    data: bytes
    """The encoded picture."""


def album_scenes(count: int, seed: int) -> tuple[Scene, ...]:
    """``count`` scenes with distinct captions, the same for the same seed."""
    return scene_pool(count, seed, signs=SIGN_SHARE, message=draw_message)


def album_pool(count: int, seed: int) -> tuple[PoolPicture, ...]:
    """The same, drawn. Processors differ in a few pixels of a few pictures: name a pool by its scenes."""
    return tuple(PoolPicture(scene.file_name, png_bytes(render(scene))) for scene in album_scenes(count, seed))


def folder_pool(folder: str | Path, count: int | None = None, seed: int = 0) -> tuple[PoolPicture, ...]:
    """Pictures of a folder (and those below it), ``count`` of them drawn at random, or all.

    A file that is no readable picture is an error that names it: a silently smaller pool would change the experiment.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError("folder", f"{root} is not a folder", "Name a folder that holds pictures")
    files = sorted(path for path in root.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        raise InputError("folder", f"no pictures in {root}", f"Looked for {', '.join(sorted(ENDINGS))}")
    if count is not None:
        if count > len(files):
            raise InputError("count", f"{count} asked for, {root} holds {len(files)}", "Ask for fewer")
        files = random.Random(f"folder:{seed}").sample(files, count)
    return tuple(PoolPicture(path.name, _readable(path)) for path in files)


def _readable(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        first_frame_rgb(data)
    except InputError as error:
        raise InputError("folder", f"{path}: {error.problem}", "Repair or remove it") from None
    return data
