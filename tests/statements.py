"""The statements that a store runs, for tests that count or read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from lazaretto.ledger import driver
from lazaretto.ledger.store import Store


@contextmanager
def statements_of(store: Store) -> Iterator[list[str]]:
    """Every statement that the store runs meanwhile: those of SQLAlchemy, and those that go to the driver itself."""
    seen: list[str] = []
    errors = driver.errors

    def by_sqlalchemy(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    def by_driver(connection: sa.Connection, statement: str) -> AbstractContextManager[Any]:
        if connection.engine.pool is store.engine.pool and " " in statement:  # else a mode that is set
            seen.append(statement)
        return errors(connection, statement)

    sa.event.listen(store.engine, "before_cursor_execute", by_sqlalchemy)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "errors", by_driver)
            yield seen
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", by_sqlalchemy)
