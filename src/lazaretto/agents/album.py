"""An agent's album: pictures or notes (``AlbumItem``), first in, first out. All callers treat both alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from lazaretto.errors import InputError


@dataclass(frozen=True, slots=True)
class AlbumItem:
    """One thing in an album. Two album items are the same when their content is: the key is its hash."""

    key: str
    """sha256 (hex) of the picture's bytes or the note's text."""
    title: str = field(default="", compare=False)
    """The title in a listing of the album: a picture's file name in words, or a note's first words."""
    picture: bytes = field(default=b"", repr=False, compare=False)
    """The encoded picture; empty for a note."""
    note: str = field(default="", compare=False)
    """The text; empty for a picture."""

    @property
    def is_note(self) -> bool:
        """Whether it is a text and not a picture."""
        return not self.picture


def picture_item(data: bytes, title: str = "") -> AlbumItem:
    """An album item from an encoded picture."""
    if not data:
        raise InputError("picture", "no bytes", "Give an encoded picture (PNG, JPEG, ...)")
    return AlbumItem(hashlib.sha256(data).hexdigest(), title=title, picture=data)


def note_item(text: str, title: str = "") -> AlbumItem:
    """An album item from a note."""
    if not text.strip():
        raise InputError("note", "no text", "Give the note's words")
    return AlbumItem(hashlib.sha256(text.encode()).hexdigest(), title=title or " ".join(text.split()[:6]), note=text)


@dataclass(frozen=True, slots=True)
class Album:
    """At most ``size`` album items, oldest first. Copies are allowed: the same picture may come twice."""

    size: int = 10
    items: tuple[AlbumItem, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError("album", f"size {self.size}", "An album holds at least 1")
        if len(self.items) > self.size:
            object.__setattr__(self, "items", self.items[-self.size :])

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[AlbumItem]:
        return iter(self.items)

    def __contains__(self, key: object) -> bool:
        return any(item.key == key for item in self.items)

    def add(self, item: AlbumItem) -> Album:
        """The album with one more at the end; the oldest goes when it is full."""
        return replace(self, items=(*self.items, item)[-self.size :])

    def replaced(self, slot: int, item: AlbumItem) -> Album:
        """The album with the item in that slot, in place of the old one."""
        kept = list(self.items)
        kept[slot] = item
        return replace(self, items=tuple(kept))

    def without(self, keys: Iterable[str]) -> Album:
        """The album with every copy of those contents gone; nothing takes their place."""
        gone = frozenset(keys)
        return replace(self, items=tuple(item for item in self.items if item.key not in gone))

    def only(self, keys: Iterable[str]) -> Album:
        """The part of the album with those contents, in its order, for a bisection."""
        kept = frozenset(keys)
        return replace(self, items=tuple(item for item in self.items if item.key in kept))

    def rolled_back(self, entries: int = 1) -> Album:
        """The album as it was before its newest entries came."""
        return replace(self, items=self.items[: max(0, len(self.items) - entries)])

    @property
    def listing(self) -> tuple[str, ...]:
        """Titles in order: the part of the album that a plan may see."""
        return tuple(item.title for item in self.items)
