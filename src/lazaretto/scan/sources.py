"""Opens a source from a user's path or address, and reads folders of notes."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import orjson

from lazaretto.errors import InputError
from lazaretto.scan.databases import (
    MOST_CHARACTERS,
    Postgres,
    is_sqlite,
    parts_of,
    sqlite_count,
    sqlite_records,
    words_of,
)
from lazaretto.scan.records import ScanRecord, Source, SourceTally


def open_source(targets: Sequence[str]) -> Source:
    """A folder, a file or a database URL; several files are read as one source."""
    if len(targets) > 1:
        paths = tuple(_path(target) for target in targets)
        folders = [str(path) for path in paths if path.is_dir()]
        if folders:
            raise InputError("path", f"{folders[0]} is a folder among several", "Give one folder, or files alone")
        root = Path.cwd()
        outside = [path for path in paths if not path.absolute().is_relative_to(root)]
        if outside:
            raise InputError("path", f"{outside[0]} lies outside of this folder", "Scan it by itself")
        return Files(root, tuple(path.absolute() for path in paths))
    (target,) = targets
    scheme = target.partition("://")[0].lower() if "://" in target else ""
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        return Postgres(target.replace("postgres://", "postgresql://", 1))
    if scheme == "sqlite":
        return Files(_path(unquote(target.split(":///", 1)[-1])))
    if scheme in ("http", "https"):
        raise InputError("path", "a server cannot be scanned from outside", "Give its folder or its database URL")
    return Files(_path(target))


def _path(target: str) -> Path:
    path = Path(target)
    if not path.exists():
        raise InputError("path", f"{target!r} does not exist", "Give a folder, a file, or a postgresql:// URL")
    if not (path.is_dir() or path.is_file()):
        raise InputError("path", f"{target!r} is neither a folder nor a file", "Give one that can be read to its end")
    return path


# Reads folders of notes: Markdown and text files, JSON lines, and the database files that lie among them.

NOTES = frozenset({".md", ".mdc", ".markdown", ".txt"})
LINES = frozenset({".jsonl", ".ndjson"})
INSTRUCTIONS = frozenset(
    {
        "claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", "skill.md", "copilot-instructions.md",
        ".cursorrules", ".windsurfrules", ".clinerules", "conventions.md",
    }
)  # fmt: skip
"""Files that are written to instruct agents."""
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"})
MOST_BYTES = 64_000_000
"""Largest note, in bytes: a larger one is named as unread."""
MOST_LINE = 16_000_000


class Files:
    """A file, or every file of a folder that may hold memories, in the order of their names."""

    def __init__(self, path: Path, only: tuple[Path, ...] = ()) -> None:
        """``only``: some files of the folder, as a commit hook names them."""
        self.name = _shown(path)
        self.tally = SourceTally()
        self._root = path if path.is_dir() else path.parent
        self.base = _repository(self._root) or self._root.absolute()
        """The folder that places are relative to."""
        self._one = path if path.is_file() else None
        self._only = only

    def count(self) -> int | None:
        """The rows of a single database file; files of text are counted by reading."""
        return sqlite_count(self._one) if self._one is not None and is_sqlite(self._one) else None

    def records(self) -> Iterator[ScanRecord]:
        """Every record of every file."""
        self.tally = SourceTally()
        for path in [self._one] if self._one is not None else self._walk():
            place = self._place(path)
            try:
                yield from self._of(path, place)
            except (OSError, InputError) as error:
                if self._one is not None:
                    raise error if isinstance(error, InputError) else _unusable(path, error) from None
                self.tally.unreadable.append(f"{place}: {error}".encode("utf-8", "backslashreplace").decode())

    def _walk(self) -> Iterator[Path]:
        if self._only:
            yield from sorted(self._only)
            return
        for folder, folders, names in os.walk(self._root, onerror=self._missed):
            for name in sorted(_LEFT_OUT.intersection(folders)):
                self.tally.skipped_folders.append(self._place(Path(folder, name)))
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_symlink() or not path.is_file() or not (is_memory(path) or is_sqlite(path)):
                    self.tally.skipped_files += 1
                else:
                    yield path

    def _place(self, path: Path) -> str:
        return _shown(Path(os.path.normpath(path.absolute())).relative_to(os.path.normpath(self.base)))

    def _missed(self, error: OSError) -> None:
        self.tally.unreadable.append(f"{_shown(Path(error.filename))}: {error.strerror}")

    def _of(self, path: Path, place: str) -> Iterator[ScanRecord]:
        if is_sqlite(path):
            return sqlite_records(path, place, self.tally)
        if path.suffix.lower() in LINES:
            return self._lines(path, place)
        if path.suffix.lower() == ".json":
            return _document(path, place)
        return _note(path, place)

    def _lines(self, path: Path, place: str) -> Iterator[ScanRecord]:
        with path.open("rb") as file:
            for number, raw in _numbered(file):
                if len(raw) > MOST_LINE:
                    self.tally.unreadable.append(f"{place}:{number}: longer than {MOST_LINE:,} bytes")
                    continue
                try:
                    value = orjson.loads(raw)
                except orjson.JSONDecodeError as error:
                    self.tally.unreadable.append(f"{place}:{number}: not JSON ({error})")
                    continue
                yield from _valued(value, place, str(number), number)


def _repository(folder: Path) -> Path | None:
    """The repository that a folder lies in: code hosts, editors and hooks name files relative to it."""
    here = Path(os.path.normpath(folder.absolute()))
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def _numbered(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; of one that is too long, the beginning."""
    number = 0
    while raw := file.readline(MOST_LINE + 1):
        number += 1
        rest = raw if len(raw) > MOST_LINE else b"\n"
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MOST_LINE)
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if raw.strip():
            yield number, raw


def is_memory(path: Path) -> bool:
    """Whether a file of a folder is read at all."""
    suffix, name = path.suffix.lower(), path.name.lower()
    return suffix in NOTES | LINES or name in INSTRUCTIONS or (suffix == ".json" and "memor" in name)


def _valued(value: Any, place: str, fallback: str, line: int | None) -> Iterator[ScanRecord]:
    """A value as records: an id of its own where it has one, and parts where it is long."""
    named = value.get("id") or value.get("key") or value.get("name") if isinstance(value, dict) else None
    name = str(named)[:200] if isinstance(named, (str, int)) and not isinstance(named, bool) else fallback
    for number, (_, part) in enumerate(parts_of(words_of(value)[:MOST_CHARACTERS])):
        yield ScanRecord(f"{place}:{name}" + (f"#{number}" if number else ""), part, place, line)


def _document(path: Path, place: str) -> Iterator[ScanRecord]:
    try:
        value = orjson.loads(_read(path))
    except orjson.JSONDecodeError as error:
        raise InputError(
            "path", f"{_shown(path)} is not JSON ({error})", "Give JSON lines, or a JSON document"
        ) from None
    if isinstance(value, dict) and len(value) == 1 and isinstance(inner := next(iter(value.values())), list):
        value = inner
    for number, entry in enumerate(value if isinstance(value, list) else [value]):
        yield from _valued(entry, place, str(number), None)


def _note(path: Path, place: str) -> Iterator[ScanRecord]:
    raw = _read(path)
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = raw.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    rules = path.name.lower() in INSTRUCTIONS or path.suffix.lower() == ".mdc"
    for line, part in parts_of(text):
        yield ScanRecord(f"{place}:{line + 1}", part, place, line + 1, verbatim=True, instructions=rules)


def _read(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise InputError(
            "path", f"{_shown(path)} is larger than {MOST_BYTES:,} bytes", "Split it, or give it as JSON lines"
        )
    return path.read_bytes()


def _shown(path: Path) -> str:
    """A path as reports name it: bytes that are no UTF-8 are spelled out."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _unusable(path: Path, error: OSError) -> InputError:
    return InputError("path", f"{_shown(path)} cannot be read ({error.strerror})", "Check the path and its permissions")
