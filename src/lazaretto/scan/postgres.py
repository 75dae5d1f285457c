"""Reads memories out of PostgreSQL: LangGraph's store, mem0's and LangChain's tables, and any table with a vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lazaretto.errors import InputError, MissingExtra
from lazaretto.scan.databases import split
from lazaretto.scan.records import ScanRecord, SourceTally

_FIND = """
SELECT c.table_schema, c.table_name,
       array_agg(c.column_name::text ORDER BY c.ordinal_position) AS names,
       array_agg(c.udt_name::text ORDER BY c.ordinal_position) AS kinds
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
GROUP BY 1, 2 ORDER BY 1, 2
"""
_WORDY = frozenset({"text", "varchar", "bpchar", "json", "jsonb", "_text"})
_VECTORS = frozenset({"vector", "halfvec", "sparsevec"})
_STREAMED = {"stream_results": True, "yield_per": 1_000}


class Postgres:
    """The tables of one database that hold memories."""

    def __init__(self, url: str) -> None:
        try:
            import sqlalchemy as sa
            import sqlalchemy.exc
        except ImportError:  # pragma: no cover  # the core brings it
            raise MissingExtra("reading PostgreSQL", "postgres") from None
        self._sa = sa
        try:
            address = sa.make_url(url).set(drivername="postgresql+psycopg")
            self._engine = sa.create_engine(address, poolclass=sa.NullPool, connect_args={"connect_timeout": 10})
        except (ModuleNotFoundError, sqlalchemy.exc.NoSuchModuleError):
            raise MissingExtra("reading PostgreSQL", "postgres") from None
        except (sqlalchemy.exc.ArgumentError, ValueError):
            raise InputError("path", "is not a database URL", "For example postgresql://host/name") from None
        self.name = address.render_as_string(hide_password=True)
        self.tally = SourceTally()
        self._tables = self._ask(self._find)
        if not self._tables:
            raise InputError(
                "path", f"{self.name} has no table with memories",
                "Known are LangGraph's store and tables with a vector column; else export them as JSON lines",
            )  # fmt: skip

    def _ask(self, work: Any) -> Any:
        try:
            with self._engine.connect() as connection:
                connection.execute(self._sa.text("SET TRANSACTION READ ONLY"))
                return work(connection)
        except self._sa.exc.SQLAlchemyError as error:
            lines = str(getattr(error, "orig", error)).strip().splitlines()
            raise InputError(
                "path", f"{self.name} cannot be read ({lines[0] if lines else error})", "Check it"
            ) from None

    def _find(self, connection: Any) -> list[tuple[str, list[str], list[str]]]:
        found = []
        for schema, table, names, kinds in connection.execute(self._sa.text(_FIND)):
            langgraph = table == "store" and {"prefix", "key", "value"} <= set(names)
            if not langgraph and not _VECTORS & set(kinds):
                continue
            wordy = [n for n, k in zip(names, kinds, strict=True) if k in _WORDY]
            keys = ["prefix", "key"] if langgraph else [n for n in ("id", "uuid", "key") if n in names][:1]
            values = [n for n in wordy if n not in (*keys, "prefix", "key")]
            if langgraph or values:
                found.append((f"{schema}.{table}", keys, values))
        return found

    def count(self) -> int | None:
        """All rows of the tables."""
        ask = [f"SELECT COUNT(*) FROM {self._quoted(table)}" for table, _, _ in self._tables]
        return int(self._ask(lambda c: sum(c.execute(self._sa.text(query)).scalar_one() for query in ask)))

    def _quoted(self, table: str) -> str:
        quote = self._engine.dialect.identifier_preparer.quote
        return ".".join(quote(part) for part in table.split(".", 1))

    def records(self) -> Iterator[ScanRecord]:
        """Every row, table by table, in the order of its key."""
        self.tally = SourceTally()
        try:
            with self._engine.connect() as connection:
                connection.execute(self._sa.text("SET TRANSACTION READ ONLY"))
                for table, keys, values in self._tables:
                    yield from self._rows(connection, table, keys, values)
        except self._sa.exc.SQLAlchemyError as error:
            lines = str(getattr(error, "orig", error)).strip().splitlines()
            raise InputError(
                "path", f"{self.name} cannot be read ({lines[0] if lines else error})", "Check it"
            ) from None

    def _rows(self, connection: Any, table: str, keys: list[str], values: list[str]) -> Iterator[ScanRecord]:
        quote = self._engine.dialect.identifier_preparer.quote
        columns = ", ".join(quote(name) for name in (*keys, *values))
        order = ", ".join(quote(name) for name in keys) or "ctid"
        query = self._sa.text(f"SELECT {columns} FROM {self._quoted(table)} ORDER BY {order}")
        for number, row in enumerate(connection.execute(query, execution_options=_STREAMED)):
            key = "/".join(str(part) for part in row[: len(keys)]) or str(number)
            value = dict(zip(values, row[len(keys) :], strict=True))
            yield from split(f"{table}/{key}", value, table)
