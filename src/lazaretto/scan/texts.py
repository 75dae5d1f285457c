"""Finds the words in the values that stores keep, and cuts long texts into parts with line numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TEXT_FIELDS = ("text", "content", "memory", "data", "document", "page_content", "value", "note", "message", "fact")
"""Fields in which stores keep the words of a memory, most usual first."""
_LABELS = frozenset(
    [
        "id", "key", "name", "hash", "type", "kind", "role", "agent", "agent_id", "user", "user_id", "run_id",
        "actor_id", "session_id", "thread_id", "namespace", "source", "time", "date", "timestamp", "created_at",
        "updated_at", "attributed_to",
    ]
)  # fmt: skip
PART = 4_000
"""A longer text is read in parts of about so many characters, cut where a paragraph ends."""
_DEPTH = 12
MOST_CHARACTERS = 20_000_000


def words_of(value: Any, depth: int = 0) -> str:
    """All the words in a value that a store keeps, those of the usual field first; keys and numbers are left out."""
    if isinstance(value, str):
        return value
    if depth > _DEPTH:
        return ""
    if isinstance(value, Mapping):
        known = [name for name in TEXT_FIELDS if name in value]
        names = [*known, *(name for name in value if name not in known and not _is_label(name, value[name]))]
        return _joined(words_of(value[name], depth + 1) for name in names)
    if isinstance(value, (list, tuple)):
        return _joined(words_of(part, depth + 1) for part in value)
    return ""


def _is_label(name: Any, value: Any) -> bool:
    """Whether a field only names or dates the memory; a value with blanks in it is read all the same."""
    return (
        str(name).lower() in _LABELS
        and isinstance(value, str)
        and len(value) <= 64
        and not any(map(str.isspace, value))
    )


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(dict.fromkeys(part for part in parts if part.strip()))


def parts_of(text: str, size: int = PART) -> Iterator[tuple[int, str]]:
    """The parts of a long text with the line each begins on, counted from 0; a short text is one part."""
    line = start = 0
    while start < len(text):
        end = min(len(text), start + size)
        if end < len(text):
            floor = start + size // 2
            cut = max(text.rfind("\n\n", floor, end) + 2, text.rfind("\n", floor, end) + 1, text.rfind(" ", floor, end))
            paragraph = text.rfind("\n\n", floor, end)
            end = paragraph + 2 if paragraph >= 0 else cut if cut > floor else end
        part = text[start:end]
        if part.strip():
            yield line, part
        line += part.count("\n")
        start = end
