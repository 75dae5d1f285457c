"""Reads memories out of databases: files of LangGraph, Chroma, Qdrant and mem0, and tables of PostgreSQL.

The files are never written to, and the packages that wrote them are not needed. Qdrant's pickles are taken apart by
an unpickler that makes empty shells: no code of the file runs.
"""

from __future__ import annotations

import base64
import io
import pickle
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError, MissingExtra
from lazaretto.scan.records import ScanRecord, SourceTally

_MAGIC = b"SQLite format 3\x00"
_AT_ONCE = 1_000
MOST_VALUE = 64_000_000
"""Bytes of one value of a row."""
_READ = ("store", "embeddings", "segments", "collections", "embedding_metadata", "points", "history")
"""The tables that are read."""


def is_sqlite(path: Path) -> bool:
    """Whether a file is an SQLite database, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(16) == _MAGIC
    except OSError:
        return False


def open_read_only(path: Path) -> sqlite3.Connection:
    """The database as it is. One that keeps a write-ahead log and is closed is opened without making a new log."""
    with path.open("rb") as file:
        header = file.read(20)
    logged = header[18:20] == b"\x02\x02"
    closed = logged and not path.with_name(path.name + "-wal").exists()
    where = f"{path.absolute().as_uri()}?mode=ro" + ("&immutable=1" if closed else "")
    connection = sqlite3.connect(where, uri=True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA trusted_schema = 0")
    return connection


def sqlite_records(path: Path, place: str, tally: SourceTally) -> Iterator[ScanRecord]:
    """The memories in a database file of a kind that is known; ``InputError`` for another."""
    try:
        with closing(open_read_only(path)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            _refuse_computed(database, tables, path)
            kinds = [(needs, read) for needs, read in _KINDS if needs <= tables]
            if not kinds:
                named = ", ".join(sorted(tables)[:8]) or "none"
                raise InputError(
                    "path", f"{path} holds no memories that are known (its tables: {named})",
                    "Known are LangGraph, Chroma, Qdrant and mem0; anything else can be given as JSON lines",
                )  # fmt: skip
            for _, read in kinds:
                for name, value in read(database, tally, place):
                    yield from split(name, value, place)
    except sqlite3.Error as error:
        raise InputError("path", f"{path} cannot be read ({error})", "Close its writer, or scan a copy") from None


def _refuse_computed(database: sqlite3.Connection, tables: set[str], path: Path) -> None:
    """A column that the database computes, or a virtual table, may give far more than the file holds."""
    for table in tables.intersection(_READ):
        computed = any(hidden in (2, 3) for *_, hidden in database.execute(f"PRAGMA table_xinfo({table})"))
        (made,) = database.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        if computed or str(made).upper().startswith("CREATE VIRTUAL"):
            problem = f"{path}: the table {table} has computed columns, which no known store has"
            raise InputError("path", problem, "Give its memories as JSON lines")


def sqlite_count(path: Path) -> int | None:
    """How many rows a database file of a known kind has."""
    try:
        with closing(open_read_only(path)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            counted = [t for t in ("store", "embeddings", "points", "history") if t in tables]
            return sum(database.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in counted) or None
    except (sqlite3.Error, OSError):
        return None


def split(name: str, value: Any, place: str) -> Iterator[ScanRecord]:
    """One stored value as records; a long one in parts."""
    for number, (_, part) in enumerate(parts_of(words_of(value)[:MOST_CHARACTERS])):
        yield ScanRecord(name + (f"#{number}" if number else ""), part, place)


def parsed(value: Any) -> Any:
    """JSON that a column keeps as text or bytes; other values as they are."""
    if isinstance(value, (bytes, str)):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return value


_Named = Iterator[tuple[str, Any]]


def _rows(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    cursor = database.execute(query)
    while rows := cursor.fetchmany(_AT_ONCE):
        yield from rows


def _langgraph(database: sqlite3.Connection, tally: SourceTally, place: str) -> _Named:
    for prefix, key, value in _rows(database, "SELECT prefix, key, value FROM store ORDER BY prefix, key"):
        yield f"{prefix}/{key}", parsed(value)


def _chroma(database: sqlite3.Connection, tally: SourceTally, place: str) -> _Named:
    query = (
        "SELECT c.name, e.embedding_id, e.id, m.key, m.string_value FROM embeddings e "
        "JOIN segments s ON s.id = e.segment_id JOIN collections c ON c.id = s.collection "
        "JOIN embedding_metadata m ON m.id = e.id WHERE m.string_value IS NOT NULL ORDER BY e.id, m.key"
    )
    last: Any = None
    held: dict[str, Any] = {}
    for collection, name, row, key, value in _rows(database, query):
        if row != last and last is not None:
            yield held.pop("\0name"), _chroma_value(held)
            held = {}
        last = row
        held |= {"\0name": f"{collection}/{name}", key: value}
    if last is not None:
        yield held.pop("\0name"), _chroma_value(held)


def _chroma_value(held: dict[str, Any]) -> dict[str, Any]:
    text = held.pop("chroma:document", "")
    return {"text": text, **held}


def _mem0_history(database: sqlite3.Connection, tally: SourceTally, place: str) -> _Named:
    query = "SELECT id, memory_id, old_memory, new_memory FROM history ORDER BY rowid"
    for row, memory, old, new in _rows(database, query):
        yield f"history/{memory or row}", [new or "", old or ""]


def _qdrant(database: sqlite3.Connection, tally: SourceTally, place: str) -> _Named:
    collection = place.split("/")[-2] if "/" in place else "points"
    for name, point in _rows(database, "SELECT id, point FROM points ORDER BY rowid"):
        try:
            held = shell_of(point)
            payload = held.get("payload") if isinstance(held, dict) else None
        except Exception as error:  # a pickle may raise anything
            tally.unreadable.append(f"{place}: point {name}: {error}")
            continue
        yield f"{collection}/{_qdrant_id(name)}", payload if isinstance(payload, dict) else {}


def _qdrant_id(name: Any) -> str:
    try:
        return str(shell_of(base64.b64decode(name)))
    except Exception:  # not the form that today's client writes
        return str(name)


class _Shell:
    """Stands in for every class that a pickle names: it takes its state and does nothing."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("uuid", "datetime", "decimal") or module.startswith("qdrant_client."):
            return _Shell
        raise pickle.UnpicklingError(f"names {module}.{name}, which no Qdrant point does")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("refers to something outside")


def shell_of(data: bytes) -> Any:
    """The plain values of a pickled Qdrant point; nothing that the pickle names is imported or called."""
    found = _Unpickler(io.BytesIO(data)).load()
    if isinstance(found, _Shell):
        state = found.state
        return state.get("__dict__", state) if isinstance(state, dict) else state
    return found


_KINDS: tuple[tuple[set[str], Callable[[sqlite3.Connection, SourceTally, str], _Named]], ...] = (
    ({"store", "store_migrations"}, _langgraph),
    ({"embedding_metadata", "segments", "collections"}, _chroma),
    ({"points"}, _qdrant),
    ({"history"}, _mem0_history),
)
"""The tables of each kind of store, and its reader."""

# Reads memories out of PostgreSQL: LangGraph's store, mem0's and LangChain's tables, and any table with a vector.

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


# Finds the words in the values that stores keep, and cuts long texts into parts with line numbers.

TEXT_FIELDS = ("text", "content", "memory", "data", "document", "page_content", "value", "note", "message", "fact")
"""Fields in which stores keep the words of a memory, most usual first."""
_LABELS = frozenset(
    [
        "id", "key", "name", "hash", "type", "kind", "role", "agent", "agent_id", "user", "user_id", "run_id",
        "actor_id", "session_id", "thread_id", "namespace", "source", "time", "date", "timestamp", "created_at",
        "updated_at", "attributed_to",
    ]
)  # fmt: skip
PART = 4_000
"""A longer text is read in parts of about so many characters, cut where a paragraph ends."""
_DEPTH = 12
MOST_CHARACTERS = 20_000_000


def words_of(value: Any, depth: int = 0) -> str:
    """All the words in a value that a store keeps, those of the usual field first; keys and numbers are left out."""
    if isinstance(value, str):
        return value
    if depth > _DEPTH:
        return ""
    if isinstance(value, Mapping):
        known = [name for name in TEXT_FIELDS if name in value]
        names = [*known, *(name for name in value if name not in known and not _is_label(name, value[name]))]
        return _joined(words_of(value[name], depth + 1) for name in names)
    if isinstance(value, (list, tuple)):
        return _joined(words_of(part, depth + 1) for part in value)
    return ""


def _is_label(name: Any, value: Any) -> bool:
    """Whether a field only names or dates the memory; a value with blanks in it is read all the same."""
    return (
        str(name).lower() in _LABELS
        and isinstance(value, str)
        and len(value) <= 64
        and not any(map(str.isspace, value))
    )


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(dict.fromkeys(part for part in parts if part.strip()))


def parts_of(text: str, size: int = PART) -> Iterator[tuple[int, str]]:
    """The parts of a long text with the line each begins on, counted from 0; a short text is one part."""
    line = start = 0
    while start < len(text):
        end = min(len(text), start + size)
        if end < len(text):
            floor = start + size // 2
            cut = max(text.rfind("\n\n", floor, end) + 2, text.rfind("\n", floor, end) + 1, text.rfind(" ", floor, end))
            paragraph = text.rfind("\n\n", floor, end)
            end = paragraph + 2 if paragraph >= 0 else cut if cut > floor else end
        part = text[start:end]
        if part.strip():
            yield line, part
        line += part.count("\n")
        start = end
