"""Detects whether a SQLite file was written to since the last look, for a fraction of the price of reading it."""

from __future__ import annotations

import os
import sqlite3
import threading
from typing import cast

import sqlalchemy as sa


class ChangeDetector:
    """A connection that never writes, so that every commit, by this process too, comes from another connection.

    SQLite's ``data_version`` then changes with each commit, and asking for it costs a look into shared memory.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._pid = 0
        self._generation = 0

    def version(self) -> tuple[int, int]:
        """Equal to an earlier answer only if nothing was committed in between."""
        with self._lock:
            connection = self._connection if self._pid == os.getpid() else None
            if connection is None:
                connection = self._connect()
            return self._generation, connection.execute("PRAGMA data_version").fetchall()[0][0]

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None:  # after a fork: the parent's, neither ours to use nor to close by losing it
            self._inherited.append(self._connection)
        pooled = self._engine.raw_connection()
        connection: sqlite3.Connection = cast(sqlite3.Connection, pooled.driver_connection)
        pooled.detach()
        self._connection, self._pid = connection, os.getpid()
        self._generation += 1  # the numbers of two connections do not compare
        return connection

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
                self._connection = None
