"""Bytes by key, in a SQLite file that many processes may use at once, or in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from lazaretto.errors import StoreDamaged

_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
_BUSY_SECONDS = 120.0


class KeyValueStore:
    """Computed values by key. The first value of a key stays; a write that a kill cut short leaves nothing."""

    def __init__(self, file: Path | None = None) -> None:
        """Without a ``file`` nothing outlives the object."""
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        place = file or ":memory:"
        self._db = sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_TABLE)
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"{file}: {error}; delete it, and its values are computed again") from None

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The values that are there, by key."""
        rows = self._db.execute(
            "SELECT entries.* FROM json_each(?) AS asked JOIN entries ON entries.key = asked.value",
            (orjson.dumps(list(keys)).decode(),),
        )
        return dict(rows)

    def add(self, values: Mapping[str, bytes]) -> None:
        """Add values, all or none; one that is there already stays."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", values.items())
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
