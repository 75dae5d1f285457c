"""What was altered in a derived table is made again from the chain, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from lazaretto.cli import build
from lazaretto.errors import ChainBroken, StoreDamaged
from lazaretto.ledger import Ledger, SigningKey
from lazaretto.ledger.schema import metadata
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.types import Channel, Observation

from .filled_store import alter, fill, vector

ALTERED = [
    "UPDATE lz_items SET hidden = 1",
    "DELETE FROM lz_items WHERE seq > 20",
    "DELETE FROM lz_edges",
    "INSERT INTO lz_known SELECT tenant, 'text', 'abc', id, 'block' FROM lz_items WHERE seq = 9",
    "DELETE FROM lz_refs",
    "DELETE FROM lz_tree",
    "UPDATE lz_tree SET hash = prev FROM lz_events WHERE lz_events.seq = 2 AND level = 6",
    "UPDATE lz_steps SET name = 'another' WHERE step = 3",
]
SEARCH = {
    "sqlite": [
        "UPDATE lz_search_1_data SET block = x'0101' WHERE id = 1",
        "DELETE FROM lz_search_1_data WHERE id > 10",
        "DELETE FROM lz_search_1_idx",
        "DELETE FROM lz_search_1_docsize WHERE id = 5",
        "UPDATE lz_search_1_config SET v = 5 WHERE k = 'version'",
        "DROP TABLE lz_search_1",
    ],
    "postgresql": [
        "DELETE FROM lz_search WHERE seq = 5",
        "UPDATE lz_search SET words = to_tsvector('simple', 'other') WHERE seq = 5",
    ],
}


def contents(ledger: Ledger) -> dict[str, list[Any]]:
    """Every row of every table, the search index by what it finds."""
    with ledger._store.reading() as connection:
        found = {
            name: sorted(map(repr, connection.execute(sa.select(table)).all()))
            for name, table in metadata.tables.items()
        }
    found["search"] = [(item.id, score) for item, score in ledger.search("harbour", limit=100)]
    return found


def test_each_derived_table_is_made_again_and_nothing_else_changes(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        fill(ledger)
        before = contents(ledger)
        for statement in ALTERED + SEARCH[store_url.partition(":")[0].partition("+")[0]]:
            alter(store_url, statement)
            found = ledger.verify()
            if statement != "DELETE FROM lz_refs":  # there are none: nothing was altered
                assert not found.ok and "lazaretto ledger rebuild" in found.fix, statement
            assert ledger.rebuild().claims_lost == ()
            assert ledger.verify().ok, statement
            assert contents(ledger) == before, statement


def test_claims_are_put_back_where_they_are_read_alike(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        ids = fill(ledger)
        before = contents(ledger)
        alter(store_url, "DELETE FROM lz_claims WHERE place = 1")
        made = ledger.rebuild()
        assert made.claims_lost == (ids[7],)
        assert not ledger.verify().ok  # nobody has read them yet
        assert not ledger.restore_claims(ids[7], [ClaimRow(0, 4, vector(8))])
        assert ledger.restore_claims(ids[7], [ClaimRow(0, 4, vector(7)), ClaimRow(5, 9, vector(507))])
        assert ledger.verify().ok and contents(ledger) == before
        alter(store_url, f"INSERT INTO lz_claims SELECT tenant, id + 10485760, '{ids[3]}', place, 0, 1, cell, vector"
              " FROM lz_claims WHERE place = 1")  # fmt: skip
        assert ledger.rebuild().claims_lost == () and contents(ledger) == before


def test_nothing_is_rebuilt_from_a_chain_that_was_altered(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        fill(ledger)
        alter(store_url, "DELETE FROM lz_edges")
        alter(store_url, "UPDATE lz_events SET agent = 'eve' WHERE seq = 9")
        altered = contents(ledger)
        with pytest.raises(ChainBroken, match="restore a backup"):
            ledger.rebuild()
        assert contents(ledger) == altered
        alter(store_url, "UPDATE lz_events SET agent = 'ann' WHERE seq = 9")
        alter(store_url, "CREATE INDEX quick ON lz_events (agent)")
        with pytest.raises(StoreDamaged, match="Undo that change first"):
            ledger.rebuild()


def test_with_a_key_what_a_stranger_appended_is_not_rebuilt(store_url: str, tmp_path: Any) -> None:
    pytest.importorskip("cryptography", reason="needs the sign extra")
    key = SigningKey.create(tmp_path / "key")
    with Ledger.open(store_url, key=key) as ledger:
        fill(ledger)
    with Ledger.open(store_url) as stranger:
        stranger.append_item(Observation("eve", Channel.MEMORY, "not signed"))
        alter(store_url, "DELETE FROM lz_edges")
        with pytest.raises(ChainBroken, match="signed"):
            stranger.rebuild(keys=[key.public])


def test_the_command_says_what_was_wrong_and_that_it_is_good(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        fill(ledger)
    alter(store_url, "DELETE FROM lz_edges WHERE seq = 2")
    runner = CliRunner()
    verified = runner.invoke(build("ledger"), ["ledger", "verify", "--store", store_url])
    assert verified.exit_code == 1 and "run 'lazaretto ledger rebuild'" in " ".join(verified.output.split())
    rebuilt = runner.invoke(build("ledger"), ["ledger", "rebuild", "--store", store_url])
    assert rebuilt.exit_code == 0 and "lz_edges" in rebuilt.output and "good now" in rebuilt.output
