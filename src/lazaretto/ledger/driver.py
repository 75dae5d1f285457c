"""Ways to save time with many or short statements: straight to the driver, long lists in pieces, no garbage collection.

For a short statement SQLAlchemy's own bookkeeping takes longer than the database. The driver's errors are raised as
SQLAlchemy raises them, and a connection that was lost is given up.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

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


def among(connection: sa.Connection, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The condition that a column has one of some values, and its parameters; in PostgreSQL the statement is the same
    for any number of values, so that it is planned once."""
    if connection.dialect.name == "sqlite":
        return f"{column} IN ({', '.join('?' * len(values))})", values
    return f"{column} = ANY(%s)", [list(values)]


def read(connection: sa.Connection, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """The rows of a statement, inside the caller's transaction; where there is none, as they are at this moment."""
    with errors(connection, statement):
        rows: Sequence[Sequence[Any]] = _raw(connection).execute(statement, values).fetchall()
    return rows


def write(connection: sa.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement that gives nothing back once for each of some rows, inside the caller's transaction."""
    with errors(connection, statement):
        if len(rows) == 1:  # many is a trip more
            _raw(connection).execute(statement, rows[0])
        else:
            _raw(connection).cursor().executemany(statement, rows)


@contextmanager
def errors(connection: sa.Connection, statement: str) -> Iterator[None]:
    """Errors of the driver inside are raised as SQLAlchemy's, after a connection that was lost is given up: the pool
    opens another in its place."""
    driver: Any = connection.dialect.loaded_dbapi
    try:
        yield
    except driver.Error as error:
        raw: Any = _raw(connection)
        lost = connection.dialect.is_disconnect(error, raw, None)
        if lost:
            connection.invalidate(error)
        raise exc.DBAPIError.instance(
            statement, None, error, driver.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from error


def _raw(connection: sa.Connection) -> Any:
    return connection.connection.dbapi_connection
