"""Whether the database is built as the migrations build it: a trigger or a rule can undo what the chain proves."""

from __future__ import annotations

import functools
import re

import sqlalchemy as sa

from lazaretto.ledger import migrations
from lazaretto.ledger.schema import metadata

_SHADOWS = re.compile(r"lz_search_\d+(_data|_idx|_content|_docsize|_config)?")


def fault_in_schema(connection: sa.Connection) -> str | None:
    """What is not as the migrations made it; None when all of it is."""
    return _fault_sqlite(connection) if connection.dialect.name == "sqlite" else _fault_postgres(connection)


@functools.cache
def _built() -> dict[str, str]:
    """Every table and index of a fresh SQLite store, with the statement that made it."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        migrations.apply_migrations(connection)
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    engine.dispose()
    return {name: _plain(sql) for name, sql in rows}


def _plain(sql: str) -> str:
    return " ".join(sql.split())


def _fault_sqlite(connection: sa.Connection) -> str | None:
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    found = {name: _plain(sql) for _, name, sql in rows}
    for kind, name, _ in rows:
        if kind in ("trigger", "view"):
            return f"the database has a {kind} {name!r} that no migration made"
    for name, statement in _built().items():
        if name not in found:
            return f"{name!r} is missing from the database"
        if found[name] != statement:
            return f"{name!r} was altered: it is not as the migrations made it"
    for name in found:
        if name.startswith("lz_") and name not in _built() and not _SHADOWS.fullmatch(name):
            return f"the database has {name!r}, which no migration made"
    return None


def _fault_postgres(connection: sa.Connection) -> str | None:
    ours = "c.relname LIKE 'lz\\_%%' AND n.nspname = current_schema()"
    for what, statement in (
        ("trigger", "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
         f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND {ours}"),
        ("rule", "SELECT r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
         f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {ours}"),
        ("row policy", "SELECT p.polname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid"
         f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {ours}"),
    ):  # fmt: skip
        row = connection.exec_driver_sql(statement, ()).first()
        if row is not None:
            return f"the database has a {what} {row[0]!r} that no migration made"
    inspector = sa.inspect(connection)
    for table in metadata.tables.values():
        if not inspector.has_table(table.name):
            return f"{table.name!r} is missing from the database"
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        if columns != {column.name for column in table.columns}:
            return f"{table.name!r} was altered: its columns are not those the migrations made"
        wanted = {name for name, sql in _built().items() if sql.startswith(f"CREATE INDEX {name} ON {table.name} ")}
        missing = wanted - {index["name"] for index in inspector.get_indexes(table.name)}
        if missing:
            return f"{min(missing)!r} is missing from the database"
    return None
