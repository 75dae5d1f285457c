"""Reads memories out of database files: LangGraph's store, Chroma, Qdrant's local mode, mem0's history.

The files are never written to, and the packages that wrote them are not needed. Qdrant's pickles are taken apart by an
unpickler that makes empty shells: no code of the file runs.
"""

from __future__ import annotations

import base64
import io
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto.scan.records import ScanRecord, SourceTally
from lazaretto.scan.texts import MOST_CHARACTERS, parts_of, words_of

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
