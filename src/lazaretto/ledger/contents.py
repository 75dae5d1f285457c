"""Finds items with exactly the same content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Protocol

import orjson

from lazaretto.types import Observation, SourceClass, plain

Content = tuple[bytes, SourceClass]
"""Digest of an item's content, and its source class."""


class _Items(Protocol):
    def items(self, *, ids: Sequence[str], any_state: bool, limit: int | None) -> list[Observation]:
        """The items of a ledger."""
        ...


def content_of(item: Observation) -> bytes:
    """Digest of an item's content: text, picture, fields, value and key."""
    parts = (item.text, item.image, item.fields, item.value, item.key)
    return hashlib.sha256(orjson.dumps(plain(parts))).digest()


class Contents:
    """The contents of those items that were asked for last. The callers' own lock keeps two threads apart."""

    def __init__(self, ledger: _Items) -> None:
        self._ledger = ledger
        self._known: dict[str, Content] = {}

    def of(self, ids: Collection[str]) -> dict[str, Content]:
        """The content of each item, without erased ones. Items that are not asked for are forgotten."""
        unread = [item for item in ids if item not in self._known]
        for read in self._ledger.items(ids=unread, any_state=True, limit=None) if unread else ():
            self._known[read.id] = content_of(read), read.source
        self._known = {item: self._known[item] for item in ids if item in self._known}
        return self._known
