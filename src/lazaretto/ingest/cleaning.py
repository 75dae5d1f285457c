"""A value of any shape, with other words in place of every string that may not be passed on.

All strings are judged together first, because an order may be cut in harmless pieces. Where that is held, each piece is
judged by itself to find the place; what is harmful only together is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lazaretto.ingest.strings import Found, LeaveOut, Path, ReadStrings, UnreadPart, joined, read_strings, replaced

Judge = Callable[[str], Awaitable[str]]
"""The text itself where it may be passed on, else the words to put in its place."""
JudgePicture = Callable[[bytes], Awaitable[str | None]]
"""None where a picture may be shown, else the words to put in its place."""
UNREADABLE = "[withheld by lazaretto: it could not be judged: it {why}]"
MOST_PIECES = 40
"""So many pieces are judged each by itself; where there are more, the whole is withheld."""
MOST_TOGETHER = 200_000
"""Characters that are judged as one text."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of a value."""

    value: Any
    """Itself where nothing was held."""
    changed: tuple[tuple[Path, bool], ...] = ()
    """Where words were put: path, and whether it is a key."""
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
) -> Cleaned:
    """The value as it may be passed on. If others still hold the value, give a copy of it
    (``still``); where there is none, one that reads otherwise after it was judged is withheld.

    ``picture`` judges pictures, which without it cannot be judged; ``block`` is what stands for a block with a picture.
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
    for one in reading.texts:
        if groups[-1] and size + len(one.text) > MOST_TOGETHER:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += len(one.text) + 1
    return [tuple(group) for group in groups if group]


async def _places(group: tuple[Found, ...], judge: Judge, words: dict[tuple[Path, bool], Any]) -> str | None:
    """Fill in what to put where; the words for the whole, where no single place can be told."""
    text = joined(group)
    if not text.strip():
        return None
    said = await judge(text)
    if said == text:
        return None
    if len({(one.path, one.is_key) for one in group}) == 1:
        words[group[0].path, group[0].is_key] = said
        return None
    if len(group) > MOST_PIECES:
        return said
    rest = []
    for one in group:
        piece = one.text if one.text.strip() else ""
        instead = await judge(piece) if piece else piece
        if instead != piece:
            words[one.path, one.is_key] = instead
        elif (one.path, one.is_key) not in words:
            rest.append(one)
    if len(rest) == len(group):
        return said  # harmful only together
    left = joined(tuple(rest))
    return said if left.strip() and await judge(left) != left else None
