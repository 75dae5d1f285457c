"""Which items say exactly the same."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Protocol

import orjson

from lazaretto.types import Observation, SourceClass, plain

Content = tuple[bytes, SourceClass]
"""What an item says, as a digest, and from what kind of source."""


class _Items(Protocol):
    def items(self, *, ids: Sequence[str], hidden: bool, limit: int | None) -> list[Observation]:
        """As of a ledger."""
        ...


def content_of(item: Observation) -> bytes:
    """What an item says, wherever it stands: text, picture, fields, value, and the name it is kept under."""
    said = (item.text, item.image, item.fields, item.value, item.key)
    return hashlib.sha256(orjson.dumps(plain(said))).digest()


class Contents:
    """The contents of those items that were asked for last. The callers' own lock keeps two threads apart."""

    def __init__(self, ledger: _Items) -> None:
        self._ledger = ledger
        self._known: dict[str, Content] = {}

    def of(self, ids: Collection[str]) -> dict[str, Content]:
        """The content of each item; what was erased is left out. Items that are not asked for are forgotten."""
        unread = [item for item in ids if item not in self._known]
        for one in self._ledger.items(ids=unread, hidden=True, limit=None) if unread else ():
            self._known[one.id] = content_of(one), one.source
        self._known = {item: self._known[item] for item in ids if item in self._known}
        return self._known
