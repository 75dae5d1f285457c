"""Old files open and are upgraded; newer ones and foreign ones are refused."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from lazaretto.errors import StoreDamaged, StoreUnavailable
from lazaretto.ledger import Ledger, Store, migrations, schema, seen_draft
from lazaretto.ledger.appending import insert_sql, link_batch, lock_head
from lazaretto.ledger.chain import Linker
from lazaretto.ledger.drafts import check_drafts
from lazaretto.types import Channel, Observation


def first_step_file(path: Path) -> Observation:
    """A ledger as the first migration left it, with one memory in it."""
    store = Store(schema_engine(path), sa.make_url(f"sqlite:///{path}"), read_only=False)
    note = Observation("ann", Channel.MEMORY, "an old memory")

    def build(connection: sa.Connection) -> None:
        migrations.apply_migrations(connection, migrations.MIGRATIONS[:1])
        head = lock_head(connection, "default")
        assert head is not None
        rows = link_batch(Linker("default"), head, check_drafts([seen_draft(note)], "default"))
        for table, values in (
            (schema.events, rows),
            (schema.items, [(1, note.id, 1, "ann", "memory", None, 0, 0, None, None)]),
            (schema.edges, [(1, 1, 0, note.id, "ann", "written_by", note.time)]),
        ):
            connection.exec_driver_sql(insert_sql(table, "sqlite"), values)
        connection.execute(schema.heads.update().values(seq=1, hash=rows[0][8]))

    store.transact(build)
    store.close()
    return note


def schema_engine(path: Path) -> sa.Engine:
    from lazaretto.ledger.store import _sqlite_engine

    return _sqlite_engine(path, create=True, read_only=False)


def test_an_old_file_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    note = first_step_file(path)
    with pytest.raises(StoreUnavailable, match="ledger upgrade"):
        Ledger.open(f"sqlite:///{path}", read_only=True)
    with Ledger.open(f"sqlite:///{path}") as ledger:
        assert [found.id for found, _ in ledger.search("memory")] == [note.id]
        assert ledger.verify().checked == 1 and ledger.verify().ok
        ledger.add_fingerprints([("text", "k")], note.id, "block")
    with Ledger.open(f"sqlite:///{path}", read_only=True) as ledger:
        assert ledger.find_fingerprints("text", ["k"])
    store = Store.open(f"sqlite:///{path}")
    assert store.upgrade() == ()
    store.close()


def test_the_migrations_build_what_the_tables_say(store_url: str) -> None:
    store = Store.open(store_url)
    with store.reading() as connection:
        inspector = sa.inspect(connection)
        for table in schema.metadata.sorted_tables:
            found = {column["name"]: column["nullable"] for column in inspector.get_columns(table.name)}
            wanted = {column.name: column.nullable for column in table.columns}
            assert list(found) == list(wanted), table.name
            for column in table.primary_key.columns:  # SQLite calls the column of an automatic number nullable
                found[column.name] = False
            assert found == wanted, table.name
            key = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key.columns], table.name
        assert migrations.applied_migrations(connection) == tuple(step.number for step in migrations.MIGRATIONS)
    store.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO lz_steps VALUES (99, 'from the future')", "newer lazaretto"),
        ("DELETE FROM lz_steps WHERE step = 2", "missing"),
        ("DROP TABLE lz_steps", "not a ledger"),
    ],
)
def test_schemas_that_make_no_sense_are_refused(tmp_path: Path, statement: str, said: str) -> None:
    path = tmp_path / "l.db"
    Ledger.open(f"sqlite:///{path}").close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()
    with pytest.raises(StoreDamaged, match=said):
        Ledger.open(f"sqlite:///{path}")


def test_a_lost_table_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("DROP TABLE lz_events")
            file.commit()
        with pytest.raises(StoreDamaged, match="lz_events"):
            list(ledger.events())


def test_the_search_migration_reads_every_memory_by_its_key(tmp_path: Path) -> None:
    """It looked each page up by event number, for which items have no index: 20,000 memories took 42 s."""
    from lazaretto.ledger import search

    path, read = tmp_path / "old.db", list[str]()
    first_step_file(path)
    engine = schema_engine(path)
    with engine.connect() as connection:
        sa.event.listen(
            engine, "before_cursor_execute", lambda c, cur, statement, args, ctx, many: read.append(statement)
        )
        assert [text for page in search._memories(connection, 1) for _, text in page] == ["an old memory"]
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {next(one for one in read if 'lz_items' in one)}", (1, 0, "memory", "seen", 500, 0)
        ).all()
    engine.dispose()
    assert not any(str(row[-1]).startswith("SCAN") for row in plan), plan
