"""The store of computed values: shared, whole after a crash, first value wins."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lazaretto.errors import StoreDamaged
from lazaretto.models.caches import KeyValueStore


@pytest.mark.parametrize("name", ["values.db", ""], ids=["file", "memory"])
def test_what_was_added_is_found(tmp_path: Path, name: str) -> None:
    store = KeyValueStore(tmp_path / "deep" / name if name else None)
    store.add({"a": b"1", "b": b"\x00\xff"})
    assert store.find(["b", "c", "a"]) == {"a": b"1", "b": b"\x00\xff"}
    assert len(store) == 2


def test_two_who_open_a_file_share_it_and_the_first_value_stays(tmp_path: Path) -> None:
    first, second = KeyValueStore(tmp_path / "v.db"), KeyValueStore(tmp_path / "v.db")
    first.add({"k": b"one"})
    second.add({"k": b"two", "l": b"three"})
    assert first.find(["k", "l"]) == {"k": b"one", "l": b"three"}


def test_what_broke_half_way_was_never_there(tmp_path: Path) -> None:
    store = KeyValueStore(tmp_path / "v.db")
    with pytest.raises(sqlite3.Error):
        store.add({"x": b"whole", "y": object()})  # type: ignore[dict-item]
    assert KeyValueStore(tmp_path / "v.db").find(["x", "y"]) == {}
    store.add({"x": b"again"})
    assert store.find(["x"]) == {"x": b"again"}


def test_a_file_that_is_no_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "v.db").write_bytes(b"not a database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreDamaged, match=r"v\.db.*delete it"):
        KeyValueStore(tmp_path / "v.db")
