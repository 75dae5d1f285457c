"""Ways to save time with many or short statements: straight to the driver, long lists in pieces, no garbage collection.

For a short statement SQLAlchemy's own bookkeeping takes longer than SQLite does. PostgreSQL goes through SQLAlchemy,
which tells a connection that was lost from a statement that failed.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import exc

MANY = 500
"""Fewer records than this are not worth it."""


@contextmanager
def gc_paused(count: int) -> Iterator[None]:
    """Pause the collector while ``count`` records are made: they hold no rings, and it would cost up to half of them.

    Only around work that never waits, so that the pause is short for the threads beside.
    """
    if count < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


T = TypeVar("T")
_SIZE = 500


def chunks(values: Iterable[T], size: int = _SIZE) -> Iterator[list[T]]:
    """``values`` in lists that fit into one statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def mark(connection: sa.Connection) -> str:
    """The placeholder for a value in an SQL statement."""
    return "?" if connection.dialect.name == "sqlite" else "%s"


def read(connection: sa.Connection, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """The rows of a statement, inside the caller's transaction."""
    if connection.dialect.name != "sqlite":
        return connection.exec_driver_sql(statement, tuple(values)).all()
    try:
        return _sqlite(connection).execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise _as_sqlalchemy_has_it(statement, error) from error


def write(connection: sa.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement that gives nothing back once for each of some rows, inside the caller's transaction."""
    if connection.dialect.name != "sqlite":
        given = [tuple(row) for row in rows]
        connection.exec_driver_sql(statement, given if len(given) > 1 else given[0])  # many is a trip more
        return
    try:
        _sqlite(connection).executemany(statement, rows)
    except sqlite3.Error as error:
        raise _as_sqlalchemy_has_it(statement, error) from error


def _sqlite(connection: sa.Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


def _as_sqlalchemy_has_it(statement: str, error: sqlite3.Error) -> Exception:
    return exc.DBAPIError.instance(statement, None, error, sqlite3.Error)
