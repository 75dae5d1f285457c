"""Claims beside the ledger: found by meaning, gone with their item, invisible to other tenants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import DIMENSION, ClaimRow, VectorIndex
from lazaretto.types import Channel, Draft, EventKind, Observation


def unit(seed: int, near: np.ndarray | None = None) -> np.ndarray:
    made = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    made /= np.linalg.norm(made)
    if near is not None:
        made = near + 0.4 * made
        made /= np.linalg.norm(made)
    return made.astype(np.float32)


def keep(ledger: Ledger, text: str, *vectors: np.ndarray) -> str:
    note = Observation("ann", Channel.MEMORY, text, namespace=ledger.namespace)
    ledger.append_item(note)
    ledger.keep_claims(note.id, [ClaimRow(0, len(text), v) for v in vectors])
    return note.id


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")


def test_the_nearest_come_first_and_only_near_enough_ones(ledger: Ledger) -> None:
    asked = unit(0)
    near, exact = keep(ledger, "near", unit(1, asked)), keep(ledger, "exact", asked)
    for seed in range(2, 40):
        keep(ledger, f"far {seed}", unit(seed))
    found = ledger.nearest_claims(asked, limit=3, least=0.5)
    assert [one.item for one in found] == [exact, near]
    assert found[0].cosine > 0.999 and (found[0].start, found[0].end) == (0, 5)


def test_hidden_superseded_and_erased_items_are_not_found(ledger: Ledger) -> None:
    asked = unit(0)
    held, old, gone, kept = (keep(ledger, text, asked) for text in ("held", "old", "gone", "kept"))
    ledger.append([Draft(EventKind.RULED, held, body={"ruling": "quarantine"})])
    ledger.append([Draft(EventKind.SUPERSEDED, kept, body={"old": old})])
    ledger.erase(gone, "asked for")
    assert [one.item for one in ledger.nearest_claims(asked)] == [kept]
    ledger.append([Draft(EventKind.RELEASED, held, body={"by": "ann"})])
    assert {one.item for one in ledger.nearest_claims(asked)} == {kept, held}


def test_an_erased_item_leaves_no_vector_in_any_file(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    vector = unit(5)
    item = keep(ledger, "a secret claim", vector)
    keep(ledger, "another", unit(6))
    stored = (vector * (127 / np.abs(vector).max())).round().astype(np.int8).tobytes()
    assert any(stored in path.read_bytes() for path in tmp_path.iterdir())
    ledger.erase(item, "asked for")
    ledger.keep_claims(item, [ClaimRow(0, 3, vector)])  # too late: nothing of it may come back
    assert not ledger.nearest_claims(vector, least=0.9)
    ledger.close()
    for path in tmp_path.iterdir():
        assert stored not in path.read_bytes() and b"a secret claim" not in path.read_bytes(), path.name


def test_tenants_do_not_find_each_other(ledger: Ledger) -> None:
    keep(ledger, "mine", unit(0))
    other = ledger.within("other")
    assert other.nearest_claims(unit(0)) == []
    theirs = keep(other, "theirs", unit(0))
    assert [one.item for one in other.nearest_claims(unit(0))] == [theirs]


def test_what_another_process_added_is_found_and_what_has_no_claims_is_listed(ledger: Ledger) -> None:
    first = keep(ledger, "first", unit(0))
    assert [one.item for one in ledger.nearest_claims(unit(0))] == [first]
    another = Ledger.open(ledger.url)
    second = keep(another, "second", unit(0))
    bare = Observation("bob", Channel.MEMORY, "no claims yet")
    another.append_item(bare)
    assert {one.item for one in ledger.nearest_claims(unit(0))} == {first, second}
    assert [item for _, item in ledger.without_claims()] == [bare.id]


def test_the_index_finds_what_an_exact_search_finds() -> None:
    rng = np.random.default_rng(1)
    topics = rng.standard_normal((50, DIMENSION)).astype(np.float32)
    made = topics[rng.integers(0, 50, 5000)] + 0.8 * rng.standard_normal((5000, DIMENSION)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    index = VectorIndex()
    index._whole = None  # as of a large tenant
    from lazaretto.ledger import vectors as module

    rounded = module._rounded(made)
    cells = (rounded.astype(np.float32) @ module._centres().T).argmax(1)
    for cell in range(module.CELLS):
        chosen = np.flatnonzero(cells == cell)
        index._cells[cell].extend(module._bits(rounded[chosen]), chosen.astype(np.int64))
    hits = 0
    for row in range(0, 5000, 100):
        asked = made[row] + 0.2 * rng.standard_normal(DIMENSION).astype(np.float32) / np.sqrt(DIMENSION)
        hits += row in index.candidates(asked.astype(np.float32), 96)
    assert len(index) == 5000
    assert hits >= 49


def test_of_a_small_tenant_no_claim_is_overlooked(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from lazaretto.ledger import vectors as module

    rng = np.random.default_rng(2)
    made = rng.standard_normal((40, DIMENSION)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    keep(ledger, "many claims", *made)
    found = ledger.nearest_claims(made[0], limit=40, least=-1.0)
    assert len(found) == 40, "however far away its cell is"
    monkeypatch.setattr(module, "WHOLE", 10)
    large = module.VectorIndex()
    with ledger._store.reading() as connection:
        large.follow(connection, ledger._tenant(connection) or 0)
    assert large._whole is None and len(large) == 40
    assert 0 < len(large.candidates(made[0], 40)) < 40


def test_held_ones_in_front_hide_none_that_may_be_seen(ledger: Ledger) -> None:
    asked = unit(0)
    held = [keep(ledger, f"held {n}", asked) for n in range(30)]
    ledger.append([Draft(EventKind.RULED, item, body={"ruling": "quarantine"}) for item in held])
    seen = [keep(ledger, f"seen {n}", unit(n + 1, asked)) for n in range(4)]
    found = ledger.nearest_claims(asked, limit=3)
    assert len(found) == 3 and {one.item for one in found} < set(seen)
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    with_held = ledger.nearest_claims(asked, limit=32, hidden=True)
    assert {one.item for one in with_held[:30]} == set(held) and len(with_held) == 32
