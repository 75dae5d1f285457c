"""Pages that people wrote for people: descriptions of the installed packages and docstrings of the standard library."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
import zlib
from collections.abc import Iterator

_PAGE, _SHORTEST, _MOST_OF_ONE, _MOST_DOCSTRINGS = 1_500, 200, 3, 200
_ACT = ("antigravity", "this", "idlelib", "turtledemo")
"""Modules that do something when they are imported."""


def pages() -> Iterator[tuple[str, int, str]]:
    """Name, number and text of each page."""
    for found in sorted(importlib.metadata.distributions(), key=lambda one: one.metadata["Name"].lower()):
        name = found.metadata["Name"].lower()
        text = str(found.metadata.json.get("description", ""))
        cut = [text[at : at + _PAGE].strip() for at in range(0, len(text), _PAGE)]
        long = [page for page in cut if len(page) >= _SHORTEST]
        several = dict.fromkeys((0, len(long) // 2, len(long) - 1)) if long else ()
        if not name.startswith("lazaretto"):
            yield from ((name, number, long[number]) for number in [*several][:_MOST_OF_ONE])
    yield from docstrings()


def docstrings() -> Iterator[tuple[str, int, str]]:
    """Long docstrings of the standard library, evenly from all modules."""
    found = []
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in _ACT:
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for part, value in [("", module), *vars(module).items()]:
            if part and not ((inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == name):
                continue
            text = inspect.getdoc(value) or ""
            if len(text) >= _SHORTEST:
                found.append((f"python: {name}.{part}", 0, text[:_PAGE]))
    yield from found[:: max(1, len(found) // _MOST_DOCSTRINGS)]


def judges(name: str) -> bool:
    """Whether the pages of a package judge; the others may be looked at."""
    return zlib.crc32(name.encode()) % 2 == 0
