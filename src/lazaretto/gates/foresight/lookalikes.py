"""Memories that look like a removed one: they are read first, and not removed for their looks."""

from __future__ import annotations

import hashlib

from lazaretto.agents.album import AlbumItem
from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.kept_texts import KeptTexts
from lazaretto.pictures import opened
from lazaretto.pictures.hashing import PerceptualHash

NEAR_BITS, NEAR_COLOURS = 6, 32
"""Most difference between near-duplicate pictures."""


def near_duplicate(first: AlbumItem, second: AlbumItem) -> bool:
    """Pictures that look the same from afar; notes with nearly the same words."""
    if first.is_note != second.is_note:
        return False
    if first.is_note:
        mine, theirs = set(first.note.lower().split()), set(second.note.lower().split())
        return 2 * len(mine & theirs) >= len(mine | theirs)
    try:
        first_look, second_look = _look(first.picture), _look(second.picture)
    except PictureWorkerFailed:
        return False
    if first_look is None or second_look is None:
        return False
    return first_look.distance(second_look) <= NEAR_BITS and first_look.colour_gap(second_look) <= NEAR_COLOURS


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
