"""A dry run on PostgreSQL writes nothing, and a store that is opened to be read is read-only for the server, too."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

psycopg = pytest.importorskip("psycopg", reason="needs the postgres extra")

from lazaretto import SyncGuard
from lazaretto.errors import StoreUnavailable
from lazaretto.learn.lessons import Lessons
from lazaretto.ledger import Store

Run = Callable[..., Any]


def test_a_dry_run_writes_nothing_to_postgresql(
    run: Run, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the owner of all tables, and as a user of the server who may only read them."""
    words = ("check", "The back door is painted green.", "-a", "ada", "--json")

    def rows() -> dict[str, list[Any]]:
        with psycopg.connect(empty_postgres_url, autocommit=True) as database:
            found = database.execute("SELECT relname FROM pg_class WHERE relname LIKE 'lz%' AND relkind IN ('r', 'S')")
            names = sorted(name for (name,) in found)
            return {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in names}

    owner = ("--store", empty_postgres_url)
    assert run(*words, "--dry-run", *owner)["ruling"] == "allow" and rows() == {}, "not even empty tables"
    item = run(*words, *owner)["item"]
    with monkeypatch.context() as dying:
        dying.setattr(Lessons, "catch_up", lambda self: None)
        with SyncGuard.open(owner[1]) as guard:
            guard.label(item, "harmful", by="ops")
    with psycopg.connect(empty_postgres_url, autocommit=True) as database:
        role = f"reader_{secrets.token_hex(4)}"
        database.execute(f"CREATE ROLE {role} LOGIN IN ROLE pg_read_all_data")
    try:
        before = rows()
        assert len(before) > 10 and before["lz_events"]
        for store in (owner, ("--store", empty_postgres_url.replace("postgres@", f"{role}@"))):
            told = run(*words, "--dry-run", *store)
            assert told["ruling"] == "allow" and rows() == before, "what a dead process left is left to others"
            strange = run("check", "reversed \u202etxet\u202c one", "-a", "eve", "--json", "--dry-run", *store, code=1)
            assert strange["ruling"] == "quarantine" and rows() == before
        assert run(*words, *owner, code=1)["rule"].startswith("blocklist:"), "whoever writes finishes it"
    finally:
        with psycopg.connect(empty_postgres_url, autocommit=True) as database:
            database.execute(f"DROP ROLE {role}")


def test_a_reader_of_postgresql_is_refused_by_the_server_too(postgres_url: str) -> None:
    with closing(Store.open(postgres_url, read_only=True)) as store:
        for snapshot in (False, True):
            with pytest.raises(StoreUnavailable, match="read-only"), store.reading(snapshot=snapshot) as connection:
                connection.execute(sa.text("DELETE FROM lz_events"))
    with closing(Store.open(postgres_url)) as store, store.reading() as connection:
        connection.execute(sa.text("DELETE FROM lz_events"))  # the control: who may write may do it this way
