"""The records and findings of a scan: plain values that cross processes and go into reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

POISONED, CONTRADICTING, SECRET, NOT_JUDGED = "poisoned", "contradicting", "secret", "not judged"
"""The kinds of findings."""


class Level(StrEnum):
    """How much a finding matters; the words are SARIF's."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    """Worth knowing, and no reason to fail: a doubtful passage, or a language that is not judged."""


@dataclass(frozen=True, slots=True)
class ScanRecord:
    """One memory of a store, or a part of a file."""

    id: str
    """Its name in the store; for a file, its path and line."""
    text: str
    place: str
    """The file or table it stands in, relative to its repository, else to the scan's target."""
    line: int | None = None
    """The line of the file on which the text begins; None in a database."""
    verbatim: bool = False
    """Whether the text stands in the file as it is, so that the lines of findings in it can be counted."""
    instructions: bool = False
    """Whether it comes from a file that is meant to instruct agents: orders are its purpose."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found in one text, wherever that text stands."""

    kind: str
    rule: str
    level: Level
    message: str
    """One sentence; it never repeats a secret."""
    start: int = 0
    end: int = 0
    """The place in the text, in characters."""
    risk: float = 1.0


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """A hit, and the record it stands in."""

    record: str
    place: str
    line: int | None
    kind: str
    rule: str
    level: Level
    message: str
    risk: float
    other: str | None = None
    """The record that it contradicts."""
    other_place: str | None = None
    other_line: int | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that was accepted earlier."""

    finding: ScanFinding
    by: str
    """``baseline`` or ``inline``."""


@dataclass
class SourceTally:
    """Counts and faults of a source on the way."""

    skipped_files: int = 0
    """Files of other kinds, which were not read."""
    skipped_folders: list[str] = field(default_factory=list)
    """Folders of packages and tools, which are not looked into."""
    unreadable: list[str] = field(default_factory=list)
    """Parts that should have been read and could not be, with the reason."""


class Source(Protocol):
    """A store that can be read from beginning to end, in an order that does not change."""

    name: str
    tally: SourceTally

    def count(self) -> int | None:
        """About how many records there are; None where only reading tells."""

    def records(self) -> Iterator[ScanRecord]:
        """Every record, in order."""
