"""Every string of a value, wherever it stands: one reading for the proxy, the MCP gateway and the adapters.

Values that carry no text are named here (numbers, dates, classes) or in ``left_out.py``. All others are read, dict keys
too; unreadable parts are reported, so that the caller refuses them. ``replaced`` puts other words in place of strings.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lazaretto.ingest.opening import MOST_PARTS, Code, Opened, Silent, Step, Unreadable, opened

Path = tuple[Step, ...]
LeaveOut = Callable[[Path, Any], bool]
"""Whether a field cannot carry text, by its path and value."""
MOST_DEPTH = 64
_NAMES = frozenset({"name", "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "file_id"})
"""Fields whose values others choose; several of them, side by side, may say something."""
FEWEST_WORDS = 6
"""So many words in names are long enough for a sentence."""
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_NAME = 200
_SHORT = 2
"""Strings of so many characters, several in a row, are letters of one text."""
_FEWEST_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Found:
    """One string of a value."""

    path: Path
    text: str
    is_key: bool = False
    """Whether it is the key of a mapping, not a value."""


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part that cannot be read; to pass it on is to pass on something unjudged."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class FoundPicture:
    """Bytes that are a picture: they are judged as one."""

    path: Path
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadStrings:
    """The texts and pictures in a value."""

    texts: tuple[Found, ...] = ()
    pictures: tuple[FoundPicture, ...] = ()
    unread: tuple[UnreadPart, ...] = ()
    aside: tuple[str, ...] = ()
    """Names and ids that were left out and have several words."""

    @property
    def names(self) -> str:
        """Names and ids that were left out, in words, if they are long enough together to be a sentence; else empty."""
        lines = {" ".join(words_of(name)): len(words_of(name)) for name in self.aside}
        return "\n".join(lines) if sum(lines.values()) >= FEWEST_WORDS else ""

    @property
    def whole(self) -> bool:
        """Whether every part was read."""
        return not self.unread

    @property
    def text(self) -> str:
        """All strings as one text, in their order: an order that is cut in pieces is whole again."""
        return joined(self.texts)


def read_strings(value: Any, leave_out: LeaveOut | None = None) -> ReadStrings:
    """Every string of a value of any shape with its path. Nothing is consumed, and a value may hold itself."""
    walk = _Walk(leave_out)
    walk.read(value, ())
    return ReadStrings(tuple(walk.texts), tuple(walk.pictures), tuple(walk.unread), tuple(walk.aside))


def replaced(value: Any, words: Mapping[tuple[Path, bool], Any]) -> Any:
    """The value with other words at some places: ``(path, is_key)`` -> words.

    A part that cannot be made again (an exception, an object without a copy) is replaced by the words as a whole.
    """
    return _put(value, (), words) if words else value


def words_of(name: str) -> list[str]:
    """The words that a name or id is made of."""
    return [word for word in _SPLIT.split(name[:_LONGEST_NAME]) if word.isalpha() and len(word) > 1]


def joined(texts: tuple[Found, ...]) -> str:
    """Some strings as one text: keys before their values, letters in a row put together, else one line each."""
    lines: list[str] = []
    key: Found | None = None
    for group in _groups(texts):
        if len(group) > 1:
            lines.append("".join(found.text for found in group))
            key = None
            continue
        (found,) = group
        if found.is_key:
            lines.append(found.text)
            key = found
        elif key is not None and found.path == key.path:
            lines[-1] = f"{key.text}: {found.text}"
            key = None
        else:
            lines.append(found.text)
            key = None
    return "\n".join(line for line in lines if line.strip())


def _groups(texts: tuple[Found, ...]) -> Iterator[tuple[Found, ...]]:
    """Runs of letters that stand side by side, and every other string by itself."""
    run: list[Found] = []
    for found in (*texts, None):
        letters = found is not None and len(found.text) <= _SHORT
        if letters and found is not None and (not run or run[-1].path[:-1] == found.path[:-1]):
            run.append(found)
            continue
        sides = [tuple(each for each in run if each.is_key is keys) for keys in (True, False)]
        if max(map(len, sides)) >= _FEWEST_LETTERS:
            yield from (side for side in sides if side)
        else:
            yield from ((each,) for each in run)
        run = []
        if found is not None and letters:
            run = [found]
        elif found is not None:
            yield (found,)


@dataclass(slots=True)
class _Walk:
    leave_out: LeaveOut | None
    texts: list[Found] = field(default_factory=list)
    pictures: list[FoundPicture] = field(default_factory=list)
    unread: list[UnreadPart] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    _inside: set[int] = field(default_factory=set)
    _seen: int = 0

    def read(self, value: Any, path: Path) -> None:
        if self._seen > MOST_PARTS:
            return
        self._seen += 1
        if self._seen > MOST_PARTS:
            self.unread.append(UnreadPart((), f"holds more than {MOST_PARTS:,} parts"))
            return
        if path and self.leave_out is not None and self.leave_out(path, value):
            if path[-1] in _NAMES and type(value) is str and len(words_of(value)) > 1:
                self.aside.append(value)
            return
        if type(value) is str:
            self._found(value, path)
            return
        try:
            self._open(opened(value), value, path)
        except RecursionError:
            self.unread.append(UnreadPart(path, "is nested too deep"))

    def _open(self, found: Opened, value: Any, path: Path) -> None:
        if isinstance(found, (Silent, Code)):
            return
        if isinstance(found, Unreadable):
            self.unread.append(UnreadPart(path, found.why))
            return
        if found.text is not None:
            self._found(found.text, path)
        if found.picture is not None:
            self.pictures.append(FoundPicture(path, found.picture))
        if not found.parts or id(value) in self._inside:
            return
        if len(path) >= MOST_DEPTH:
            self.unread.append(UnreadPart(path, f"is nested deeper than {MOST_DEPTH}"))
            return
        self._inside.add(id(value))
        for step, part in found.parts:
            here = (*path, step)
            if found.keyed and isinstance(step, str) and not self._left_out_key(here):
                self._found(step, here, is_key=True)
            self.read(part, here)
        self._inside.discard(id(value))

    def _left_out_key(self, path: Path) -> bool:
        return self.leave_out is not None and self.leave_out((*path, KEY), path[-1])

    def _found(self, text: str, path: Path, is_key: bool = False) -> None:
        text = readable(text)
        if not text:
            return
        data = _encoded(text)
        if data is not None and not is_key:
            self._open(data, data, path)
            return
        self.texts.append(Found(path, text, is_key))
        for inner in _inside_json(text):
            self.texts.append(Found(path, inner, is_key))


KEY = "\0key"
"""The last step of the path by which ``leave_out`` is asked about the key of a mapping instead of its value."""


def readable(text: str) -> str:
    """The text with a sign in place of halves of characters, which no store can keep."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_FEWEST_ENCODED = 400
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FEWEST_OF_PICTURE = 40
_PICTURES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "Qk")
"""The first characters of pictures in base64."""
_FEWEST_SIGNS = 10
"""Different signs without which nothing of some length is base64."""


def _encoded(text: str) -> Opened | None:
    """The content of a string that is a data URL or long base64: a picture, a text, or something that is not read."""
    url = text.startswith("data:") and ";base64," in text[:200]
    body = text.partition(",")[2] if url else text
    picture = len(text) >= _FEWEST_OF_PICTURE and text.startswith(_PICTURES) and len(text) % 4 == 0
    long = len(text) >= _FEWEST_ENCODED and len(text) % 4 == 0 and len(set(text)) >= _FEWEST_SIGNS
    if not (url or long or picture) or not _BASE64.fullmatch(body):
        return None
    try:
        return opened(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        return None


_ESCAPED = re.compile(r"\\[u\"/bfnrt\\]")
_MOST_JSON = 1_000_000


def _inside_json(text: str) -> Iterator[str]:
    """The text of a JSON text once its escapes are read; nothing if it has none."""
    start = text.lstrip()[:1]
    if start not in ("{", "[", '"') or len(text) > _MOST_JSON or not _ESCAPED.search(text):
        return
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    inner = read_strings(value)
    inner_text = inner.text
    if inner_text and inner_text != text:
        yield inner_text


def _put(value: Any, path: Path, words: Mapping[tuple[Path, bool], Any]) -> Any:
    if not any(place[: len(path)] == path for place, _ in words):
        return value
    if (path, False) in words:
        return words[path, False]
    found = opened(value)
    if isinstance(found, (Silent, Code, Unreadable)) or not found.parts:
        return value
    done: list[tuple[Step, Any]] = []
    for step, part in found.parts:
        here = (*path, step)
        name = words.get((here, True), step) if found.keyed else step
        done.append((name, _put(part, here, words)))
    made = None if found.build is None else found.build(done)
    if made is None:  # it cannot be made again: the first notice stands for all of it
        return next(replacement for (place, _), replacement in words.items() if place[: len(path)] == path)
    return made
