"""Which memories look like one that was removed: they are read first, and not removed for their looks."""

from __future__ import annotations

from functools import lru_cache

from lazaretto.agents.album import AlbumItem
from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.gates.picture_hash import PerceptualHash
from lazaretto.kept_texts import also_forget
from lazaretto.pictures import opened

NEAR_BITS, NEAR_COLOURS = 6, 32
"""How far two pictures may look apart and still be near-duplicates."""


def near_duplicate(one: AlbumItem, other: AlbumItem) -> bool:
    """Pictures that look the same from afar; notes with nearly the same words."""
    if one.is_note != other.is_note:
        return False
    if one.is_note:
        mine, theirs = set(one.note.lower().split()), set(other.note.lower().split())
        return 2 * len(mine & theirs) >= len(mine | theirs)
    try:
        first, second = _look(one.picture), _look(other.picture)
    except PictureWorkerFailed:
        return False
    if first is None or second is None:
        return False
    return first.distance(second) <= NEAR_BITS and first.colour_gap(second) <= NEAR_COLOURS


@lru_cache(maxsize=4096)
def _look(picture: bytes) -> PerceptualHash | None:
    try:
        return PerceptualHash.of(opened(picture))
    except UnreadablePicture:
        return None


also_forget(_look.cache_clear)
