"""Which memories look like one that was removed: they are read first, and not removed for their looks."""

from __future__ import annotations

import hashlib

from lazaretto.agents.album import AlbumItem
from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.kept_texts import KeptTexts
from lazaretto.pictures import opened
from lazaretto.pictures.hashing import PerceptualHash

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


_LOOKS: KeptTexts[tuple[PerceptualHash | None]] = KeptTexts(1 << 20, lambda _: 300)


def _look(picture: bytes) -> PerceptualHash | None:
    key = hashlib.sha256(picture).digest()
    known = _LOOKS.get(key)
    if known is None:
        try:
            known = (PerceptualHash.of(opened(picture)),)
        except UnreadablePicture:
            known = (None,)
        _LOOKS.put(key, known)
    return known[0]
