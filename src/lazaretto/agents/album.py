"""What an agent keeps: pictures or notes, first in, first out.

A memory is a memory: the picture world and the text world use the same album, and everything downstream (retrieval,
rehearsal, repair, contact tracing) speaks of ``Keepsake`` without asking which of the two it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from lazaretto.errors import InputError


@dataclass(frozen=True, slots=True)
class Keepsake:
    """One thing in an album. Two keepsakes are the same when their content is: the key is its hash."""

    key: str
    """sha256 (hex) of the picture's bytes or the note's text."""
    title: str = field(default="", compare=False)
    """What a listing of the album shows: a picture's file name in words, or a note's first words."""
    picture: bytes = field(default=b"", repr=False, compare=False)
    """Encoded picture; empty for a note."""
    note: str = field(default="", compare=False)
    """The text; empty for a picture."""

    @property
    def is_note(self) -> bool:
        """Whether it is a text and not a picture."""
        return not self.picture


def picture_keepsake(data: bytes, title: str = "") -> Keepsake:
    """A keepsake from an encoded picture."""
    if not data:
        raise InputError("picture", "no bytes", "Give an encoded picture (PNG, JPEG, ...)")
    return Keepsake(hashlib.sha256(data).hexdigest(), title=title, picture=data)


def note_keepsake(text: str, title: str = "") -> Keepsake:
    """A keepsake from a note."""
    if not text.strip():
        raise InputError("note", "no text", "Give the note's words")
    return Keepsake(hashlib.sha256(text.encode()).hexdigest(), title=title or " ".join(text.split()[:6]), note=text)


@dataclass(frozen=True, slots=True)
class Album:
    """At most ``size`` keepsakes, oldest first. Copies are allowed: the same picture may come twice."""

    size: int = 10
    keepsakes: tuple[Keepsake, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError("album", f"size {self.size}", "An album holds at least 1")
        if len(self.keepsakes) > self.size:
            object.__setattr__(self, "keepsakes", self.keepsakes[-self.size :])

    def __len__(self) -> int:
        return len(self.keepsakes)

    def __iter__(self) -> Iterator[Keepsake]:
        return iter(self.keepsakes)

    def __contains__(self, key: object) -> bool:
        return any(keepsake.key == key for keepsake in self.keepsakes)

    def add(self, keepsake: Keepsake) -> Album:
        """The album with one more at the end; the oldest goes when it is full."""
        return replace(self, keepsakes=(*self.keepsakes, keepsake)[-self.size :])

    def put(self, slot: int, keepsake: Keepsake) -> Album:
        """The album with the keepsake in that slot instead of what was there."""
        kept = list(self.keepsakes)
        kept[slot] = keepsake
        return replace(self, keepsakes=tuple(kept))

    def without(self, keys: Iterable[str]) -> Album:
        """The album with every copy of those contents gone; nothing takes their place."""
        gone = frozenset(keys)
        return replace(self, keepsakes=tuple(k for k in self.keepsakes if k.key not in gone))

    def only(self, keys: Iterable[str]) -> Album:
        """The part of the album with those contents, in its order: what a bisection looks at."""
        kept = frozenset(keys)
        return replace(self, keepsakes=tuple(k for k in self.keepsakes if k.key in kept))

    def rolled_back(self, entries: int = 1) -> Album:
        """The album as it was before its newest entries came."""
        return replace(self, keepsakes=self.keepsakes[: max(0, len(self.keepsakes) - entries)])

    @property
    def listing(self) -> tuple[str, ...]:
        """Titles in order: what a plan may see of the album."""
        return tuple(k.title for k in self.keepsakes)
