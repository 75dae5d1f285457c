"""``verify`` finds every change made behind the ledger's back, and names the first bad event."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazaretto.errors import StoreDamaged
from lazaretto.ledger import Ledger, Verification, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Head, Observation

LENGTH = 13
ERASED_SEQ = 5
EVENT_COLUMNS = ("seq", "kind", "subject", "agent", "time", "digest", "prev", "hash", "salt", "body")
ITEM_COLUMNS = ("id", "seq", "agent", "channel", "hidden", "erased", "superseded_by", "ruling", "image")
EDGE_COLUMNS = ("seq", "place", "source", "target", "kind", "time")


def fill(ledger: Ledger) -> None:
    """Thirteen events: six items in a line of descent, a picture, reads, a ruling, an erasure, a fingerprint."""
    picture = ledger.put_blob(b"a picture")
    items: list[Observation] = []
    for number in range(6):
        parents = (items[-1].id,) if items else ()
        image = picture if number == 2 else None
        items.append(Observation(f"agent{number}", Channel.MEMORY, f"note {number}", image=image, parents=parents))
    ledger.append([seen_draft(item) for item in items])
    ledger.append([Draft(EventKind.RETRIEVED, item.id, "reader") for item in items[:3]])
    ledger.append([Draft(EventKind.RULED, items[0].id, "", {"ruling": "warn"})])
    ledger.append([Draft(EventKind.SUPERSEDED, items[5].id, "", {"old": items[1].id})])
    ledger.erase(items[ERASED_SEQ - 1].id, "asked")
    ledger.add_fingerprints([("blocklist", "text:1")], items[4].id, "block")
    assert ledger.head().seq == LENGTH and ledger.verify().ok


@pytest.fixture(scope="module")
def original() -> Iterator[tuple[Path, Head]]:
    """A closed, good ledger file, and its head."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "good.db"
        with Ledger.open(f"sqlite:///{path}") as ledger:
            fill(ledger)
            head = ledger.head()
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield path, head


def after(path: Path, change: Callable[[sqlite3.Connection], object], head: Head | None = None) -> Verification:
    """What verify says about a copy of ``path`` that ``change`` was made to."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        shutil.copy(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as file:
            change(file)
            file.commit()
        with Ledger.open(f"sqlite:///{copy}", create=False) as ledger:
            return ledger.verify(head)


def flip(file: sqlite3.Connection, table: str, column: str, row: int, position: int, mask: int) -> bool:
    """Change one byte of one stored value, whatever its type; False when there is nothing to change."""
    keys = "seq" if table == "lz_events" else "seq, place" if table == "lz_edges" else "id"
    key = file.execute(f"SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 1 OFFSET ?", (row,)).fetchone()
    if key is None:
        return False
    where = " AND ".join(f"{name} = ?" for name in keys.split(", "))
    kind, value = file.execute(f"SELECT typeof({column}), {column} FROM {table} WHERE {where}", key).fetchone()
    if kind == "null":
        return False
    changed: object
    if kind == "integer":
        changed = value ^ mask
    elif kind == "real":
        changed = value + mask
    else:
        raw = bytearray(value.encode() if isinstance(value, str) else value)
        if not raw:
            return False
        raw[position % len(raw)] ^= mask
        changed = bytes(raw)
    cast = f"CAST(? AS {'TEXT' if kind == 'text' else kind.upper()})" if kind in ("text", "blob") else "?"
    try:
        file.execute(f"UPDATE {table} SET {column} = {cast} WHERE {where}", (changed, *key))
    except sqlite3.IntegrityError:
        return False  # the database itself refused the change
    return True


@settings(max_examples=125, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    column=st.sampled_from(EVENT_COLUMNS),
    row=st.integers(0, LENGTH - 1),
    position=st.integers(0, 300),
    mask=st.integers(1, 255),
)
def test_one_changed_byte_of_an_event_is_found(
    original: tuple[Path, Head], column: str, row: int, position: int, mask: int
) -> None:
    happened = []
    found = after(original[0], lambda file: happened.append(flip(file, "lz_events", column, row, position, mask)))
    assert found.ok is not happened[0]
    if happened[0]:
        assert found.first_bad is not None and found.first_bad <= row + 1
        if column != "seq":
            assert found.first_bad == row + 1


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.sampled_from(
        [("lz_items", column) for column in ITEM_COLUMNS] + [("lz_edges", column) for column in EDGE_COLUMNS]
    ),
    row=st.integers(0, 12),
    position=st.integers(0, 60),
    mask=st.integers(1, 255),
)
def test_one_changed_byte_of_a_derived_table_is_found(
    original: tuple[Path, Head], place: tuple[str, str], row: int, position: int, mask: int
) -> None:
    happened = []
    found = after(original[0], lambda file: happened.append(flip(file, *place, row, position, mask)))
    assert found.ok is not happened[0]
    if happened[0]:
        assert found.first_bad is not None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(1, LENGTH), second=st.integers(1, LENGTH))
def test_swapped_events_are_found(original: tuple[Path, Head], first: int, second: int) -> None:
    def swap(file: sqlite3.Connection) -> None:
        for old, new in ((first, -1), (second, first), (-1, second)):
            file.execute("UPDATE lz_events SET seq = ? WHERE seq = ?", (new, old))

    found = after(original[0], swap if first != second else lambda file: None)
    assert found.ok is (first == second)
    assert found.first_bad == (None if first == second else min(first, second))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gone=st.sets(st.integers(1, LENGTH), min_size=1, max_size=4))
def test_deleted_events_are_found(original: tuple[Path, Head], gone: set[int]) -> None:
    found = after(
        original[0], lambda file: file.executemany("DELETE FROM lz_events WHERE seq = ?", [(seq,) for seq in gone])
    )
    assert not found.ok and found.first_bad == min(gone)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(1, LENGTH))
def test_inserted_events_are_found(original: tuple[Path, Head], at: int) -> None:
    def insert(file: sqlite3.Connection) -> None:
        file.execute("UPDATE lz_events SET seq = -seq WHERE seq >= ?", (at,))
        file.execute("UPDATE lz_events SET seq = 1 - seq WHERE seq < 0")
        others = "kind, subject, agent, time, digest, prev, hash, salt, body"
        file.execute(f"INSERT INTO lz_events SELECT tenant, ?, {others} FROM lz_events WHERE seq = ?", (at, at + 1))

    found = after(original[0], insert)
    assert not found.ok and found.first_bad in (at, at + 1)


def cut_tail(file: sqlite3.Connection, keep: int) -> None:
    """Cut the tail as someone would who knows the tables: head and derived rows are made to fit."""
    last = file.execute("SELECT hash FROM lz_events WHERE seq = ?", (keep,)).fetchone()
    file.execute("DELETE FROM lz_events WHERE seq > ?", (keep,))
    file.execute("DELETE FROM lz_edges WHERE seq > ?", (keep,))
    file.execute("UPDATE lz_heads SET seq = ?, hash = ?", (keep, last[0]))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keep=st.integers(1, LENGTH - 1), fit_head=st.booleans())
def test_a_cut_tail_is_found(original: tuple[Path, Head], keep: int, fit_head: bool) -> None:
    path, head = original
    if fit_head:
        found = after(path, lambda file: cut_tail(file, keep), head)
    else:
        found = after(path, lambda file: file.execute("DELETE FROM lz_events WHERE seq > ?", (keep,)))
    assert not found.ok and found.first_bad == keep + 1


def test_a_perfectly_cut_tail_needs_the_kept_head(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append([Draft(EventKind.NOTED, f"n{number}") for number in range(5)])
        head = ledger.head()
    assert after(path, lambda file: cut_tail(file, 3)).ok  # nothing inside the store can tell
    assert after(path, lambda file: cut_tail(file, 3), head).first_bad == 4
    assert after(path, lambda file: file.execute("DELETE FROM lz_heads"), head).first_bad == 1
    assert after(path, lambda file: file.execute("DELETE FROM lz_heads")).first_bad == 1
    rewritten = Head(head.namespace, 3, "f" * 64)
    assert after(path, lambda file: None, rewritten).first_bad == 3


def test_erasing_by_hand_is_found(original: tuple[Path, Head]) -> None:
    by_hand = "UPDATE lz_events SET body = NULL, salt = NULL WHERE seq = 2"
    found = after(original[0], lambda file: file.execute(by_hand))
    assert not found.ok and found.first_bad == 2


@pytest.mark.parametrize(
    ("statement", "first_bad"),
    [
        ("UPDATE lz_blobs SET data = x'00'", 3),
        ("DELETE FROM lz_blobs", 3),
        ("DELETE FROM lz_blob_refs", 3),
        ("DELETE FROM lz_items WHERE seq = 4", 4),
        ("DELETE FROM lz_edges WHERE seq = 4", 4),
        ("INSERT INTO lz_edges VALUES (1, 99, 0, 'a', 'b', 'sent_to', 1.0)", LENGTH + 1),
        ("UPDATE lz_heads SET hash = x'00'", LENGTH),
        ("UPDATE lz_heads SET seq = 3", 4),
        ("DELETE FROM lz_search_1_docsize WHERE id = 4", 4),
    ],
)
def test_changes_around_the_events_are_found(original: tuple[Path, Head], statement: str, first_bad: int) -> None:
    found = after(original[0], lambda file: file.execute(statement))
    assert not found.ok and found.first_bad == first_bad


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, 10_000), mask=st.integers(1, 255))
def test_a_changed_byte_of_the_file_itself_is_found(original: tuple[Path, Head], which: int, mask: int) -> None:
    raw = bytearray(original[0].read_bytes())
    words = (b"note ", b"agent", b"reader")
    places = [start + n for word in words for start in _all(raw, word) for n in range(len(word))]
    raw[places[which % len(places)]] ^= mask
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        copy.write_bytes(raw)
        try:
            with Ledger.open(f"sqlite:///{copy}", read_only=True) as ledger:
                assert not ledger.verify().ok
        except StoreDamaged:
            pass


def _all(raw: bytearray, text: bytes) -> list[int]:
    found, start = [], raw.find(text)
    while start >= 0:
        found.append(start)
        start = raw.find(text, start + 1)
    return found


@pytest.mark.parametrize(
    ("statement", "first_bad"),
    [
        ("UPDATE lz_events SET body = set_byte(body, 3, get_byte(body, 3) # 1) WHERE seq = 4", 4),
        ("UPDATE lz_events SET salt = set_byte(salt, 3, get_byte(salt, 3) # 1) WHERE seq = 3", 3),
        ("UPDATE lz_events SET hash = set_byte(hash, 3, get_byte(hash, 3) # 1) WHERE seq = 3", 3),
        ("UPDATE lz_events SET time = time + 0.001 WHERE seq = 6", 6),
        ("UPDATE lz_events SET agent = agent || 'x' WHERE seq = 1", 1),
        ("UPDATE lz_events SET kind = 'sent' WHERE seq = 8", 8),
        ("DELETE FROM lz_events WHERE seq = 7", 7),
        ("DELETE FROM lz_events WHERE seq > 9", 10),
        ("UPDATE lz_events SET seq = 100 WHERE seq = 2", 2),
        ("UPDATE lz_items SET ruling = NULL WHERE ruling IS NOT NULL", 1),
        ("UPDATE lz_edges SET target = 'someone' WHERE seq = 2 AND place = 0", 2),
        ("DELETE FROM lz_search WHERE seq = 4", 4),
        ("UPDATE lz_blobs SET data = ''", 3),
    ],
)
def test_changes_in_postgresql_are_found(postgres_url: str, statement: str, first_bad: int) -> None:
    import psycopg

    with Ledger.open(postgres_url) as ledger:
        fill(ledger)
        with psycopg.connect(postgres_url) as direct:
            direct.execute(statement)
        found = ledger.verify()
    assert not found.ok and found.first_bad == first_bad


UNSEEN = [
    "DELETE FROM lz_known",
    "UPDATE lz_known SET label = 'allow'",
    "UPDATE lz_known SET key = key || 'x'",
    "INSERT INTO lz_known VALUES (1, 'blocklist', 'text:0', 'it_x', 'block')",
    "CREATE TRIGGER lz_quiet AFTER INSERT ON lz_events BEGIN DELETE FROM lz_known; END",
    "CREATE VIEW lz_view AS SELECT * FROM lz_events",
    "DROP INDEX lz_events_subject",
    "CREATE TABLE lz_more (x)",
    "INSERT INTO lz_search_1(lz_search_1, rowid, text) VALUES ('delete', 4, (SELECT json_extract(CAST(body AS TEXT),"
    " '$.text') FROM lz_events WHERE seq = 4)); INSERT INTO lz_search_1(rowid, text) VALUES (4, 'other words')",
]


@pytest.mark.parametrize("statement", UNSEEN)
def test_what_stood_outside_the_chain_is_verified_too(original: tuple[Path, Head], statement: str) -> None:
    found = after(original[0], lambda file: file.executescript(statement))
    assert not found.ok and found.reason


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lz_known",
        "UPDATE lz_known SET label = 'allow'",
        "UPDATE lz_search SET words = to_tsvector('simple', 'other words') WHERE seq = 4",
        "CREATE RULE quiet AS ON INSERT TO lz_known DO INSTEAD NOTHING",
        "CREATE FUNCTION nope() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql;"
        " CREATE TRIGGER quiet BEFORE INSERT ON lz_known FOR EACH ROW EXECUTE FUNCTION nope()",
        "DROP INDEX lz_events_subject",
        "ALTER TABLE lz_items ADD COLUMN note TEXT",
    ],
)
def test_the_same_in_postgresql(postgres_url: str, statement: str) -> None:
    import psycopg

    with Ledger.open(postgres_url) as ledger:
        fill(ledger)
        assert ledger.verify().ok
        with psycopg.connect(postgres_url) as direct:
            direct.execute(statement)
        assert not ledger.verify().ok
