"""Long lists in pieces that fit into one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
_SIZE = 500


def chunks(values: Iterable[T], size: int = _SIZE) -> Iterator[list[T]]:
    """``values`` in lists that fit into one statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk
