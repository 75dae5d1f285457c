"""Every table is verified: what is taken from it, changed in it or added to it is found, and the finding names it.

Each alteration here passed as good before claims, tree, steps, search tables and the whole schema were held to the
chain.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import sqlalchemy as sa

from lazaretto.errors import ChainBroken, InputError, StoreDamaged
from lazaretto.ledger import Ledger, SigningKey, migrations, seen_draft
from lazaretto.ledger.appending import insert_sql
from lazaretto.ledger.migrations import catalogue
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.types import Channel, Draft, EventKind, Observation, Ref

from .filled_store import alter, fill, vector

BOTH = [
    ("lz_claims", "DELETE FROM lz_claims"),
    ("lz_claims", "DELETE FROM lz_claims WHERE place = 1"),
    ("lz_claims", "UPDATE lz_claims SET cell = 3 WHERE cell <> 3"),
    ("lz_claims", "UPDATE lz_claims SET stop = stop + 1"),
    ("lz_claims", "UPDATE lz_claims SET id = id + 1000000000000"),
    ("lz_claims", "INSERT INTO lz_claims SELECT tenant, id + 10485760, 'it_x', place, 0, 1, cell, vector FROM lz_claims"
     " WHERE place = 1"),
    ("lz_tree", "DELETE FROM lz_tree"),
    ("lz_tree", "DELETE FROM lz_tree WHERE level = 6"),
    ("lz_steps", "UPDATE lz_steps SET name = 'another' WHERE step = 3"),
    ("lz_events", "CREATE INDEX quick ON lz_events (agent)"),
    ("lz_items", "CREATE UNIQUE INDEX lz_items_one ON lz_items (seq)"),
    ("lz_known", "DROP INDEX lz_known_item"),
    ("lz_items", "ALTER TABLE lz_items ADD COLUMN note TEXT DEFAULT 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "statement"), BOTH)
def test_each_table_is_held_to_the_chain(store_url: str, table: str, statement: str) -> None:
    with Ledger.open(store_url) as ledger:
        fill(ledger)
    alter(store_url, statement)
    with Ledger.open(store_url, read_only=True) as ledger:
        found = ledger.verify()
    assert not found.ok and table in found.table.split(" and ") and table in found.reason


def test_zeroed_claims_are_found(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        fill(ledger)
        zero = "zeroblob(384)" if store_url.startswith("sqlite") else "decode(repeat('00', 384), 'hex')"
        alter(store_url, f"UPDATE lz_claims SET vector = {zero}")
        found = ledger.verify()
    assert not found.ok and found.table == "lz_claims" and found.first_bad is not None


SQLITE = [
    ("lz_search_1_data", "UPDATE lz_search_1_data SET block = x'0101' WHERE id = 1"),
    ("lz_search_1_data", "DELETE FROM lz_search_1_data WHERE id > 10"),
    ("lz_search_1_data", "INSERT INTO lz_search_1_data SELECT id + (9 << 37), block FROM lz_search_1_data"
     " WHERE id > 10"),
    ("lz_search_1_idx", "DELETE FROM lz_search_1_idx"),
    ("lz_search_1_idx", "UPDATE lz_search_1_idx SET pgno = pgno + 2"),
    ("lz_search_1_idx", "INSERT INTO lz_search_1_idx VALUES (77, x'00', 2)"),
    ("lz_search_1_docsize", "UPDATE lz_search_1_docsize SET sz = x'09' WHERE id = 5"),
    ("lz_search_1_docsize", "DELETE FROM lz_search_1_docsize WHERE id = 5"),
    ("lz_search_1_config", "INSERT INTO lz_search_1_config VALUES ('rank', 'bm25(9)')"),
    ("lz_search_1_config", "UPDATE lz_search_1_config SET v = 5 WHERE k = 'version'"),
    ("lz_search_8", "CREATE VIRTUAL TABLE lz_search_8 USING"
     " fts5(text, content='', tokenize='unicode61 remove_diacritics 0')"),
    ("sqlite_sequence", "INSERT INTO sqlite_sequence VALUES ('lz_claims', 9)"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "statement"), SQLITE)
def test_the_tables_of_the_search_index_are_verified(tmp_path: Path, table: str, statement: str) -> None:
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with Ledger.open(url) as ledger:
        fill(ledger)
    alter(url, statement)
    with Ledger.open(url, read_only=True) as ledger:
        found = ledger.verify()
    assert not found.ok and table in found.table.split(" and ")


POSTGRES = [
    ("lz_items", "ALTER TABLE lz_items ALTER COLUMN hidden SET DEFAULT 0"),
    ("lz_items", "ALTER TABLE lz_items ALTER COLUMN hidden DROP NOT NULL"),
    ("lz_known", "ALTER TABLE lz_known ADD CONSTRAINT none CHECK (label <> 'block') NOT VALID"),
    ("lz_events", "CREATE TABLE more () INHERITS (lz_events)"),
    ("lz_events", "ALTER TABLE lz_events ALTER COLUMN agent TYPE varchar(900)"),
    ("lz_events", "ALTER TABLE lz_events ENABLE ROW LEVEL SECURITY"),
    ("lz_more", "CREATE VIEW lz_more AS SELECT * FROM lz_events"),
    ("lz_claims", "CREATE TABLE holds (t INT, i BIGINT, FOREIGN KEY (t, i) REFERENCES lz_claims)"),
    ("lz_heads_tenant_seq", "ALTER SEQUENCE lz_heads_tenant_seq INCREMENT BY -1"),
    ("lz_heads_tenant_seq", "INSERT INTO lz_heads VALUES (9, 'x', 0, decode(repeat('00', 32), 'hex'))"),
]


@pytest.mark.parametrize(("table", "statement"), POSTGRES)
def test_the_schema_of_postgresql_is_what_the_migrations_make(postgres_url: str, table: str, statement: str) -> None:
    with Ledger.open(postgres_url) as ledger:
        fill(ledger)
        alter(postgres_url, statement)
        found = ledger.verify()
    assert not found.ok and table in found.table.split(" and ")


LIVE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'lz_*' AND sql NOT LIKE '%VIRTUAL%'",
    "postgresql": "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'lz\\_%%'",
}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_without_its_list_of_steps_is_damaged_and_not_new(store_url: str, read_only: bool) -> None:
    with Ledger.open(store_url) as ledger:
        ledger.append([seen_draft(Observation("ann", Channel.MEMORY, "a note"))])
    alter(store_url, "DROP TABLE lz_steps")
    with pytest.raises(StoreDamaged, match="no lz_steps"), Ledger.open(store_url, read_only=read_only):
        pass


def test_a_row_taken_from_any_table_there_is_is_found(store_url: str, tmp_path: Path) -> None:
    """The tables are asked of the database: a new one that nothing is written to here, or nothing verifies, fails."""
    pytest.importorskip("cryptography", reason="needs the sign extra")
    key = SigningKey.create(tmp_path / "key")
    with Ledger.open(store_url, key=key) as ledger:
        picture = Observation("ann", Channel.MEMORY, "a picture", image=ledger.put_blob(b"x"), ref=Ref("s", "", "k"))
        ledger.append_item(picture)
        ledger.add_fingerprints([("blocklist", "text:1")], picture.id, "block")
        fill(ledger)
        proof: dict[str, Any] = {"checkpoints": [ledger.checkpoint()], "keys": [key.public]}
        engine = ledger._store.engine
        mark = "?" if engine.dialect.name == "sqlite" else "%s"
        with engine.connect() as connection:
            tables = sorted(row[0] for row in connection.exec_driver_sql(LIVE[engine.dialect.name], ()))
        assert {"lz_events", "lz_claims", "lz_tree", "lz_steps"} < set(tables)
        for table in tables:
            with engine.begin() as connection:
                found = connection.exec_driver_sql(f"SELECT * FROM {table}", ())
                names, rows = list(found.keys()), found.all()
                assert rows, f"{table} is empty: write to it above"
                where = " AND ".join(f"{name} = {mark}" for name in names if rows[-1]._mapping[name] is not None)
                given = tuple(one for one in rows[-1] if one is not None)
                assert connection.exec_driver_sql(f"DELETE FROM {table} WHERE {where}", given).rowcount == 1
            answer = ledger.verify(**proof)
            assert not answer.ok and table in answer.table.split(" and "), (table, answer)
            with engine.begin() as connection:
                marks = ", ".join([mark] * len(names))
                connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", tuple(rows[-1]))
            assert ledger.verify(**proof).ok, table


def test_the_kept_listing_is_that_of_a_fresh_store(empty_postgres_url: str) -> None:
    from importlib import resources

    kept = orjson.loads(resources.files("lazaretto.ledger").joinpath("postgres_schema.json").read_bytes())
    with Ledger.open(empty_postgres_url) as ledger, ledger._store.reading() as connection:
        assert catalogue(connection) == kept


def test_erased_claims_leave_no_digest_and_lost_ones_are_told(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        ids = fill(ledger)
        ledger.erase(ids[1], "asked")
        bodies = [event.body for event in ledger.events(subject=f"claims:{ids[1]}")]
        assert bodies and not any(bodies)
        assert ledger.verify().ok and not ledger.verify().unproved
        alter(store_url, f"DELETE FROM lz_claims WHERE item = '{ids[7]}'")
        assert not ledger.verify().ok
        ledger.keep_claims(ids[7], [ClaimRow(0, 4, vector(7))])  # a guard that reads it again
        found = ledger.verify()
        assert found.ok and "recorded a second time" in found.unproved[0]


def test_nobody_records_claims_without_bringing_them(ledger: Ledger) -> None:
    note = seen_draft(Observation("ann", Channel.MEMORY, "a note"))
    forged = {**note.body, "claims": {"count": 1, "digest": "00"}}
    with pytest.raises(InputError, match="does not bring"):
        ledger.append([Draft(EventKind.SEEN, note.subject, "ann", forged)])
    ledger.append([note])
    with pytest.raises(InputError, match="does not bring"):
        ledger.append([Draft(EventKind.NOTED, f"claims:{note.subject}", body={"claims": {"count": 0, "digest": ""}})])
    assert ledger.verify().ok


def as_the_version_before(connection: sa.Connection) -> None:
    """Back to schema 8, where claims were numbered by the database and stood beside the chain."""
    sqlite = connection.dialect.name == "sqlite"
    rows = connection.exec_driver_sql("SELECT tenant, item, place, start, stop, cell, vector FROM lz_claims").all()
    connection.exec_driver_sql("DROP TABLE lz_claims")
    migrations._claims(connection)
    mark = "?" if sqlite else "%s"
    connection.exec_driver_sql(
        f"INSERT INTO lz_claims (tenant, item, place, start, stop, cell, vector) VALUES ({', '.join([mark] * 7)})",
        [tuple(row) for row in rows],
    )
    connection.exec_driver_sql("DROP INDEX lz_edges_source")
    connection.exec_driver_sql("DROP INDEX lz_edges_target")
    connection.exec_driver_sql("DELETE FROM lz_steps WHERE step > 8")
    connection.exec_driver_sql(f"ALTER TABLE lz_steps ADD COLUMN applied {'REAL' if sqlite else 'DOUBLE PRECISION'}")
    connection.exec_driver_sql("UPDATE lz_steps SET applied = 1.0")
    connection.exec_driver_sql("DELETE FROM lz_tree")


def test_claims_of_an_older_store_are_adopted_and_called_not_provable(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(store_url) as ledger:
        note = Observation("ann", Channel.MEMORY, "an old note")
        ledger.append([seen_draft(note)])

        def keep_as_before(connection: sa.Connection) -> None:
            row = (1, 0, note.id, 0, 0, 3, 7, vector(3).astype(np.int8).tobytes())
            connection.exec_driver_sql(
                insert_sql(sa.table("lz_claims", *map(sa.column, ("tenant", "id", "item", "place", "start", "stop",
                           "cell", "vector"))), connection.dialect.name), [row]
            )  # fmt: skip
            as_the_version_before(connection)

        ledger._store.transact(keep_as_before)
    with Ledger.open(store_url) as ledger:
        found = ledger.verify()
        assert found.ok and "claims of 1 items" in found.unproved[0]
        alter(store_url, "UPDATE lz_claims SET cell = 8")
        assert ledger.verify().table == "lz_claims"


def signed(url: str, folder: Path) -> SigningKey:
    pytest.importorskip("cryptography", reason="needs the sign extra")
    key = SigningKey.create(folder / "key")
    with Ledger.open(url, key=key) as ledger:
        fill(ledger)
        ledger.export(folder / "out.jsonl")
    return key


def test_an_export_carries_its_proof(store_url: str, tmp_path: Path) -> None:
    key = signed(store_url, tmp_path)
    out = tmp_path / "out.jsonl"
    with Ledger.import_(out, f"sqlite:///{tmp_path / 'a.db'}", keys=[key.public]) as copy:
        assert copy.imported == "proved" and copy.verify(keys=[key.public]).ok
        assert copy.nearest_claims(vector(7), limit=1)[0].cosine > 0.99
    with Ledger.import_(out, f"sqlite:///{tmp_path / 'b.db'}") as copy:
        assert copy.imported == "unchecked"
    other = SigningKey.create(tmp_path / "other")
    with pytest.raises(ChainBroken, match="not trusted"):
        Ledger.import_(out, f"sqlite:///{tmp_path / 'c.db'}", keys=[other.public])


def test_a_forged_export_is_refused_where_a_key_is_known(tmp_path: Path) -> None:
    key = signed(f"sqlite:///{tmp_path / 'l.db'}", tmp_path)
    forged = tmp_path / "forged.jsonl"
    with Ledger.open(f"sqlite:///{tmp_path / 'f.db'}") as ledger:  # every link sound, by somebody without the key
        fill(ledger)
        ledger.export(forged)
    with pytest.raises(InputError, match="no signatures"):
        Ledger.import_(forged, f"sqlite:///{tmp_path / 'a.db'}", keys=[key.public])
    with Ledger.import_(forged, f"sqlite:///{tmp_path / 'b.db'}", keys=[key.public], unsigned=True) as copy:
        assert copy.imported == "unsigned"
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    stolen = [one for one in lines if one.startswith(b'{"signature"')]
    forged.write_bytes(b"".join([*forged.read_bytes().splitlines(keepends=True)[:-1], *stolen, lines[-1]]))
    with pytest.raises(ChainBroken, match="signature"):
        Ledger.import_(forged, f"sqlite:///{tmp_path / 'c.db'}", keys=[key.public])


def test_an_export_with_other_claims_is_refused_and_an_old_one_is_read(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        fill(ledger)
        ledger.export(tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text()
    (tmp_path / "bad.jsonl").write_text(text.replace('"stop":4', '"stop":5', 1))
    with pytest.raises(ChainBroken, match="lz_claims"):
        Ledger.import_(tmp_path / "bad.jsonl", f"sqlite:///{tmp_path / 'a.db'}")
    with Ledger.open(f"sqlite:///{tmp_path / 'plain.db'}") as ledger:
        ledger.append([seen_draft(Observation("ann", Channel.MEMORY, f"note {n}")) for n in range(3)])
        ledger.export(tmp_path / "old.jsonl")
    (tmp_path / "old.jsonl").write_text((tmp_path / "old.jsonl").read_text().replace('"format":3', '"format":2'))
    with Ledger.import_(tmp_path / "old.jsonl", f"sqlite:///{tmp_path / 'b.db'}") as copy:
        assert copy.imported == "unsigned" and copy.verify().ok
