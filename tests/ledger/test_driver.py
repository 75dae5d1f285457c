"""Statements that go to the driver itself: errors, lost connections and moments are as SQLAlchemy has them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from lazaretto.errors import InputError, StoreDamaged, StoreUnavailable, UnknownItem
from lazaretto.ledger import Ledger, driver
from lazaretto.ledger.store import Store
from lazaretto.types import Channel, Observation

HEADS = "SELECT namespace FROM lz_heads"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = Store.open(store_url)
    yield opened
    opened.close()


def _add(connection: sa.Connection, *names: str) -> None:
    mark = driver.mark(connection)
    statement = f"INSERT INTO lz_heads (namespace, seq, hash) VALUES ({mark}, 0, {mark})"
    driver.write(connection, statement, [(name, b"") for name in names])


def _names(store: Store) -> set[str]:
    with store.reading() as connection:
        return {row[0] for row in driver.read(connection, HEADS, ())}


def test_a_statement_that_fails_says_so_and_the_next_one_works(store: Store) -> None:
    for _ in range(3):
        with pytest.raises(StoreDamaged), store.reading() as connection:
            driver.read(connection, "SELECT nothing FROM nowhere", ())
        with store.reading() as connection:
            with pytest.raises(exc.DBAPIError) as caught:
                driver.read(connection, "SELECT nothing FROM nowhere", ())
            assert not caught.value.connection_invalidated
            assert driver.read(connection, "SELECT 1", ()) == [(1,)]
    store.transact(lambda connection: _add(connection, "one"))
    with pytest.raises(StoreDamaged):  # the same name twice
        store.transact(lambda connection: _add(connection, "two", "one"))
    assert _names(store) == {"one"}


def test_work_that_fails_leaves_nothing_after_many_reads(store: Store) -> None:
    for number in range(3):
        _names(store)  # its connection is the next one that is written with

        def work(connection: sa.Connection, name: str = f"n{number}") -> None:
            _add(connection, name)
            raise KeyError(name)

        with pytest.raises(KeyError):
            store.transact(work)
        assert _names(store) == set()


def test_a_snapshot_is_of_one_moment_from_its_first_read_on(store: Store) -> None:
    store.transact(lambda connection: _add(connection, "one"))
    with store.reading(snapshot=True) as connection:
        assert len(driver.read(connection, HEADS, ())) == 1
        store.transact(lambda writing: _add(writing, "two", "three"))
        assert len(driver.read(connection, HEADS, ())) == 1
        assert connection.execute(sa.text("SELECT count(*) FROM lz_heads")).scalar() == 1
    with store.reading() as connection:
        assert len(driver.read(connection, HEADS, ())) == 3
        store.transact(lambda writing: _add(writing, "four"))
        assert len(driver.read(connection, HEADS, ())) == 4, "each read by itself sees what is there"


def _end(store: Store, number: int) -> None:
    with store.reading() as connection:
        assert driver.read(connection, "SELECT pg_terminate_backend(%s, 5000)", (number,)) == [(True,)]


def test_a_connection_that_was_lost_is_given_up(postgres_url: str) -> None:
    with Ledger.open(postgres_url) as ledger:
        store = Store.open(postgres_url)
        number = "SELECT pg_backend_pid()"
        with pytest.raises(StoreUnavailable), store.reading() as connection:
            gone = driver.read(connection, number, ())[0][0]
            _end(ledger._store, gone)
            with pytest.raises(exc.DBAPIError) as caught:
                driver.read(connection, HEADS, ())
            assert caught.value.connection_invalidated
            raise caught.value
        tries = list[int]()

        def work(connection: sa.Connection) -> None:
            tries.append(driver.read(connection, number, ())[0][0])
            if len(tries) == 1:
                _end(ledger._store, tries[0])
            _add(connection, "one")

        store.transact(work)  # once more, on another connection
        assert len(set(tries)) == 2 and gone not in tries and _names(store) == {"one"}
        store.close()


def test_one_of_many_values(store: Store) -> None:
    store.transact(lambda connection: _add(connection, "a", "b", "c"))
    with store.reading() as connection:
        for wanted in (["b"], ["a", "c", "x"], [f"n{i}" for i in range(2_000)]):
            among, given = driver.among(connection, "namespace", wanted)
            found = driver.read(connection, f"{HEADS} WHERE {among}", given)
            assert {row[0] for row in found} == {"a", "b", "c"} & set(wanted)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_name_that_no_store_keeps_is_no_sign_of_a_damaged_store(ledger: Ledger, name: str) -> None:
    """Any caller may ask for such an id: PostgreSQL's driver refused NUL, and that was told as damage."""
    ledger.append_item(Observation("ada", Channel.MEMORY, "The berth is number nine."))
    for asked in (
        lambda: ledger.item(name),
        lambda: ledger.items(ids=[name]),
        lambda: ledger.states([name]),
        lambda: list(ledger.events(subject=name)),
    ):
        with contextlib.suppress(InputError, UnknownItem):
            assert not asked()
    assert ledger.verify().ok
