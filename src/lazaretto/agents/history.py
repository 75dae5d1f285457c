"""An agent's memory of its chats: the last few records, first in, first out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lazaretto.agents.prompts import HISTORY, ChatRecord
from lazaretto.errors import InputError


@dataclass(frozen=True, slots=True)
class History:
    """At most ``size`` records, oldest first."""

    size: int = HISTORY
    records: tuple[ChatRecord, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InputError("history", f"size {self.size}", "A history holds 0 or more records")
        if len(self.records) > self.size:
            object.__setattr__(self, "records", self.records[len(self.records) - self.size :])

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ChatRecord]:
        return iter(self.records)

    def add(self, record: ChatRecord) -> History:
        """The history with one more record; the oldest goes when it is full."""
        return replace(self, records=(*self.records, record))

    def rolled_back(self, entries: int = 1) -> History:
        """The history as it was before its newest records came."""
        return replace(self, records=self.records[: max(0, len(self.records) - entries)])

    def cleared(self) -> History:
        """An empty history of the same size."""
        return replace(self, records=())
