"""A value of any shape, with other words in place of every string that may not be passed on.

All strings are judged together first, because an order may be cut in harmless pieces. Where that is held, each piece is
judged by itself to find the place; pieces that are harmful only together are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lazaretto.ingest.strings import Found, LeaveOut, Path, ReadStrings, UnreadPart, joined, read_strings, replaced

Judge = Callable[[str], Awaitable[str]]
"""The text itself if it may be passed on, else the words to put in its place."""
JudgePicture = Callable[[bytes], Awaitable[str | None]]
"""None if a picture may be shown, else the words to put in its place."""
UNREADABLE = "[withheld by lazaretto: it could not be judged: it {why}]"
MOST_PIECES = 40
"""The most pieces that are judged each by itself; with more, the whole is withheld."""
MOST_TOGETHER = 200_000
"""Characters that are judged as one text."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result for a value."""

    value: Any
    """Itself where nothing was held."""
    changed: tuple[tuple[Path, bool], ...] = ()
    """Places of replaced words: path, and whether it is a key."""
    whole: str | None = None
    """The words that stand for all of it, where no part of it may be passed on."""


def text_block(words: str) -> Any:
    """A block of text as most protocols write it."""
    return {"type": "text", "text": words}


async def cleaned(
    value: Any,
    judge: Judge,
    *,
    picture: JudgePicture | None = None,
    leave_out: LeaveOut | None = None,
    block: Callable[[str], Any] = text_block,
    names: Judge | None = None,
) -> Cleaned:
    """The value as it may be passed on. If others still hold the value, give a copy of it
    (``still``); where there is none, one that reads otherwise after it was judged is withheld.

    ``picture`` judges pictures, which without it cannot be judged; ``block`` replaces a block with a picture;
    ``names`` judges names and ids that are left out, where they are a sentence together.
    """
    reading = read_strings(value, leave_out)
    words: dict[tuple[Path, bool], Any] = {}
    unread = list(reading.unread)
    for shown in reading.pictures:
        if picture is None:
            unread.append(UnreadPart(shown.path, "is a picture"))
        elif (held := await picture(shown.data)) is not None:
            place = _block_around(value, shown.path)
            words[place or (), False] = held if not place else block(held) if place != shown.path else held
    words |= {(part.path, False): UNREADABLE.format(why=part.why) for part in unread}
    for group in _groups(reading):
        whole = await _places(group, judge, words)
        if whole is not None:
            return Cleaned(whole, (((), False),), whole)
    if names is not None and reading.names and (whole := await names(reading.names)) != reading.names:
        return Cleaned(whole, (((), False),), whole)
    if read_strings(value, leave_out) != reading:
        whole = UNREADABLE.format(why="changes while it is read")
        return Cleaned(whole, (((), False),), whole)
    if ((), False) in words:
        return Cleaned(words[(), False], (((), False),), words[(), False])
    return Cleaned(replaced(value, words), tuple(words))


def _block_around(value: Any, path: Path) -> Path:
    """The path of the innermost block of a message that holds a picture; the picture's own where there is none."""
    found = path
    for depth, step in enumerate(path):
        if isinstance(value, Mapping) and "image" in str(value.get("type", "")):
            found = path[:depth]
        inner: Any = value if isinstance(value, (Mapping, list, tuple)) else {step: None}
        value = inner[step]
    return found


def _groups(reading: ReadStrings) -> list[tuple[Found, ...]]:
    """All strings, or as many at a time as may be judged as one text."""
    groups: list[list[Found]] = [[]]
    size = 0
    for found in reading.texts:
        if groups[-1] and size + len(found.text) > MOST_TOGETHER:
            groups.append([])
            size = 0
        groups[-1].append(found)
        size += len(found.text) + 1
    return [tuple(group) for group in groups if group]


async def _places(group: tuple[Found, ...], judge: Judge, words: dict[tuple[Path, bool], Any]) -> str | None:
    """Fill in the replacements by place; returns the words for the whole if no single place can be found."""
    text = joined(group)
    if not text.strip():
        return None
    instead_of_all = await judge(text)
    if instead_of_all == text:
        return None
    if len({(found.path, found.is_key) for found in group}) == 1:
        words[group[0].path, group[0].is_key] = instead_of_all
        return None
    if len(group) > MOST_PIECES:
        return instead_of_all
    rest = []
    for found in group:
        piece = found.text if found.text.strip() else ""
        instead = await judge(piece) if piece else piece
        if instead != piece:
            words[found.path, found.is_key] = instead
        elif (found.path, found.is_key) not in words:
            rest.append(found)
    if len(rest) == len(group):
        return instead_of_all  # harmful only together
    left = joined(tuple(rest))
    return instead_of_all if left.strip() and await judge(left) != left else None
