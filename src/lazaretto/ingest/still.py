"""A copy of a value in which nothing changes any more, to be judged and handed on in its place.

The maker of a value may still hold it, and a framework must afterwards read exactly the value that was judged.
Containers, models, dataclasses and plain objects are copied. Other values (mappings of libraries, exceptions, arrays)
stay, and ``cleaned`` reads them again once they were judged.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, defaultdict, deque
from typing import Any, TypeVar

from lazaretto.ingest.opening import MOST_PARTS, Parted, opened

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
