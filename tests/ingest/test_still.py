"""What is judged is what is handed on: a copy that nobody else holds, or a value that is read once more."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import enum
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pydantic
import pytest

from lazaretto.ingest.opening import still
from lazaretto.ingest.strings import cleaned, read_strings

BAD = "ZEBRA ORDER"


@dataclasses.dataclass
class Page:
    lines: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    lines: list[str]


class Model(pydantic.BaseModel):
    lines: list[str]


class Named(NamedTuple):
    lines: list[str]


class Plain:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines


class Slotted:
    __slots__ = ("lines",)

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines


class Table(dict[str, Any]):
    pass


KINDS: dict[str, Any] = {
    "list": lambda lines: lines, "dict": lambda lines: {"lines": lines}, "tuple": lambda lines: (lines,),
    "deque": lambda lines: collections.deque([lines]), "ordered": lambda lines: collections.OrderedDict(a=lines),
    "default": lambda lines: collections.defaultdict(list, a=lines), "subclass of dict": lambda lines: Table(a=lines),
    "dataclass": Page, "frozen dataclass": Frozen, "model": lambda lines: Model.model_construct(lines=lines),
    "named tuple": Named, "object": Plain, "slots": Slotted, "namespace": lambda lines: SimpleNamespace(lines=lines),
    "keys that are no texts": lambda lines: {3: lines},
}  # fmt: skip
"""Values that hold a list which somebody else goes on filling."""


def shown(value: Any) -> str:
    """All that it says."""
    return read_strings(value).text


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_stays_as_it_was(kind: str) -> None:
    lines = ["tea is at four"]
    value = KINDS[kind](lines)
    copy = still(value)
    assert type(copy) is type(value) and shown(copy) == shown(value)
    lines.append(BAD)
    assert BAD in shown(value) and BAD not in shown(copy)


def test_what_cannot_be_copied_is_read_again() -> None:
    inner = {"a": "tea"}
    live = MappingProxyType(inner)
    assert still(live) is live

    async def judge(text: str) -> str:
        inner["a"] = BAD
        return text

    done = asyncio.run(cleaned(live, judge))
    assert done.whole is not None and "changes while it is read" in done.whole


def test_an_object_that_answers_otherwise_each_time_is_withheld() -> None:
    class Turning(collections.UserDict[str, str]):
        def __getitem__(self, key: str) -> str:
            said = super().__getitem__(key)
            self.data[key] = BAD
            return said

    async def judge(text: str) -> str:
        return text if BAD not in text else "[held]"

    value = Turning(a="tea")
    assert still(value) is value
    assert asyncio.run(cleaned(value, judge)).whole is not None


def test_a_text_that_says_two_things_is_passed_on_as_its_letters() -> None:
    class Sly(str):
        __slots__ = ()

        def __str__(self) -> str:
            return BAD

    class Marked(str):
        """One that says what it holds."""

    class Colour(enum.StrEnum):
        RED = "red"

    assert type(still(Sly("tea"))) is str and still(Sly("tea")) == "tea"
    assert type(still([Sly("tea")])[0]) is str
    kept = Marked("tea")
    assert still(kept) is kept and still(Colour.RED) is Colour.RED


def test_what_others_hold_is_never_emptied() -> None:
    class Shared(collections.abc.MutableMapping[str, Any]):
        def __init__(self, inner: dict[str, Any]) -> None:
            self.inner = inner

        def __getitem__(self, key: str) -> Any:
            return self.inner[key]

        def __setitem__(self, key: str, value: Any) -> None:
            self.inner[key] = value

        def __delitem__(self, key: str) -> None:
            del self.inner[key]

        def __iter__(self) -> Any:
            return iter(self.inner)

        def __len__(self) -> int:
            return len(self.inner)

    async def judge(text: str) -> str:
        return "[held]" if BAD in text else text

    value = Shared({"a": "tea", "b": BAD})
    done = asyncio.run(cleaned(still(value), judge))
    assert value.inner == {"a": "tea", "b": BAD} and BAD not in shown(done.value)


def test_what_has_nothing_to_change_or_holds_itself_is_no_trouble() -> None:
    sentinel, loop = object(), dict[str, Any](a="tea")
    loop["me"] = loop
    assert still(sentinel) is sentinel and still("tea") == "tea" and still(None) is None
    assert still(loop)["a"] == "tea"
    names = {"tea", "milk"}
    assert still(names) == names and still(names) is not names
    twice = ["tea"]
    both = still([twice, twice])
    assert both[0] is both[1] and both[0] is not twice
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert still(deep) is not None
