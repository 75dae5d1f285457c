"""The drill that operations.md asks for: back up a store that is written to, lose it, restore it, go on."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import orjson
import pytest

from lazaretto import Policy, SyncGuard
from lazaretto.errors import ChainBroken, InputError, LazarettoError
from lazaretto.ledger import Ledger
from lazaretto.ledger.backup import HEADS, back_up, bring_back


def filled(url: str) -> None:
    for crew in ("east", "west"):
        with SyncGuard.open(url, Policy.minimal(), crew) as guard:
            for number in range(5):
                guard.remember(f"{crew}: berth {number} is free", agent="ada")


def test_a_store_comes_back_whole_and_is_written_to_again(store_url: str, tmp_path: Path) -> None:
    filled(store_url)
    stop = threading.Event()

    def write() -> None:
        with SyncGuard.open(store_url, Policy.minimal(), "east") as guard:
            while not stop.is_set():
                guard.remember("written meanwhile", agent="bob")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        saved = back_up(store_url, tmp_path / "saved")
    finally:
        stop.set()
        writer.join()
    restored = f"sqlite:///{tmp_path / 'restored.db'}"
    assert bring_back(restored, tmp_path / "saved") == saved
    assert {one.head.namespace for one in saved} == {"east", "west"}
    with Ledger.open(store_url, "west") as before, Ledger.open(restored, "west") as after:
        assert after.head() == before.head()
        assert [one.text for one in after.items()] == [one.text for one in before.items()]
    with SyncGuard.open(restored, Policy.minimal(), "east") as guard:
        assert guard.remember("and on it goes", agent="ada").allowed and guard.ledger.verify().ok


def test_what_was_altered_is_found_before_anything_is_read(tmp_path: Path) -> None:
    url, saved = f"sqlite:///{tmp_path / 'crew.db'}", tmp_path / "saved"
    filled(url)
    back_up(url, saved)
    with pytest.raises(InputError, match="is not empty"):
        back_up(url, saved)
    with pytest.raises(InputError, match="store: is not empty"):
        bring_back(url, saved)
    target = f"sqlite:///{tmp_path / 'new.db'}"
    other = saved / "0001.jsonl"
    whole = other.read_bytes()
    other.write_bytes(whole.replace(b"berth 3", b"berth 4"))
    with pytest.raises(ChainBroken, match="not the file that was backed up"):
        bring_back(target, saved)
    assert not (tmp_path / "new.db").exists()
    rows = orjson.loads((saved / HEADS).read_bytes())
    rows[1]["sha256"] = hashlib.sha256(other.read_bytes()).hexdigest()
    (saved / HEADS).write_bytes(orjson.dumps(rows))
    with pytest.raises(LazarettoError):  # the sums were altered too: the chain tells
        bring_back(target, saved)
    other.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        bring_back(f"sqlite:///{tmp_path / 'third.db'}", saved)
    (saved / HEADS).unlink()
    with pytest.raises(InputError, match="holds no back-up"):
        bring_back(target, saved)
