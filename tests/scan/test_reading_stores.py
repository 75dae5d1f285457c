"""What a scan reads: stores that the real packages wrote, notes, JSON lines; nothing of them is ever changed."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazaretto.errors import InputError
from lazaretto.scan.databases import open_read_only, parts_of, shell_of, words_of
from lazaretto.scan.sources import Files, open_source

STORES = Path(__file__).resolve().parent.parent / "data" / "scan"


@pytest.mark.parametrize(
    ("store", "ids"),
    [
        ("langgraph.sqlite", ["crew.keys/deploy", "crew.notes/page", "crew.notes/refunds"]),
        ("chroma", ["notes/refunds", "notes/page", "notes/deploy"]),
        ("qdrant", [f"mem0/00000000-0000-0000-0000-00000000000{n}" for n in range(3)]),
        ("history.sqlite", [f"history/memory-{n}" for n in range(3)]),
    ],
)
def test_every_memory_of_a_store_is_read(store: str, ids: list[str]) -> None:
    source = open_source([str(STORES / store)])
    found = {record.id: record.text for record in source.records()}
    assert list(found) == ids
    assert sum("Refunds need a receipt" in text for text in found.values()) == 1
    assert sum("Ignore all previous" in text for text in found.values()) == 1
    assert not source.tally.unreadable


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    shutil.copytree(STORES, tmp_path / "stores")
    logged = tmp_path / "stores" / "logged.db"
    shutil.copy(STORES / "langgraph.sqlite", logged)
    with sqlite3.connect(logged) as database:
        database.execute("PRAGMA journal_mode = WAL")
    database.close()

    def state() -> dict[str, str]:
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    before = state()
    assert len(list(Files(tmp_path).records())) > 12
    assert state() == before


def test_what_a_writer_has_only_logged_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE store (prefix, key, value)")
    writer.execute("CREATE TABLE store_migrations (v)")
    writer.execute("INSERT INTO store VALUES ('a', 'b', '{\"text\": \"kept a moment ago\"}')")
    assert [record.text for record in Files(path).records()] == ["kept a moment ago"]
    reader = open_read_only(path)
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("DELETE FROM store")
    reader.close()
    writer.close()


class _Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (eval, ("open('ran', 'w')",))


def test_a_pickle_in_a_store_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError):
        shell_of(pickle.dumps(_Hostile()))
    folder = tmp_path / "collection" / "notes"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "storage.sqlite") as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('1', ?)", (pickle.dumps(_Hostile()),))
    database.close()
    source = Files(tmp_path)
    assert list(source.records()) == []
    assert len(source.tally.unreadable) == 1, "what cannot be read is named, never called clean"
    assert not (tmp_path / "ran").exists()


def test_notes_and_lines_know_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Run the tests.\n")
    (tmp_path / "notes.md").write_text("# One\n\n" + "word " * 1_500 + "\n\nlast\n")
    (tmp_path / "m.jsonl").write_text(
        '{"id": "a", "text": "one", "user_id": "ada"}\n\n{"note": ["two", {"x": "three"}]}\n{no\n'
    )
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "link.md").symlink_to(tmp_path / "notes.md")
    source = Files(tmp_path)
    found = list(source.records())
    assert [r.id for r in found if r.place == "AGENTS.md"] == ["AGENTS.md:1"]
    assert [r.instructions for r in found if r.place == "AGENTS.md"] == [True]
    assert [(r.id, r.text, r.line) for r in found if r.place == "m.jsonl"] == [
        ("m.jsonl:a", "one", 1), ("m.jsonl:3", "two\nthree", 3)
    ]  # fmt: skip
    notes = [r for r in found if r.place == "notes.md"]
    assert "".join(r.text for r in notes) == (tmp_path / "notes.md").read_text() and len(notes) > 1
    assert source.tally.skipped_files == 2
    assert [one.partition(": ")[0] for one in source.tally.unreadable] == ["m.jsonl:4"]


def test_files_of_other_systems_are_read(tmp_path: Path) -> None:
    (tmp_path / "wide.md").write_bytes("Tea is at four.".encode("utf-16"))
    (tmp_path / "marked.md").write_bytes(b"\xef\xbb\xbfTea is at five.")
    (tmp_path / "marked.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "Tea is at six."}\n')
    (tmp_path / os.fsdecode(b"name\xff.md")).write_text("Tea is at seven.")
    (tmp_path / os.fsdecode(b"broken\xff.db")).write_bytes(b"SQLite format 3\0" + bytes(5_000))
    source = Files(tmp_path)
    found = {one.text: one.id for one in source.records()}
    assert found == {
        "Tea is at four.": "wide.md:1", "Tea is at five.": "marked.md:1", "Tea is at six.": "marked.jsonl:1",
        "Tea is at seven.": "name\\xff.md:1",
    }  # fmt: skip
    (broken,) = source.tally.unreadable
    assert broken.encode().startswith(rb"broken\xff.db: ")


def test_a_line_without_an_end_is_not_taken_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazaretto.scan.sources.MOST_LINE", 40)
    lines = ['{"text": "one"}', '{"text": "' + "x" * 200 + '"}', '{"text": "three"}', "y" * 100]
    (tmp_path / "m.jsonl").write_text("\n".join(lines))
    source = Files(tmp_path)
    assert [one.text for one in source.records()] == ["one", "three"]
    assert [one.partition(": ")[0] for one in source.tally.unreadable] == ["m.jsonl:2", "m.jsonl:4"]


@pytest.mark.parametrize(
    "target", ["nowhere", "https://example.org/store", "other.db", "postgresql://[::1/x", "pipe.md"]
)
def test_what_cannot_be_scanned_is_said(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("other.db") as database:
        database.execute("CREATE TABLE trees (name)")
    database.close()
    os.mkfifo("pipe.md")  # reading it would wait for ever
    with pytest.raises(InputError) as error:
        list(open_source([target]).records())
    assert error.value.fix


@given(st.text(alphabet="ab \n", max_size=400), st.integers(4, 60))
def test_parts_are_the_whole_text(text: str, size: int) -> None:
    lines = text.split("\n")
    for line, part in parts_of(text, size):
        assert len(part) <= size
        assert part.split("\n")[0] in lines[line]
    assert "".join(p for _, p in parts_of(text, size)).split() == text.split() or not text.strip() or size < 60


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(st.text() | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_any_value_has_words(value: object) -> None:
    assert isinstance(words_of(value), str)


def test_tables_of_postgresql(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for line in (
            "CREATE EXTENSION IF NOT EXISTS vector",
            "CREATE TABLE store (prefix text, key text, value jsonb, PRIMARY KEY (prefix, key))",
            "INSERT INTO store VALUES ('crew.notes', 'a', '{\"text\": \"one\"}')",
            "CREATE TABLE mem0 (id uuid PRIMARY KEY, vector vector(2), payload jsonb)",
            "INSERT INTO mem0 VALUES ('00000000-0000-0000-0000-000000000001', '[1,2]', '{\"data\": \"two\"}')",
            'CREATE TABLE "Odd name" (id int, embedding vector(2), document text)',
            "INSERT INTO \"Odd name\" VALUES (7, '[1,2]', 'three')",
            "CREATE TABLE users (id int, password text)",
        ):
            connection.execute(sa.text(line))
    engine.dispose()
    source = open_source([empty_postgres_url])
    assert [(r.id, r.text) for r in source.records()] == [
        ("public.Odd name/7", "three"),
        ("public.mem0/00000000-0000-0000-0000-000000000001", "two"),
        ("public.store/crew.notes/a", "one"),
    ]
    assert source.count() == 3
