"""Checks that the database is built as the migrations build it: a trigger or an index can undo the chain's proofs.

In SQLite the stored statements are compared with those of a fresh store in memory. PostgreSQL's catalogue is compared
with ``postgres_schema.json``, the answer of a fresh store.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import orjson
import sqlalchemy as sa

from lazaretto.ledger import migrations, search
from lazaretto.ledger.schema import heads, migrations_table

Fault = tuple[str, str]
"""The table at fault, and the fault."""
_INDEX_TABLE = re.compile(r"(lz_search_)(\d+)(_data|_idx|_content|_docsize|_config)?")
_OURS = "c.relname LIKE 'lz\\_%%' AND n.nspname = current_schema()"
_FROM = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
CATALOGUE = {
    "table": "SELECT c.relname, c.relname, concat_ws(' ', c.relkind, c.relpersistence, c.relrowsecurity,"
    f" c.relforcerowsecurity, c.relispartition, array_to_string(c.reloptions, ',')) {_FROM}"
    f" WHERE {_OURS} AND c.relkind NOT IN ('i', 'I')",
    "column": "SELECT c.relname, a.attname, concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod),"
    " 'not null ' || a.attnotnull, 'identity ' || a.attidentity::text, 'generated ' || a.attgenerated::text,"
    " (SELECT 'collate ' || o.collname FROM pg_collation o WHERE o.oid = a.attcollation),"
    " (SELECT 'default ' || pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d"
    "  WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum))"
    f" {_FROM} JOIN pg_attribute a ON a.attrelid = c.oid"
    f" WHERE {_OURS} AND c.relkind NOT IN ('i', 'I', 'S') AND a.attnum > 0 AND NOT a.attisdropped",
    "constraint": "SELECT c.relname, k.conname, concat_ws(' ', k.contype, k.convalidated, pg_get_constraintdef(k.oid))"
    f" {_FROM} JOIN pg_constraint k ON c.oid IN (k.conrelid, k.confrelid) WHERE {_OURS} AND k.contype <> 'n'",
    "index": "SELECT c.relname, x.relname, concat_ws(' ', i.indisvalid, i.indisready, i.indislive,"
    " replace(pg_get_indexdef(i.indexrelid), quote_ident(n.nspname) || '.', ''))"
    f" {_FROM} JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid WHERE {_OURS}",
    "sequence": "SELECT c.relname, c.relname, concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement,"
    f" s.seqmin, s.seqmax, s.seqcycle) {_FROM} JOIN pg_sequence s ON s.seqrelid = c.oid WHERE {_OURS}",
    "trigger": f"SELECT c.relname, t.tgname, '' {_FROM} JOIN pg_trigger t ON t.tgrelid = c.oid"
    f" WHERE {_OURS} AND NOT t.tgisinternal",
    "rule": f"SELECT c.relname, r.rulename, '' {_FROM} JOIN pg_rewrite r ON r.ev_class = c.oid WHERE {_OURS}",
    "row policy": f"SELECT c.relname, p.polname, '' {_FROM} JOIN pg_policy p ON p.polrelid = c.oid WHERE {_OURS}",
    "inheritance": "SELECT c.relname, (CASE WHEN i.inhparent = c.oid THEN i.inhrelid ELSE i.inhparent END)::regclass,"
    f" '' {_FROM} JOIN pg_inherits i ON c.oid IN (i.inhparent, i.inhrelid) WHERE {_OURS} AND c.relkind <> 'i'",
}
"""Queries of PostgreSQL's catalogue, by kind of object. Each returns table, name and definition."""


def fault_in_schema(connection: sa.Connection) -> Fault | None:
    """The first difference from the schema that the migrations make; None if there is none."""
    sqlite = connection.dialect.name == "sqlite"
    faults = _faults_sqlite(connection) if sqlite else _faults_postgres(connection)
    return next(faults, None) or _fault_in_steps(connection)


def _fault_in_steps(connection: sa.Connection) -> Fault | None:
    rows = connection.execute(sa.select(migrations_table).order_by(migrations_table.c.step)).all()
    wanted = [(step.number, step.name) for step in migrations.MIGRATIONS]
    for row, step in zip(rows, wanted, strict=False):
        if tuple(row) != step:
            return "lz_steps", f"lz_steps: step {row[0]!r} is called {row[1]!r}, not {step[1]!r}"
    return None if len(rows) == len(wanted) else ("lz_steps", f"lz_steps: it has {len(rows)} steps, not {len(wanted)}")


def _plain(sql: str | None) -> str:
    return " ".join((sql or "").split())


@functools.cache
def _built() -> dict[str, tuple[str, str, str]]:
    """Everything a fresh SQLite store has, by name: kind, table and the statement that made it.

    The tables of its search index stand for those of every namespace.
    """
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        migrations.apply_migrations(connection)
        search.ensure(connection, 0)
        rows = connection.exec_driver_sql("SELECT name, type, tbl_name, sql FROM sqlite_master").all()
    engine.dispose()
    return {name: (kind, table, _plain(sql)) for name, kind, table, sql in rows}


def _faults_sqlite(connection: sa.Connection) -> Iterator[Fault]:
    rows = connection.exec_driver_sql("SELECT name, type, tbl_name, sql FROM sqlite_master").all()
    found: set[str] = set()
    for name, kind, table, sql in rows:
        general, tenant = _general(name)
        if kind in ("trigger", "view"):
            yield table, f"the database has a {kind} {name!r} that no migration made"
        elif not (name.startswith("lz_") or str(table).startswith("lz_")):
            continue
        elif general not in _built():
            yield table, f"{table} has the {kind} {name!r}, which no migration made"
        elif (kind, _general(table)[0], _as_general(_plain(sql), tenant)) != _built()[general]:
            yield table, f"{name!r} was altered: it is not as the migrations made it"
        found.add(name)
    for name, (kind, table, _) in _built().items():
        if name.startswith(("lz_", "sqlite_autoindex_lz_")) and not _general(name)[1] and name not in found:
            yield table, f"{table}: the {kind} {name!r} is missing from the database"
    for tenant in sorted({number for name in found if (number := _general(name)[1])}):
        for name in _built():
            mine = name.replace("_0", f"_{tenant}", 1)
            if _general(name)[1] and mine not in found:
                yield mine, f"{mine!r} is missing from the database"
    if connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").first():
        for name, _ in connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence").all():
            if str(name).startswith("lz_"):
                yield "sqlite_sequence", f"it counts the rows of {name!r}, which has no automatic numbers"


def _general(name: str) -> tuple[str, str]:
    """The name of a search table with the tenant's number as 0, and that number."""
    match = _INDEX_TABLE.fullmatch(name)
    return (f"{match[1]}0{match[3] or ''}", match[2]) if match else (name, "")


def _as_general(sql: str, tenant: str) -> str:
    return sql.replace(f"lz_search_{tenant}", "lz_search_0", 1) if tenant else sql


def catalogue(connection: sa.Connection) -> dict[str, dict[str, list[str]]]:
    """PostgreSQL's catalogue of our tables: by kind and ``table name``, the table and its definitions."""
    found: dict[str, dict[str, list[str]]] = {}
    for kind, statement in CATALOGUE.items():
        rows: Any = connection.exec_driver_sql(statement, ()).all()
        found[kind] = {f"{table} {name}": [table, made] for table, name, made in sorted(map(tuple, rows))}
    return found


@functools.cache
def _kept() -> dict[str, dict[str, list[str]]]:
    text = resources.files("lazaretto.ledger").joinpath("postgres_schema.json").read_bytes()
    kept: dict[str, dict[str, list[str]]] = orjson.loads(text)
    return kept


def _faults_postgres(connection: sa.Connection) -> Iterator[Fault]:
    for kind, found in catalogue(connection).items():
        wanted = _kept()[kind]
        for name in sorted(wanted.keys() | found.keys()):
            table, what = (wanted.get(name) or found[name])[0], f"{kind} {name.split(' ', 1)[1]!r}"
            if name not in found:
                yield table, f"{table}: the {what} is missing from the database"
            elif name not in wanted:
                yield table, f"{table} has a {what} that no migration made"
            elif found[name] != wanted[name]:
                yield table, f"{table}: the {what} was altered: it is not as the migrations made it"
    last = connection.exec_driver_sql("SELECT last_value FROM lz_heads_tenant_seq", ()).scalar()
    most = connection.execute(sa.select(sa.func.max(heads.c.tenant))).scalar()
    if most is not None and (last is None or last < most):
        yield (
            "lz_heads and lz_heads_tenant_seq",
            f"lz_heads_tenant_seq: it stands at {last}, though a namespace has the number {most}",
        )
