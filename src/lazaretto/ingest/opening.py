"""Opens a Python value of any kind: its parts, and how it is made again from changed parts.

An object is read by its attributes. One that holds more (made in C, a socket, an iterator) is reported as unreadable.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import re
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)
from dataclasses import dataclass
from pathlib import PurePath
from types import MemberDescriptorType, SimpleNamespace
from typing import Any, TypeVar

Step = str | int
Parts = list[tuple[Step, Any]]
MOST_PARTS = 200_000
"""Parts of one value that are read; more cannot be judged in any time."""
_NUMBERS = (int, float, complex, decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta,
            datetime.tzinfo, uuid.UUID, range)  # fmt: skip
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_BITMAP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
"""Sizes of a bitmap's second header; a text that begins with BM has letters there."""
_ZIP, _PDF, _OF_PDF = b"PK\x03\x04", b"%PDF-", re.compile(rb"\d\s{1,9}\d{1,9}\s{1,9}obj\b")
_MOST_BEFORE = 1_024
"""Readers of documents look for the beginning within so many bytes."""
_WIDE = (("utf-32-le", 4, 0), ("utf-32-be", 4, 3), ("utf-16-le", 2, 0), ("utf-16-be", 2, 1))
"""Encodings with several bytes for each letter: how many, and which of them is the letter of a Latin text."""
_NAMES = "names of attributes"
_WORD = 8
"""Bytes of one reference."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The value carries no text."""


@dataclass(frozen=True, slots=True)
class Code:
    """A class: code of the program, not data."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The value may carry text, and cannot be read."""

    why: str


@dataclass(frozen=True, slots=True)
class Parted:
    """The parts of the value."""

    parts: Parts = dataclasses.field(default_factory=list)
    build: Callable[[Parts], Any] | None = None
    """The same kind of value from changed parts; None if it cannot be made again."""
    text: str | None = None
    picture: bytes | None = None
    keyed: bool = False
    """Whether the steps are keys of the caller's choice, and so texts themselves."""


Opened = Silent | Code | Unreadable | Parted


def opened(value: Any) -> Opened:
    """The readable parts of a value. Code of the value itself may run and fail: then it cannot be read."""
    try:
        return _opened(value)
    except Exception as error:
        return Unreadable(f"cannot be read ({type(error).__name__})")


def _opened(value: Any) -> Opened:
    if value is None or isinstance(value, bool) or value is Ellipsis or value is NotImplemented:
        return Silent()
    if isinstance(value, enum.Enum):
        return Parted([("value", value.value)])
    if isinstance(value, str):
        return Parted(_attributes(value), text=str.__str__(value))
    if isinstance(value, type):
        return Code()
    if isinstance(value, _NUMBERS):
        return Parted(parts) if (parts := _attributes(value)) else Silent()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value))
    if isinstance(value, (PurePath, re.Pattern)):
        return Parted(text=str(value) if isinstance(value, PurePath) else _pattern(value))
    if isinstance(value, BaseException):
        return Parted(_of_exception(value))
    return _container(value) or _library(value) or _object(value)


def _bytes(data: bytes) -> Opened:
    if is_picture(data):
        return Parted(picture=data)
    if data.startswith(_ZIP) or (_PDF in data[:_MOST_BEFORE] and _OF_PDF.search(data)):
        return Unreadable("holds a document whose texts are packed")
    for encoding in ("utf-16", "utf-8") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8",):
        try:
            return Parted(_wide(data), text=data.decode(encoding))
        except UnicodeDecodeError:
            continue
    return Unreadable("holds bytes that are neither text nor a picture")


def is_picture(data: bytes) -> bool:
    """Whether bytes begin as a picture does."""
    if data[:2] == b"BM":
        return int.from_bytes(data[14:18], "little") in _BITMAP_HEADERS
    return data.startswith(_PICTURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def _wide(data: bytes) -> Parts:
    """Another reading of bytes: with several of them for each letter, where there are as many zeros as that asks."""
    zeros = data.count(0)
    if not zeros:
        return []
    return [
        (encoding, data[: len(data) // size * size].decode(encoding, "ignore"))
        for encoding, size, letter in _WIDE
        if 2 * (zeros - data[letter::size].count(0)) > len(data) - len(data) // size
    ]


def _pattern(value: re.Pattern[Any]) -> str:
    pattern = value.pattern
    return pattern if isinstance(pattern, str) else bytes(pattern).decode("utf-8", "replace")


def _of_exception(error: BaseException) -> Parts:
    message = str(error)
    parts: Parts = [("str", message), ("args", [arg for arg in error.args if arg != message])]
    parts.append(("notes", list(getattr(error, "__notes__", ()))))
    parts += [
        (name, error_beside)
        for name, error_beside in (("cause", error.__cause__), ("context", error.__context__))
        if error_beside
    ]
    if isinstance(error, BaseExceptionGroup):
        parts.append(("exceptions", list(error.exceptions)))
    attributes = [
        (name, part) for name, part in _attributes(error) if isinstance(part, (str, bytes, list, tuple, dict))
    ]
    return [*parts, *attributes]


def _container(value: Any) -> Opened | None:
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, (KeysView, ValuesView, ItemsView)):
        return Parted(_numbered(value), build=lambda parts: [part for _, part in parts])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named: Parts = list(zip(value._fields, value, strict=True))
        return Parted(named, build=lambda parts: type(value)(*(part for _, part in parts)))
    if isinstance(value, (Iterator, Awaitable, AsyncIterable)):
        return Unreadable("can be read only once, so it is not read here")
    if isinstance(value, (Sequence, Set, deque)):
        return Parted([*_numbered(value), *_attributes(value)], build=lambda parts: _again(value, parts))
    return None


def _numbered(value: Iterable[Any]) -> Parts:
    return list(enumerate(itertools.islice(value, MOST_PARTS + 1)))


def _mapping(value: Mapping[Any, Any]) -> Opened:
    """Keys that are texts are steps; any other key is a part of its own."""
    keys, parts = list(itertools.islice(value, MOST_PARTS + 1)), []
    if all(type(key) is str for key in keys):
        parts = [(key, value[key]) for key in keys]
        more = _attributes(value)
        return Parted([*parts, *more], build=lambda new: _mapping_again(value, new[: len(keys)]), keyed=True)
    pairs: Parts = [(number, (key, value[key])) for number, key in enumerate(keys)]
    return Parted(pairs, build=lambda new: _mapping_again(value, [pair for _, pair in new]))


def _mapping_again(value: Mapping[Any, Any], pairs: list[Any]) -> Any:
    made: dict[Any, Any] = {}
    for key, part in pairs:
        name, more = key, 2
        while name in made:  # two keys gave way to the same notice
            name, more = f"{key} {more}", more + 1
        made[name] = part
    if type(value) is dict or not isinstance(value, dict):  # a copy of another mapping may share its content
        return made
    try:
        same: Any = copy.copy(value)
        same.clear()
        same.update(made)
    except Exception:
        return made
    return same


def _again(value: Any, parts: Parts) -> Any:
    inner = [part for step, part in parts if isinstance(step, int)]
    try:
        return deque(inner, value.maxlen) if isinstance(value, deque) else type(value)(inner)
    except Exception:
        return inner


def _library(value: Any) -> Opened | None:
    """Values of libraries that keep their data in C, known by their methods."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None and callable(getattr(value, "tolist", None)) and not hasattr(value, "to_dict"):
        return Silent() if kind in "biufcmM" else Parted([("values", value.tolist())])
    module = type(value).__module__.partition(".")[0]
    if module == "torch" and hasattr(value, "dtype"):
        return Silent()
    if module in ("pandas", "polars") and callable(getattr(value, "to_dict", None)):
        inner = value.to_dict("split") if module == "pandas" and hasattr(value, "columns") else value.to_dict()
        return Parted([("values", inner), ("name", getattr(value, "name", None))])
    if module == "pydantic" and hasattr(value, "get_secret_value"):
        return Silent()  # shown to no model, and not to be recorded in clear
    return None


def _object(value: Any) -> Opened:
    if hasattr(type(value), "__pydantic_fields__") or hasattr(type(value), "model_fields"):
        return _model(value)
    if callable(value) and not dataclasses.is_dataclass(value) and not _plain(type(value)):
        return Unreadable(f"is a {type(value).__name__}, which says nothing until it is called")
    if not _plain(type(value)):
        return Unreadable(f"is a {type(value).__name__}, whose content cannot be seen")
    if isinstance(value, Iterable) and not _attributes(value):
        return Unreadable(f"is a {type(value).__name__}, which can be read only by running it")
    return Parted(_attributes(value), build=lambda parts: _changed(value, parts))


def _model(value: Any) -> Opened:
    """A pydantic model: its fields, its extra fields, and its private attributes."""
    spaces = [value.__dict__, getattr(value, "__pydantic_extra__", None), getattr(value, "__pydantic_private__", None)]
    parts: Parts = [(name, part) for space in spaces if space for name, part in space.items()]
    extra = set(spaces[1] or ())

    def build(new: Parts) -> Any:
        same = value.model_copy()
        inner = [same.__dict__, same.__pydantic_extra__ or {}, same.__pydantic_private__ or {}]
        for name, part in new:
            next(space for space in inner if name in space)[name] = part
        return same

    if extra:  # names that others chose are texts
        names = sorted(extra)
        parts.append((_NAMES, names))
        return Parted(parts, build=lambda new: build(new[:-1]) if new[-1][1] == names else None)
    return Parted(parts, build=build)


def _attributes(value: Any) -> Parts:
    """Attributes and slots of an object, and names of attributes that are no names in code."""
    parts: Parts = [(str(name), part) for name, part in getattr(value, "__dict__", {}).items()]
    anyhow = isinstance(value, SimpleNamespace)
    if odd := [name for name, _ in parts if anyhow or not str(name).isidentifier()]:
        parts.append((_NAMES, odd))
    for name, slot in _slots(type(value)):
        try:
            parts.append((name, slot.__get__(value)))
        except AttributeError:
            continue
    return parts


def _slots(kind: type) -> list[tuple[str, Any]]:
    """The slots that classes written in Python declare."""
    declared = (base for base in kind.__mro__ if "__slots__" in vars(base))
    members = (pair for base in declared for pair in vars(base).items())
    return [(name, slot) for name, slot in members if isinstance(slot, MemberDescriptorType)]


def _plain(kind: type) -> bool:
    """Whether objects of a class hold attributes only."""
    words = len(_slots(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= object.__basicsize__ + words * _WORD


def _changed(value: Any, parts: Parts) -> Any:
    try:
        same = copy.copy(value)
        if same is value:
            return None
        before = dict(_attributes(value))
        for name, part in parts:
            if name == _NAMES:
                if part != before[_NAMES]:
                    return None
            elif part is not before[name]:
                object.__setattr__(same, str(name), part)
    except Exception:
        return None
    return same


# A copy of a value in which nothing changes any more, to be judged and handed on in its place.
#
# The maker of a value may still hold it, and a framework must afterwards read exactly the value that was judged.
# Containers, models, dataclasses and plain objects are copied. Other values (mappings of libraries, exceptions, arrays)
# stay, and ``cleaned`` reads them again once they were judged.

T = TypeVar("T")
_FIXED = frozenset({str, int, float, complex, bool, bytes, type(None)})
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset, deque, OrderedDict, defaultdict})
_MOST_DEPTH = 80
"""Deeper than anything that is read."""
_MADE = "__new__ __init__ __init_subclass__ __doc__ __hash__ __reduce__ __reduce_ex__ __getnewargs__ __class__ __dir__"
_READ = frozenset(dir(str)) - frozenset(_MADE.split())
"""Methods by which a text is read."""


def still(value: T) -> T:
    """A copy of the value; the value itself where nothing in it can change, or no copy is sure."""
    made: T = _Copies().of(value, 0)
    return made


class _Copies:
    """The copies of one value's parts: a part that stands in it twice does so in the copy."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any, depth: int) -> Any:
        if type(value) in _FIXED:
            return value
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        if depth > _MOST_DEPTH or len(self._made) > MOST_PARTS:
            return value  # nobody reads so much: it is withheld
        self._made[id(value)] = (value, value)  # one that holds itself is read again instead
        self._made[id(value)] = (value, self._copied(value, depth))
        return self._made[id(value)][1]

    def _copied(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return value
        if isinstance(value, str):
            return str.__str__(value) if _reads_otherwise(type(value)) else value
        if isinstance(value, (bytearray, memoryview)):
            return type(value)(bytes(value))
        if type(value) in (set, frozenset) and all(type(member) in _FIXED for member in value):
            return value.copy()  # in the same order
        if not _is_copyable(type(value)):
            return value
        found = opened(value)
        if not isinstance(found, Parted) or found.build is None or not found.parts:
            return value
        try:
            made = found.build([(step, self.of(part, depth + 1)) for step, part in found.parts])
        except Exception:
            return value
        return value if made is None else made


def _is_copyable(kind: type) -> bool:
    """Whether a copy by attributes or items is surely the same thing, and shares nothing with it."""
    if kind in _CONTAINERS or issubclass(kind, dict):
        return True
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__pydantic_fields__"):
        return True
    items = any(hasattr(kind, name) for name in ("__getitem__", "__iter__", "__len__"))
    return not items and not hasattr(kind, "__del__") and not issubclass(kind, (BaseException, type))


def _reads_otherwise(kind: type) -> bool:
    """Whether a class of texts has methods of its own, which may return other text."""
    own = (vars(base) for base in kind.__mro__ if base is not str and issubclass(base, str))
    return any(not _READ.isdisjoint(names) for names in own)
