"""The expected content of the derived tables, replayed from the chain into a temporary SQLite file (not memory)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from lazaretto.ledger import fingerprints, merkle, refs, search, vectors
from lazaretto.ledger.item_state import changes_of
from lazaretto.types import Channel, Event, EventKind

REF_TEXTS = ("ref", "told", "item", "system", "namespace", "key")


class ExpectedTables:
    """Takes events in, and gives the expected content of every derived table after them."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)  # SQLite's own temporary file
        self._file.executescript(
            "PRAGMA synchronous=OFF; BEGIN;"
            "CREATE TABLE items (id TEXT PRIMARY KEY, seq, agent, channel, image, hidden, erased, superseded_by,"
            " ruling) WITHOUT ROWID;"
            "CREATE TABLE missing (seq INTEGER PRIMARY KEY); CREATE TABLE named (seq INTEGER PRIMARY KEY);"
            "CREATE TABLE known (kind, key, item, label, PRIMARY KEY (kind, key, item)) WITHOUT ROWID;"
            "CREATE TABLE texts (seq INTEGER PRIMARY KEY, text TEXT);"
            "CREATE TABLE claims (item TEXT PRIMARY KEY, seq, count, digest, adopted) WITHOUT ROWID;"
            "CREATE TABLE again (item TEXT PRIMARY KEY, seq) WITHOUT ROWID;"
            "CREATE TABLE nodes (level, place, hash, PRIMARY KEY (level, place)) WITHOUT ROWID;"
            "CREATE TABLE refs (ref, told, item, system, namespace, key, seq, PRIMARY KEY (ref, seq)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def add_event(self, event: Event) -> None:
        """The next event of the chain; ``ValueError`` and others when it is invalid."""
        body = event.body
        if body is None:
            self._file.execute("INSERT INTO missing VALUES (?)", (event.seq,))
        row = refs.row_of(event.kind, event.subject, body)
        if row is not None:
            self._file.execute("INSERT INTO refs VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, event.seq))
        record = vectors.record_of(event.kind, event.subject, body)
        if record is not None:
            self._record_claims(event.seq, record)
        if event.kind is EventKind.SEEN:
            channel, image = ("", None) if body is None else (body["channel"], body.get("image"))
            self._file.execute(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, 0, 0, NULL, NULL)",
                (event.subject, event.seq, event.agent, channel, image),
            )
            if body is not None and channel == Channel.MEMORY.value:
                self._file.execute(
                    "INSERT INTO texts VALUES (?, ?)", (event.seq, search.indexed_text(body.get("text", "")))
                )
            return
        if event.kind is EventKind.NOTED:
            self._note(fingerprints.change_of(event.subject, body))
        for item, field, value in changes_of(event.kind, event.subject, body):
            self._file.execute(f"UPDATE items SET {field} = ? WHERE id = ?", (value, item))
        if event.kind is EventKind.ERASED and body is not None:
            self._file.execute("DELETE FROM claims WHERE item = ?", (event.subject,))
            gone = [(seq,) for seq in body["events"] if seq < event.seq]
            self._file.executemany("INSERT OR IGNORE INTO named VALUES (?)", gone)

    def add_nodes(self, nodes: Iterable[tuple[int, int, bytes]]) -> None:
        """Subtrees of the tree over the events, as they become whole: those that the store keeps."""
        kept = [node for node in nodes if node[0] >= merkle.LOWEST]
        if kept:
            self._file.executemany("INSERT INTO nodes VALUES (?, ?, ?)", kept)

    def nodes(self) -> Iterator[tuple[Any, ...]]:
        """The stored nodes of the tree over the events."""
        yield from self._file.execute("SELECT level, place, hash FROM nodes ORDER BY level, place")

    def _record_claims(self, seq: int, record: vectors.ClaimRecord) -> None:
        row = (record.item, seq, record.count, record.digest, int(record.adopted))
        known = self._file.execute("SELECT 1 FROM claims WHERE item = ?", (record.item,)).fetchone()
        if known is not None and record.adopted:
            raise ValueError(f"it adopts claims of {record.item!r} that the chain had recorded before")
        if known is not None:
            self._file.execute("INSERT OR IGNORE INTO again VALUES (?, ?)", (record.item, seq))
        self._file.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)", row)

    def claims(self) -> Iterator[tuple[bytes, int, int, str]]:
        """Item, event, count and digest of every item whose claims are kept."""
        yield from self._file.execute("SELECT CAST(item AS BLOB), seq, count, digest FROM claims ORDER BY item")

    def adopted(self) -> int:
        """Items whose claims are older than the chain's first event about them."""
        return int(self._file.execute("SELECT count(*) FROM claims WHERE adopted").fetchone()[0])

    def read_again(self) -> tuple[int, int]:
        """How many items' claims were recorded a second time, and the first event that did so."""
        count, seq = self._file.execute("SELECT count(*), min(seq) FROM again").fetchone()
        return int(count), int(seq or 0)

    def _note(self, change: fingerprints.FingerprintChange | None) -> None:
        if change is not None and change.label is None:
            self._file.execute("DELETE FROM known WHERE item = ?", (change.item,))
        elif change is not None:
            rows = [(kind, key, change.item, change.label) for kind, key in change.keys]
            self._file.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)

    def known(self) -> Iterator[tuple[Any, ...]]:
        columns = ("kind", "key", "item", "label")
        yield from self._file.execute(
            f"SELECT {', '.join(f'CAST({column} AS BLOB)' for column in columns)} FROM known ORDER BY kind, key, item"
        )

    def refs(self) -> Iterator[tuple[Any, ...]]:
        first, *others = (f"CAST({column} AS BLOB)" for column in REF_TEXTS)
        yield from self._file.execute(f"SELECT {first}, seq, {', '.join(others)} FROM refs ORDER BY ref, seq")

    def texts(self) -> Iterator[tuple[int, str]]:
        """The indexed text of each memory."""
        yield from self._file.execute("SELECT seq, text FROM texts ORDER BY seq")

    def build_index(self) -> None:
        """Make a fresh search index of the memories, to be read by ``words``, ``sizes``, ``settings``, ``averages``."""
        search.build_expected(self._file, self.texts())
        self._file.execute("COMMIT")  # FTS5's counts are written with it
        self._file.execute("BEGIN")

    def words(self) -> Iterator[tuple[Any, ...]]:
        """Every word of the memories with its place."""
        yield from self._file.execute(f"SELECT term, doc, offset FROM {search.EXPECTED_WORDS}")

    def sizes(self) -> Iterator[tuple[Any, ...]]:
        """How many words the index counts in each memory."""
        yield from self._file.execute("SELECT id, sz FROM expected_docsize ORDER BY id")

    def settings(self) -> Iterator[tuple[Any, ...]]:
        """The settings of the index."""
        yield from self._file.execute("SELECT k, v FROM expected_config ORDER BY k")

    def averages(self) -> bytes:
        """The input for ranking: how many memories and words there are."""
        row = self._file.execute("SELECT block FROM expected_data WHERE id = ?", (search.AVERAGES,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def fault_in_tombstones(self) -> tuple[int, str] | None:
        """The first event that lost its content without a tombstone, or has it despite one."""
        for mine, other, reason in (
            ("missing", "named", "its content is gone, and no later event says that it was erased"),
            ("named", "missing", "a later event says that it was erased, but its content is there"),
        ):
            row = self._file.execute(
                f"SELECT min(seq) FROM {mine} WHERE seq NOT IN (SELECT seq FROM {other})"
            ).fetchone()
            if row[0] is not None:
                return int(row[0]), reason
        return None

    def items(self) -> Iterator[tuple[Any, ...]]:
        yield from self._file.execute(
            "SELECT CAST(id AS BLOB), seq, CAST(agent AS BLOB), channel, image, hidden, erased, superseded_by, ruling"
            " FROM items ORDER BY id"
        )

    def memories(self) -> Iterator[tuple[Any, ...]]:
        yield from self._file.execute("SELECT seq FROM items WHERE channel = 'memory' AND erased = 0 ORDER BY seq")

    def images(self) -> Iterator[tuple[str, int]]:
        yield from self._file.execute(
            "SELECT image, min(seq) FROM items WHERE image IS NOT NULL GROUP BY image ORDER BY image"
        )
