"""Full-text search over memories: FTS5 in SQLite, tsvector in PostgreSQL, one tokenisation for both.

Each tenant of a SQLite file has an index table of its own: FTS5 ranks by how rare a word is in the whole table, and a
shared table would let one tenant measure another's words.
"""

from __future__ import annotations

import heapq
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import exc

from lazaretto.ledger import driver
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import visible_sql
from lazaretto.ledger.schema import events, heads, items
from lazaretto.types import EventKind

MAX_INDEXED = 100_000
"""Characters of a memory that are searchable; PostgreSQL takes about 1 MB of words at most."""
MAX_QUERY_WORDS = 32
MOST_HITS = 2_000
"""Visible memories with one word of a query that are ranked, the newest: of a rare word all, of a common one enough."""
EXPECTED_WORDS = "expected_words"
AVERAGES, STRUCTURE = 1, 10
"""Rows in which FTS5 keeps the number of words, and the segments of its index."""
_SEGMENT_BITS, _PAGE_BITS = 37, 31
# contentless: the text itself lies in the event, once
_FTS = "USING fts5(text, content='', tokenize='unicode61 remove_diacritics 0')"

_WORD = re.compile(r"[^\W_]+")
# scripts written without spaces: each character becomes a word of its own (kana, CJK, Thai, Lao, Khmer, Hangul stays)
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")


def _spaced(text: str) -> str:
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def indexed_text(text: str) -> str:
    """The part of a memory's text that goes into the index; never more than both databases can take."""
    return _spaced(text[:MAX_INDEXED].replace("\0", " "))


def query_words(query: str) -> list[str]:
    """The distinct words of a query; other characters (operators, quotes, emoji) never reach the database."""
    words = _WORD.findall(_spaced(query[:MAX_INDEXED]).casefold())
    return [word[:200] for word in dict.fromkeys(words)][:MAX_QUERY_WORDS]


def _table(tenant: int) -> str:
    return f"lz_search_{int(tenant)}"


def build(connection: sa.Connection) -> None:
    """The migration: make the index and fill it from the memories that are already there."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            "CREATE TABLE lz_search (tenant INTEGER NOT NULL, seq BIGINT NOT NULL, words TSVECTOR NOT NULL,"
            " PRIMARY KEY (tenant, seq))"
        )
        connection.exec_driver_sql("CREATE INDEX lz_search_words ON lz_search USING gin (words)")
    for (tenant,) in connection.execute(sa.select(heads.c.tenant)).all():
        for rows in _memories(connection, tenant):
            add(connection, tenant, rows)


def _memories(connection: sa.Connection, tenant: int) -> Iterator[list[tuple[int, str]]]:
    from lazaretto.ledger.chain import decode_body

    after = 0
    while True:
        page = connection.execute(
            sa.select(events.c.seq, events.c.body)
            .join(items, (items.c.tenant == events.c.tenant) & (items.c.id == events.c.subject))
            .where(events.c.tenant == tenant, events.c.seq > after, items.c.channel == "memory")
            .where(events.c.kind == EventKind.SEEN.value)
            .where(events.c.body.is_not(None))
            .order_by(events.c.seq)
            .limit(500)
        ).all()
        if not page:
            return
        after = page[-1][0]
        yield [(seq, decode_body(bytes(body)).get("text", "")) for seq, body in page]


def add(connection: sa.Connection, tenant: int, rows: Sequence[tuple[int, str]]) -> None:
    """Index the texts of memories, each under the number of the event that brought it."""
    if connection.dialect.name == "sqlite":
        ensure(connection, tenant)
        driver.write(
            connection,
            f"INSERT INTO {_table(tenant)}(rowid, text) VALUES (?, ?)",
            [(seq, indexed_text(text)) for seq, text in rows],
        )
    else:
        driver.write(
            connection,
            "INSERT INTO lz_search (tenant, seq, words) VALUES (%s, %s, to_tsvector('simple', %s))",
            [(tenant, seq, indexed_text(text)) for seq, text in rows],
        )


def _exists(connection: sa.Connection, table: str) -> bool:
    return bool(driver.read(connection, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)))


def ensure(connection: sa.Connection, tenant: int) -> None:
    """Make a tenant's index in SQLite, if it is not there yet."""
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE IF NOT EXISTS {_table(tenant)} {_FTS}")


def drop(connection: sa.Connection, tenant: int, rows: Sequence[tuple[int, str]]) -> None:
    """Take erased memories out of the index, leaving none of their words in it."""
    if connection.dialect.name == "sqlite":
        table = _table(tenant)
        if not rows or not _exists(connection, table):
            return
        connection.exec_driver_sql(
            f"INSERT INTO {table}({table}, rowid, text) VALUES ('delete', ?, ?)",
            [(seq, indexed_text(text)) for seq, text in rows],
        )
        # FTS5 only notes a deletion; only merging everything removes the words
        connection.exec_driver_sql(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    elif rows:
        connection.exec_driver_sql(
            "DELETE FROM lz_search WHERE tenant = %s AND seq = %s", [(tenant, seq) for seq, _ in rows]
        )


def remove(connection: sa.Connection, tenant: int) -> None:
    """Remove a tenant's whole index, in any state."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql("DELETE FROM lz_search WHERE tenant = %s", (tenant,))
        return
    table = _table(tenant)
    if not _exists(connection, table):
        return
    if _exists(connection, f"{table}_config"):  # FTS5 opens no index of another version, not even to drop it
        connection.exec_driver_sql(f"DELETE FROM {table}_config")
        connection.exec_driver_sql(f"INSERT INTO {table}_config VALUES ('version', 4)")
    connection.exec_driver_sql(f"DROP TABLE {table}")


def build_expected(file: sqlite3.Connection, texts: Iterable[tuple[int, str]]) -> None:
    """A fresh index of ``texts`` in a SQLite file of the verifier's own, to be read as ``EXPECTED_WORDS``."""
    file.execute(f"CREATE VIRTUAL TABLE expected {_FTS}")
    for page in chunks(texts):
        file.executemany("INSERT INTO expected(rowid, text) VALUES (?, ?)", page)
    file.execute(f"CREATE VIRTUAL TABLE {EXPECTED_WORDS} USING fts5vocab(expected, instance)")


def stored_words(connection: sa.Connection, tenant: int) -> Iterator[tuple[str, int, int]]:
    """Every word of a tenant's SQLite index: the word, its memory's event, its place."""
    table = _table(tenant)
    connection.exec_driver_sql("DROP TABLE IF EXISTS temp.lz_words")
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE temp.lz_words USING fts5vocab(main, {table}, instance)")
    try:
        yield from (tuple(row) for row in connection.exec_driver_sql("SELECT term, doc, offset FROM temp.lz_words"))
    finally:
        connection.exec_driver_sql("DROP TABLE IF EXISTS temp.lz_words")


def has_index(connection: sa.Connection, tenant: int) -> bool:
    """Whether a tenant has an index in SQLite."""
    return _exists(connection, _table(tenant))


def orphans(connection: sa.Connection) -> list[str]:
    """Tables of the search index that belong to no namespace, or hold rows that do not."""
    if connection.dialect.name != "sqlite":
        lost = connection.exec_driver_sql(
            "SELECT 1 FROM lz_search WHERE tenant NOT IN (SELECT tenant FROM lz_heads) LIMIT 1", ()
        )
        return [] if lost.first() is None else ["lz_search"]
    rows = connection.exec_driver_sql(
        "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' AND name GLOB 'lz_search_[0-9]*'"
    )
    tenants = {_table(row[0]) for row in connection.execute(sa.select(heads.c.tenant))}
    return sorted(row[0] for row in rows if row[0] not in tenants)


def fault_in_pages(connection: sa.Connection, tenant: int) -> tuple[str, str] | None:
    """The table of a SQLite index that has a wrong page or key, and the reason.

    FTS5 can check itself, but only where it may write: the check runs on a copy in the connection's temporary file.
    """
    table = _table(tenant)
    row = connection.exec_driver_sql(f"SELECT block FROM {table}_data WHERE id = {STRUCTURE}").first()
    segments = _segments(b"" if row is None else bytes(row[0]))
    if segments is None:
        return f"{table}_data", "its list of segments cannot be read"
    long_lists, keyed, leaves = set[int](), set[int](), set[int]()
    for segment, page in connection.exec_driver_sql(f"SELECT segid, pgno FROM {table}_idx"):
        if not (isinstance(page, int) and segment in segments):
            return f"{table}_idx", f"it has a key of segment {segment!r}, which is not there"
        if page >> 1 >= segments[segment][0]:  # a merge leaves keys of pages behind that it has done with
            keyed.add((segment << _SEGMENT_BITS) + (page >> 1))
        if page & 1:
            long_lists.add(segment)
    for page, size, head in connection.exec_driver_sql(
        f"SELECT id, length(block), substr(block, 3, 2) FROM {table}_data"
    ):
        segment, number = page >> _SEGMENT_BITS, page & ((1 << _PAGE_BITS) - 1)
        first, last = segments.get(segment, (1, 0))
        inside = first <= number <= last and (not page >> _PAGE_BITS & 63 or segment in long_lists)
        if page not in (AVERAGES, STRUCTURE) and not inside:
            return f"{table}_data", f"it has a page {page} that belongs to nothing"
        if page > STRUCTURE and not page >> _PAGE_BITS & 63 and int.from_bytes(bytes(head), "big") < size:
            leaves.add(page)  # words begin here: a key leads to it
    if leaves != keyed:
        return f"{table}_data and {table}_idx", "a page has no key, or a key no page"
    try:
        _check_copy(connection, table)
    except sa.exc.DatabaseError as error:
        return f"{table}_data and {table}_idx", f"they do not fit together: {error.orig}"
    return None


def _check_copy(connection: sa.Connection, table: str) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS temp.lz_check")
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE temp.lz_check {_FTS}")
    try:
        for part, columns in (("data", "id, block"), ("idx", "segid, term, pgno"), ("docsize", "id, sz")):
            connection.exec_driver_sql(f"DELETE FROM temp.lz_check_{part}")
            connection.exec_driver_sql(
                f"INSERT INTO temp.lz_check_{part} ({columns}) SELECT {columns} FROM main.{table}_{part}"
            )
        connection.exec_driver_sql("INSERT INTO temp.lz_check (lz_check) VALUES ('integrity-check')")
    finally:
        connection.exec_driver_sql("DROP TABLE IF EXISTS temp.lz_check")


def _segments(block: bytes) -> dict[int, tuple[int, int]] | None:
    """First and last page of each segment, from FTS5's own record of them; None if it is invalid."""
    numbers = _varints(block[4:])  # after the version of the settings
    try:
        levels, total, _ = next(numbers), next(numbers), next(numbers)
        found: dict[int, tuple[int, int]] = {}
        for _ in range(levels):
            _, count = next(numbers), next(numbers)
            for _ in range(count):
                segment = next(numbers)
                found[segment] = (next(numbers), next(numbers))
    except StopIteration:
        return None
    return found if len(found) == total and next(numbers, None) is None and block[:4] == bytes(4) else None


def _varints(data: bytes) -> Iterator[int]:
    """SQLite's numbers of variable length."""
    value = place = 0
    for byte in data:
        place += 1
        value = value << 8 | byte if place == 9 else value << 7 | byte & 0x7F
        if place == 9 or byte < 0x80:
            yield value
            value = place = 0


def altered(connection: sa.Connection, tenant: int, texts: Sequence[tuple[int, str]]) -> int | None:
    """The first of these memories whose words in PostgreSQL's index are not its own."""
    row = connection.exec_driver_sql(
        "SELECT min(s.seq) FROM lz_search s JOIN unnest(%s::bigint[], %s::text[]) AS t (seq, text) ON t.seq = s.seq"
        " WHERE s.tenant = %s AND s.words IS DISTINCT FROM to_tsvector('simple', t.text)",
        ([seq for seq, _ in texts], [text for _, text in texts], tenant),
    ).first()
    return None if row is None or row[0] is None else int(row[0])


def find(
    connection: sa.Connection, tenant: int, query: str, *, agent: str | None, limit: int
) -> list[tuple[int, float]]:
    """Event numbers of the visible memories that share a word with ``query``, best first, with their scores."""
    words = query_words(query)
    if not words or limit < 1:
        return []
    if connection.dialect.name == "sqlite":
        return _find_sqlite(connection, tenant, words, agent, limit)
    return _find_postgres(connection, tenant, words, agent, limit)


def same_words(connection: sa.Connection, tenant: int, text: str) -> list[int] | None:
    """Event numbers of all memories with every word that a text begins with; every copy of the text is among them.

    None if the text begins with no word that the index can hold.
    """
    words = [word for word in indexed_text(text).split() if any(map(str.isalnum, word))][:MAX_QUERY_WORDS]
    if not words:
        return None
    if connection.dialect.name == "sqlite":
        table = _table(tenant)
        if not _exists(connection, table):
            return []
        match = " AND ".join('"' + word.replace('"', '""') + '"' for word in words)  # each is cut up as it was indexed
        rows = connection.exec_driver_sql(f"SELECT rowid FROM {table} WHERE {table} MATCH ?", (match,))
        return [int(row[0]) for row in rows]
    query = "plainto_tsquery('simple', %s)"
    asked = " ".join(words)
    if connection.exec_driver_sql(f"SELECT numnode({query})", (asked,)).scalar() == 0:
        return None
    rows = connection.exec_driver_sql(
        f"SELECT seq FROM lz_search WHERE tenant = %s AND words @@ {query}", (tenant, asked)
    )
    return [int(row[0]) for row in rows]


def with_all(connection: sa.Connection, tenant: int, words: Sequence[str], limit: int) -> list[str]:
    """The newest visible memories that hold every one of some words, by their ids."""
    cleaned = [word for text in words for word in indexed_text(text).split() if any(map(str.isalnum, word))]
    if not cleaned:
        return []
    if connection.dialect.name == "sqlite":
        table = _table(tenant)
        match = " AND ".join('"' + word.replace('"', '""') + '"' for word in cleaned[:MAX_QUERY_WORDS])
        query = (
            f"SELECT i.id FROM {table} s CROSS JOIN lz_events e ON e.tenant = ? AND e.seq = s.rowid"
            " CROSS JOIN lz_items i ON i.tenant = e.tenant AND i.id = e.subject"
            f" WHERE {table} MATCH ? AND {visible_sql('i')} ORDER BY s.rowid DESC LIMIT ?"
        )
        try:
            rows = driver.read(connection, query, (tenant, match, limit))
        except exc.OperationalError:
            if _exists(connection, table):
                raise
            return []  # the first memory makes the index
    else:
        query = (
            "SELECT i.id FROM lz_search s JOIN lz_events e ON e.tenant = s.tenant AND e.seq = s.seq"
            f" JOIN lz_items i ON i.tenant = e.tenant AND i.id = e.subject AND {visible_sql('i')}"
            " WHERE s.tenant = %s AND s.words @@ plainto_tsquery('simple', %s) ORDER BY s.seq DESC LIMIT %s"
        )
        rows = driver.read(connection, query, (tenant, " ".join(cleaned[:MAX_QUERY_WORDS]), limit))
    return [str(row[0]) for row in rows]


def _find_sqlite(
    connection: sa.Connection, tenant: int, words: list[str], agent: str | None, limit: int
) -> list[tuple[int, float]]:
    table = _table(tenant)
    if not _exists(connection, table):
        return []
    # the score of a query is the sum of its words' scores
    hits = (
        f"SELECT s.rowid AS seq, -bm25({table}) AS r FROM {table} s"
        " CROSS JOIN lz_events e ON e.tenant = ? AND e.seq = s.rowid"
        " CROSS JOIN lz_items i ON i.tenant = e.tenant AND i.id = e.subject"
        f" WHERE {table} MATCH ? AND i.tenant = ? AND {visible_sql('i')} AND (? IS NULL OR i.agent = ?)"
        " ORDER BY s.rowid DESC LIMIT ?"
    )
    scores, most = dict[int, float](), max(MOST_HITS, limit)
    for word in words:
        for seq, r in driver.read(connection, hits, (tenant, f'"{word}"', tenant, agent, agent, most)):
            scores[seq] = scores.get(seq, 0.0) + r
    return _best(scores, limit)


def _find_postgres(
    connection: sa.Connection, tenant: int, words: list[str], agent: str | None, limit: int
) -> list[tuple[int, float]]:
    # a statement for each word: the planner has to know whether it is rare
    hits = (
        "SELECT s.seq, ts_rank(s.words, q, 1) AS r FROM plainto_tsquery('simple', %(word)s) AS q, lz_search s"
        " JOIN lz_events e ON e.tenant = s.tenant AND e.seq = s.seq"
        f" JOIN lz_items i ON i.tenant = e.tenant AND i.id = e.subject AND {visible_sql('i')}"
        " AND (%(agent)s::text IS NULL OR i.agent = %(agent)s)"
        " WHERE s.tenant = %(tenant)s AND s.words @@ plainto_tsquery('simple', %(word)s)"
        " ORDER BY s.seq DESC LIMIT %(most)s"
    )
    newest = connection.exec_driver_sql(
        "SELECT max(seq) FROM lz_search WHERE tenant = %(tenant)s", {"tenant": tenant}
    ).scalar()
    scores, most = dict[int, float](), max(MOST_HITS, limit)
    for word in words:
        given = {"word": word, "tenant": tenant, "agent": agent, "most": most}
        found = [(int(seq), float(r)) for seq, r in connection.exec_driver_sql(hits, given)]
        if found:
            # ts_rank does not know that rare words say more: a word weighs by how rare it is among those looked at
            among = int(newest or 0) - (found[-1][0] if len(found) == most else 0) + 1
            weight = math.log(1 + among / len(found))
            for seq, r in found:
                scores[seq] = scores.get(seq, 0.0) + r * weight
    return _best(scores, limit)


def _best(scores: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
    """The best, newer ones first where they fit alike."""
    return heapq.nsmallest(limit, scores.items(), key=lambda scored: (-scored[1], -scored[0]))
