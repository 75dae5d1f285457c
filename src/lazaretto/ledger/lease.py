"""A right that one process holds at a time among all on a store: rechecking memories, sending webhooks.

An advisory lock on PostgreSQL, a locked file on SQLite; either ends with its process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from lazaretto.ledger.store import Store


class Lease:
    """One such right. Safe to share between threads."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._lock = threading.Lock()
        self._connection: sa.Connection | None = None
        self._file: int | None = None

    def hold(self) -> bool:
        """Take it, or go on holding it; False while another process has it."""
        with self._lock:
            return self._hold_session() if self._store.dialect == "postgresql" else self._hold_file()

    def release(self) -> None:
        """Let others have it: at once on SQLite, on PostgreSQL as soon as the server has ended the session.

        The server is not asked: a server that hangs would delay the close.
        """
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(exc.SQLAlchemyError):
                    connection.invalidate()  # ends the session, and the lock with it
                    connection.close()
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def _hold_session(self) -> bool:
        if self._connection is not None:
            try:
                self._connection.execute(sa.text("SELECT 1"))
                return True
            except exc.SQLAlchemyError:  # the server went away: the lock did too
                with contextlib.suppress(exc.SQLAlchemyError):
                    self._connection.invalidate()
                    self._connection.close()
                self._connection = None
        digest = hashlib.sha256(f"lazaretto:{self._name}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        try:
            connection = self._store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
                self._connection = connection
                return True
            connection.close()
        except exc.SQLAlchemyError:
            pass  # a store that is away lets nobody work
        return False

    def _hold_file(self) -> bool:
        if self._file is not None:
            return True
        try:
            import fcntl
        except ImportError:  # no such locks here (Windows): every process works, as one alone would
            return True
        suffix = hashlib.sha256(self._name.encode()).hexdigest()[:12]
        path = Path(f"{sa.make_url(self._store.address).database}.{suffix}.lease")
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True
