"""What every store must do, run on SQLite and on a real PostgreSQL alike."""

from __future__ import annotations

import contextlib
import inspect
import math
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazaretto.errors import InputError, StoreError, TooLarge, UnknownItem
from lazaretto.ledger import ItemState, Ledger, Store, search, seen_draft
from lazaretto.ledger.vectors import DIMENSION, ClaimRow
from lazaretto.types import (
    Channel,
    Draft,
    EdgeKind,
    EventKind,
    Head,
    MemoryFields,
    Observation,
    Ref,
    RepairPlan,
    RepairStep,
    Ruling,
    SourceClass,
    plain,
)


def memory(text: str = "the harbour opens at six", agent: str = "ann", **more: Any) -> Observation:
    return Observation(agent, Channel.MEMORY, text, **more)


def test_an_observation_comes_back_as_it_was(ledger: Ledger) -> None:
    picture = ledger.put_blob(b"\x89PNG not really")
    first = memory()
    full = memory(
        "naïve 自由 \0 \U0001f6a2 \u202e end",
        image=picture,
        fields=MemoryFields((0.1, -2.5e-300), (1.0,), (3.0,), ("tag", "Ω"), {"deep": {"list": [1, None, "x"]}}),
        parents=(first.id,),
        source=SourceClass.TOOL_OUTPUT_EXTERNAL,
        time=1_700_000_000.123456,
        principal="key:harbour master",
    )
    ledger.append_item(first)
    ledger.append_item(full)
    assert ledger.item(full.id) == full
    assert ledger.items(ids=[full.id, first.id, "it_none"]) == [full, first]
    assert ledger.blob(picture) == b"\x89PNG not really"
    assert ledger.verify().ok


def test_events_are_linked_ordered_and_filtered(ledger: Ledger) -> None:
    item = memory()
    recorded = ledger.append_item(item, [Draft(EventKind.RETRIEVED, item.id, "bob")])
    recorded += ledger.append([Draft(EventKind.SENT, item.id, "bob", {"to": "cleo"})])
    recorded += ledger.append([Draft(EventKind.NOTED, "policy", "", {"b": 1, "a": [1.5, True, None]})])
    assert list(ledger.events()) == recorded
    assert [event.seq for event in recorded] == [1, 2, 3, 4]
    assert recorded[0].prev == "0" * 64
    assert [event.prev for event in recorded[1:]] == [event.hash for event in recorded[:-1]]
    assert ledger.head() == Head("default", 4, recorded[-1].hash)
    assert list(ledger.events(after=2, limit=1)) == recorded[2:3]
    assert list(ledger.events(kinds=[EventKind.SENT, EventKind.NOTED])) == recorded[2:]
    assert list(ledger.events(subject=item.id)) == recorded[:3]
    assert list(ledger.events(limit=0)) == []
    assert list(recorded[3].body or {}) == ["b", "a"]


def test_many_events_are_read_page_by_page(ledger: Ledger) -> None:
    ledger.append([Draft(EventKind.NOTED, f"n{n}") for n in range(2345)])
    assert [event.seq for event in ledger.events()] == list(range(1, 2346))
    assert [event.seq for event in ledger.events(after=1, limit=2001)] == list(range(2, 2003))


def test_edges_follow_the_events(ledger: Ledger) -> None:
    a, b = memory(), memory("b", "bob")
    ledger.append_item(a)
    ledger.append_item(
        b, [Draft(EventKind.DERIVED, b.id, "", {"parent": a.id}), Draft(EventKind.RETRIEVED, a.id, "bob")]
    )
    ledger.append([Draft(EventKind.REPORTED, "de_1", "bob", {"what": "sold", "rests_on": [b.id]})])
    found = [(seq, edge.source, edge.kind, edge.target) for seq, edge in ledger.edges()]
    assert found == [
        (1, a.id, EdgeKind.WRITTEN_BY, "ann"),
        (2, b.id, EdgeKind.WRITTEN_BY, "bob"),
        (3, b.id, EdgeKind.DERIVED_FROM, a.id),
        (4, a.id, EdgeKind.RETRIEVED_BY, "bob"),
        (5, "de_1", EdgeKind.WRITTEN_BY, "bob"),
        (5, b.id, EdgeKind.INFLUENCED, "de_1"),
    ]
    assert [seq for seq, _ in ledger.edges(after=3)] == [4, 5, 5]


def receipt(*steps: RepairStep) -> dict[str, Any]:
    return {"plan": plain(RepairPlan("isolate", steps[0].item, steps)), "id": "rc_1"}


def test_state_follows_rulings_repairs_and_releases(ledger: Ledger) -> None:
    item, better = memory("red door"), memory("green door")
    ledger.append_item(item)
    assert ledger.state(item.id) == ItemState()
    ledger.append([Draft(EventKind.RULED, item.id, "", {"ruling": "quarantine"})])
    assert ledger.state(item.id) == ItemState(ruling=Ruling.QUARANTINE)
    assert ledger.items() == [] and ledger.search("door") == []
    assert ledger.items(any_state=True) == [item]
    ledger.append([Draft(EventKind.RELEASED, item.id)])
    assert ledger.items() == [item] and ledger.state(item.id).visible
    ledger.append([Draft(EventKind.REPAIRED, "rc_1", "", receipt(RepairStep(item.id, "hide")))])
    assert ledger.state(item.id).hidden and ledger.items() == []
    ledger.append([Draft(EventKind.UNDONE, "rc_1", "", {"restored": {item.id: {"hidden": False}}})])
    assert not ledger.state(item.id).hidden
    ledger.append_item(better, [Draft(EventKind.SUPERSEDED, better.id, "", {"old": item.id})])
    assert ledger.state(item.id).superseded_by == better.id
    assert [found.id for found, _ in ledger.search("door")] == [better.id]
    ledger.append([Draft(EventKind.UNDONE, "rc_2", "", {"restored": {item.id: {"superseded_by": None}}})])
    assert {found.id for found, _ in ledger.search("door")} == {item.id, better.id}
    ledger.append([Draft(EventKind.UNDONE, "rc_3", "", {"restored": {item.id: {"ruling": "block"}}})])
    assert ledger.state(item.id).ruling is Ruling.BLOCK
    ledger.append([Draft(EventKind.UNDONE, "rc_3", "", {"restored": {item.id: {"ruling": None}}})])
    assert ledger.state(item.id).ruling is None
    assert ledger.verify().ok


def test_seen_and_ruled_in_one_batch(ledger: Ledger) -> None:
    item = memory()
    ledger.append_item(item, [Draft(EventKind.RULED, item.id, "", {"ruling": "block"})])
    assert ledger.state(item.id).ruling is Ruling.BLOCK
    assert ledger.verify().ok


def test_items_are_filtered_newest_first(ledger: Ledger) -> None:
    notes = [memory(f"note {n}", "ann" if n % 2 else "bob") for n in range(6)]
    said = Observation("ann", Channel.MESSAGE, "hello")
    ledger.append([seen_draft(one) for one in [*notes, said]])
    assert [one.text for one in ledger.items(channel=Channel.MEMORY, limit=2)] == ["note 5", "note 4"]
    assert [one.text for one in ledger.items(agent="ann", limit=3)] == ["hello", "note 5", "note 3"]
    assert ledger.items(agent="ann", channel=Channel.MESSAGE) == [said]
    assert ledger.items(ids=[]) == []


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "a AND",
        "NEAR(",
        "* OR 1=1; --",
        "col:x",
        "{x}",
        "-",
        "",
        "   ",
        "\0",
        "^",
        "%s ?",
        "🚢",
        "x" * 5000,
        "(" * 900,
    ],
)
def test_any_query_text_is_safe(ledger: Ledger, query: str) -> None:
    ledger.append_item(memory("some words of a note"))
    assert isinstance(ledger.search(query), list)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The refund policy changed on Monday", "what is the REFUND policy?"),
        ("Обновлённая политика возврата", "политика"),
        ("我们的退款政策已经改变", "退款"),
        ("払い戻しの方針", "方針"),
        ("نبيع السفن في الميناء", "السفن"),
        ("snake_case_name", "case"),
    ],
)
def test_search_finds_words_in_any_script(ledger: Ledger, text: str, query: str) -> None:
    wanted, other = memory(text), memory("nothing alike", "bob")
    ledger.append([seen_draft(wanted), seen_draft(other), seen_draft(Observation("ann", Channel.MESSAGE, text))])
    assert [found.id for found, _ in ledger.search(query)] == [wanted.id]
    assert ledger.search(query, agent="bob") == []


def test_search_ranks_rare_words_higher(ledger: Ledger) -> None:
    common = [memory(f"the ship and the sea {n}") for n in range(20)]
    rare = memory("the lazaretto")
    ledger.append([seen_draft(one) for one in [*common, rare]])
    found = ledger.search("the lazaretto", limit=5)
    assert found[0][0].id == rare.id and len(found) == 5
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_of_a_common_word_the_newest_are_ranked_and_of_a_rare_one_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every memory with a word of the query was ranked: 88 seconds in PostgreSQL where a million had it."""
    monkeypatch.setattr(search, "MOST_HITS", 3)
    rare, *common = [memory("the lazaretto of old"), *(memory(f"the ship {n}") for n in range(8))]
    ledger.append([seen_draft(one) for one in [rare, *common]])
    held = [Draft(EventKind.RULED, one.id, body={"ruling": "quarantine", "rule": "x", "risk": 1}) for one in common[6:]]
    ledger.append(held)
    newest = [one.id for one in common[5:2:-1]]
    assert [one.id for one, _ in ledger.search("ship", limit=2)] == newest[:2], "what is held takes no place"
    found = [one.id for one, _ in ledger.search("the lazaretto", limit=3)]
    assert found[0] == rare.id and set(found[1:]) <= set(newest)
    assert len(ledger.search("ship", limit=5)) == 5, "as many as were asked for"


ITEM = "it_x"
BAD_DRAFTS: list[tuple[str, Draft]] = [
    ("subject", Draft(EventKind.NOTED, "")),
    ("subject", Draft(EventKind.NOTED, "nul\0")),
    ("subject", Draft(EventKind.NOTED, "\ud800")),
    ("subject", Draft(EventKind.NOTED, "x" * 513)),
    ("subject", Draft(EventKind.RETRIEVED, "it_unknown", "ann")),
    ("subject", Draft(EventKind.RULED, "it_unknown", "", {"ruling": "allow"})),
    ("agent", Draft(EventKind.NOTED, "x", 7)),  # type: ignore[arg-type]
    ("kind", Draft("dreamt", "x")),  # type: ignore[arg-type]
    ("kind", Draft(EventKind.ERASED, "x")),
    ("time", Draft(EventKind.NOTED, "x", time=math.nan)),
    ("time", Draft(EventKind.NOTED, "x", time=math.inf)),
    ("time", Draft(EventKind.NOTED, "x", time="now")),  # type: ignore[arg-type]
    ("body", Draft(EventKind.NOTED, "x", body=[1])),  # type: ignore[arg-type]
    ("body.text", Draft(EventKind.NOTED, "x", body={"text": "\udcff"})),
    ("body.n[1]", Draft(EventKind.NOTED, "x", body={"n": [1.0, math.nan]})),
    ("body.o", Draft(EventKind.NOTED, "x", body={"o": object()})),
    ("body", Draft(EventKind.NOTED, "x", body={1: 2})),  # type: ignore[dict-item]
    ("body", Draft(EventKind.NOTED, "x", body={"big": 2**70})),
    ("body.ruling", Draft(EventKind.RULED, ITEM, "", {"ruling": "maybe"})),
    ("body.parent", Draft(EventKind.DERIVED, ITEM, "", {"parent": ITEM})),
    ("body.parent", Draft(EventKind.DERIVED, ITEM, "", {"parent": "it_unknown"})),
    ("body.target", Draft(EventKind.INFLUENCED, ITEM, "", {"target": "de_unknown"})),
    ("body.old", Draft(EventKind.SUPERSEDED, ITEM, "", {})),
    ("body.to", Draft(EventKind.SENT, ITEM, "ann", {})),
    ("body.rests_on", Draft(EventKind.REPORTED, "de_2", "ann", {"rests_on": ["it_unknown"]})),
    ("body.plan.steps", Draft(EventKind.REPAIRED, "rc_1", "", {})),
    ("body.restored", Draft(EventKind.UNDONE, "rc_1", "", {"restored": {"it_unknown": {"hidden": True}}})),
    ("id", seen_draft(memory(id=ITEM))),
    ("agent", seen_draft(memory(agent=""))),
    ("parents", seen_draft(memory(parents=("it_self",), id="it_self"))),
    ("parents", seen_draft(memory(parents=("it_unknown",)))),
    ("image", seen_draft(memory(image="nonsense"))),
    ("image", seen_draft(memory(image="0" * 64))),
    ("channel", Draft(EventKind.SEEN, "it_1", "ann", {"source": "system", "text": ""})),
    ("source", Draft(EventKind.SEEN, "it_1", "ann", {"channel": "memory", "source": "moon"})),
    ("text", Draft(EventKind.SEEN, "it_1", "ann", {"channel": "memory", "source": "system", "text": 5})),
    ("body", Draft(EventKind.SEEN, "it_1", "ann", {"channel": "memory", "source": "system", "odd": 5})),
]


def test_bad_drafts_are_refused_by_field_and_leave_nothing(ledger: Ledger) -> None:
    ledger.append_item(memory(id=ITEM))
    for field, draft in BAD_DRAFTS:
        before = ledger.head()
        with pytest.raises(InputError) as caught:
            ledger.append([Draft(EventKind.NOTED, "good"), draft])
        assert caught.value.field == field, draft
        assert ledger.head() == before
    assert ledger.verify().ok
    with pytest.raises(UnknownItem):
        ledger.item("it_unknown")
    with pytest.raises(UnknownItem):
        ledger.state("it_unknown")
    with pytest.raises(InputError):
        ledger.append_item(memory(namespace="other"))
    with pytest.raises(TooLarge):
        ledger.within("n" * 513)


def test_large_texts_pass(ledger: Ledger) -> None:
    big = memory("harbour " * 1_250_000)  # 10 MB
    ledger.append_item(big)
    assert ledger.item(big.id).text == big.text
    assert [found.id for found, _ in ledger.search("harbour")] == [big.id]
    assert ledger.verify().ok


def test_blobs_are_stored_once_and_dropped_with_their_last_item(ledger: Ledger) -> None:
    other = ledger.within("other")
    digest = ledger.put_blob(b"picture")
    assert other.put_blob(b"picture") == digest == ledger.put_blob(b"picture")
    mine, twin = memory(image=digest), memory(image=digest)
    theirs = memory(image=digest, namespace="other")
    ledger.append_item(mine)
    ledger.append_item(twin)
    other.append_item(theirs)
    assert ledger.stats()["blobs"] == 1
    ledger.erase(mine.id, "asked")
    assert ledger.blob(digest) == b"picture"
    ledger.erase(twin.id, "asked")
    with pytest.raises(UnknownItem):
        ledger.blob(digest)
    assert other.blob(digest) == b"picture"
    other.erase(theirs.id, "asked")
    with other._store.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM lz_blobs").scalar() == 0
    assert ledger.verify().ok and other.verify().ok
    with pytest.raises(InputError):
        ledger.put_blob("text")  # type: ignore[arg-type]


def test_known_fingerprints(ledger: Ledger) -> None:
    ledger.add_fingerprints([("text", "k1"), ("text", "k2"), ("image", "k1")], "it_1", "block")
    ledger.add_fingerprints([("text", "k1")], "it_2", "warn")
    ledger.add_fingerprints([("text", "k1")], "it_1", "quarantine")
    found = [(one.key, one.item, one.label) for one in ledger.find_fingerprints("text", ["k1", "k2", "k9"])]
    assert found == [("k1", "it_1", "quarantine"), ("k1", "it_2", "warn"), ("k2", "it_1", "block")]
    assert ledger.find_fingerprints("text", []) == []
    assert ledger.drop_fingerprints("it_1") == 3
    assert [one.item for one in ledger.find_fingerprints("text", ["k1", "k2"])] == ["it_2"]
    with pytest.raises(InputError):
        ledger.add_fingerprints([("text", "nul\0")], "it_1", "block")


def test_erased_content_is_gone_and_the_chain_stays_valid(ledger: Ledger) -> None:
    parent, item = memory("a parent"), memory("my telephone number is 5550199")
    ledger.append_item(parent)
    ledger.append_item(Observation(**{**_fields(item), "parents": (parent.id,)}))
    ledger.append([Draft(EventKind.RULED, item.id, "", {"ruling": "warn", "evidence": "quotes 5550199"})])
    ledger.add_fingerprints([("text", "abc")], item.id, "warn")
    kept = ledger.head()
    tombstone = ledger.erase(item.id, "the person asked")
    assert tombstone.kind is EventKind.ERASED
    assert tombstone.body is not None and tombstone.body["events"] == [2, 3, 4]
    assert ledger.verify(kept).ok
    assert ledger.item(item.id).text == "" and ledger.state(item.id).erased
    assert ledger.search("telephone") == [] and ledger.find_fingerprints("text", ["abc"]) == []
    assert (item.id, EdgeKind.DERIVED_FROM, parent.id) in [(e.source, e.kind, e.target) for _, e in ledger.edges()]
    assert [event.body for event in ledger.events(subject=item.id, limit=2)] == [None, None]
    with pytest.raises(InputError):
        ledger.erase(item.id, "again")
    with pytest.raises(UnknownItem):
        ledger.erase("it_unknown", "why")


def _fields(item: Observation) -> dict[str, Any]:
    return {name: getattr(item, name) for name in Observation.__slots__}


def test_retention_erases_what_is_old(ledger: Ledger) -> None:
    old = [memory(f"old {n}", time=1000.0 + n) for n in range(450)]
    new = memory("new", time=5000.0)
    ledger.append([seen_draft(one) for one in [*old, new]])
    ledger.append([Draft(EventKind.REPORTED, "de_old", "ann", {"what": "x", "rests_on": [new.id]}, time=1.0)])
    ledger.add_fingerprints([("text", "k")], old[0].id, "block")
    assert ledger.erase_older_than(2000.0) == 451
    assert [one.item for one in ledger.find_fingerprints("text", ["k"])] == [old[0].id], (
        "what was harmful is still known"
    )
    assert ledger.erase_older_than(2000.0) == 0
    assert [one.id for one in ledger.items()] == [new.id]
    assert ledger.stats()["erased_items"] == 450
    assert ledger.verify().ok
    assert (new.id, "de_old") in [(e.source, e.target) for _, e in ledger.edges()]


def test_export_and_import_carry_everything(ledger: Ledger, tmp_path: Path) -> None:
    picture = ledger.put_blob(b"picture")
    items = [memory(f"note {n}", image=picture if n == 1 else None) for n in range(5)]
    ledger.append([seen_draft(one) for one in items])
    ledger.append([Draft(EventKind.RULED, items[2].id, "", {"ruling": "block"})])
    ledger.add_fingerprints([("text", "k")], items[2].id, "block")
    ledger.erase(items[3].id, "asked")
    assert ledger.export(tmp_path / "out.jsonl") == 8
    with Ledger.import_(tmp_path / "out.jsonl", f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert list(copy.events()) == list(ledger.events())
        assert list(copy.edges()) == list(ledger.edges())
        assert copy.verify(ledger.head()).ok
        assert copy.stats() == ledger.stats()
        assert [copy.state(one.id) for one in items] == [ledger.state(one.id) for one in items]
        assert copy.blob(picture) == b"picture" and copy.find_fingerprints("text", ["k"]) == ledger.find_fingerprints(
            "text", ["k"]
        )
    with pytest.raises(InputError):
        Ledger.import_(tmp_path / "out.jsonl", f"sqlite:///{tmp_path / 'copy.db'}")


def test_altered_exports_are_refused_whole(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([seen_draft(memory(f"note {n}")) for n in range(4)])
    ledger.export(tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    spoilt = {
        "altered": [line.replace("note 2", "note 7") for line in lines],
        "shortened": [*lines[:4], lines[-1]],
        "torn": lines[:-1],
        "swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "not json": ["{", *lines[1:]],
        "not ours": ['{"hello": 1}', *lines[1:]],
        "empty": [],
    }
    for name, changed in spoilt.items():
        (tmp_path / "bad.jsonl").write_text("\n".join(changed))
        with pytest.raises((InputError, StoreError)):
            Ledger.import_(tmp_path / "bad.jsonl", f"sqlite:///{tmp_path / name}.db")
        assert not [*tmp_path.glob(f"{name}.db*")], "and leaves no empty store behind"
        with Ledger.open(f"sqlite:///{tmp_path / name}.db") as target:
            assert target.head().seq == 0, name


def test_reopening_and_read_only(store_url: str) -> None:
    with Ledger.open(store_url) as first:
        first.append_item(memory())
    with Ledger.open(store_url, read_only=True) as reader:
        assert reader.head().seq == 1 and reader.verify().ok
        with pytest.raises(StoreError, match="read-only"):
            reader.append_item(memory())
    with Ledger.open(store_url, create=False) as again:
        again.append_item(memory())
        assert again.verify().checked == 2


def test_threads_share_one_ledger(ledger: Ledger) -> None:
    def work(worker: int) -> None:
        for n in range(10):
            ledger.append([Draft(EventKind.NOTED, f"w{worker}-{n}")])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len({event.subject for event in ledger.events()}) == 60
    assert ledger.verify().checked == 60


def test_a_namespace_that_was_never_committed_is_not_remembered(ledger: Ledger) -> None:
    """Readers remember a tenant's number; one that a failed write had drawn goes to somebody else later."""
    new = ledger.within("new")
    with pytest.raises(UnknownItem):
        new.append_item(memory(namespace="new"), [Draft(EventKind.RETRIEVED, "it_nobody", "ann")])
    assert new.items() == [] and new.head().seq == 0
    other = ledger.within("other")
    kept, own = other.append_item(memory(namespace="other")), new.append_item(memory(namespace="new"))
    for one, seen in ((other, kept), (new, own)):
        for _ in range(2):
            assert [found.id for found in one.items()] == [seen[0].subject]
    assert new.verify().ok and other.verify().ok


def test_claims_are_kept_with_their_item_or_not_at_all(ledger: Ledger) -> None:
    row, note = ClaimRow(0, 4, _VECTOR), memory()
    with pytest.raises(UnknownItem):
        ledger.append_item(note, [Draft(EventKind.RETRIEVED, "it_nobody", "ann")], claims=[row])
    assert not ledger.nearest_claims(_VECTOR)
    ledger.append_item(note, claims=[row])
    assert [one.item for one in ledger.nearest_claims(_VECTOR)] == [note.id] and not ledger.without_claims()
    ledger.keep_claims(note.id, [row])
    assert len(ledger.nearest_claims(_VECTOR)) == 1
    ledger.erase(note.id, "asked for")
    assert not ledger.nearest_claims(_VECTOR)


_VECTOR = np.full(DIMENSION, DIMENSION**-0.5, np.float32)
_REF = Ref("crm", "notes", "recipe")
TENANT_CALLS: dict[str, Callable[[Ledger, str, str, Path], Any]] = {
    "append": lambda own, item, _, __: _refused(lambda: own.append([Draft(EventKind.RETRIEVED, item, "spy")])),
    "append_item": lambda own, item, _, __: _refused(
        lambda: own.append_item(memory(parents=(item,), namespace=own.namespace))
    ),
    "events": lambda own, item, _, __: list(own.events(kinds=[EventKind.SEEN])) + list(own.events(subject=item)),
    "events_about": lambda own, item, _, __: own.events_about([item], list(EventKind)),
    "last_about": lambda own, item, _, __: own.last_about([item], list(EventKind)),
    "held_items": lambda own, _, __, ___: own.held_items(),
    "edge_columns": lambda own, item, _, __: [
        page for page in own.edge_columns(after=0, until=1 << 40) if item in (*page.sources, *page.targets)
    ],
    "edges_at": lambda own, item, _, __: [
        page for end in ("source", "target") for page in own.edges_at([item], end=end, kinds=list(EdgeKind), until=99)
    ],
    "edges": lambda own, item, _, __: [edge for _, edge in own.edges() if item in (edge.source, edge.target)],
    "item": lambda own, item, _, __: _refused(lambda: own.item(item)),
    "state": lambda own, item, _, __: _refused(lambda: own.state(item)),
    "states": lambda own, item, _, __: own.states([item]),
    "unknown": lambda own, item, _, __: own.unknown([item]) != (item,),
    "items": lambda own, item, _, __: own.items(any_state=True) + own.items(ids=[item], any_state=True),
    "search": lambda own, _, __, ___: own.search("secret recipe"),
    "head": lambda own, _, __, ___: own.head().seq,
    "verify": lambda own, _, __, ___: own.verify().checked,
    "stats": lambda own, _, __, ___: {k: v for k, v in own.stats().items() if v and k != "namespace"},
    "blob": lambda own, _, digest, __: _refused(lambda: own.blob(digest)),
    "put_blob": lambda own, _, digest, __: own.put_blob(b"other bytes") == digest,
    "find_fingerprints": lambda own, _, __, ___: own.find_fingerprints("text", ["secret"]),
    "drop_fingerprints": lambda own, item, _, __: own.drop_fingerprints(item),
    "add_fingerprints": lambda own, item, _, __: own.add_fingerprints([("text", "mine")], "it_mine", "block"),
    "keep_claims": lambda own, item, _, __: _refused(lambda: own.keep_claims(item, [ClaimRow(0, 1, _VECTOR)])),
    "nearest_claims": lambda own, _, __, ___: own.nearest_claims(_VECTOR, least=-1.0),
    "without_claims": lambda own, _, __, ___: own.without_claims(),
    "ref_states": lambda own, _, __, ___: own.ref_states([_REF]),
    "refs_of": lambda own, _, __, ___: own.refs_of(_REF.system),
    "last_failure": lambda own, _, __, ___: own.last_failure(_REF),
    "erase": lambda own, item, _, __: _refused(lambda: own.erase(item, "mischief")),
    "erase_older_than": lambda own, _, __, ___: own.erase_older_than(1e12),
    "export": lambda own, _, __, path: own.export(path / "spy.jsonl"),
    "copies": lambda own, item, _, __: _refused(lambda: own.copies(item)),
    "checkpoint": lambda own, _, __, ___: own.checkpoint().seq - own.head().seq,
    "prove": lambda own, _, __, ___: own.prove(own.checkpoint(), own.checkpoint()).path,
    "naming": lambda own, _, __, ___: own.naming(["secret"], 5),
    "witnessed": lambda own, _, __, ___: own.witnessed("default"),
}
# calls that name another tenant openly (an operator's), or touch no rows
NOT_A_READ = {
    "open", "within", "close", "url", "import_", "configure_signing", "send_checkpoints", "hand_over", "scrubbed",
    "lease", "lent_blob", "read_only", "rebuild", "restore_claims",
}  # fmt: skip


def _refused(call: Callable[[], Any]) -> None:
    with pytest.raises(InputError):
        call()


def test_every_public_call_is_in_the_tenancy_test() -> None:
    public = {name for name, _ in inspect.getmembers(Ledger) if not name.startswith("_")}
    assert public == set(TENANT_CALLS) | NOT_A_READ


def test_a_tenant_reads_nothing_of_another(ledger: Ledger, tmp_path: Path) -> None:
    digest = ledger.put_blob(b"secret picture")
    item = memory("the secret recipe", image=digest, ref=_REF)
    ledger.append_item(item)
    ledger.add_fingerprints([("text", "secret")], item.id, "block")
    ledger.keep_claims(item.id, [ClaimRow(0, 10, _VECTOR)])
    assert ledger.ref_states([_REF])
    before = (ledger.head(), ledger.stats(), ledger.item(item.id))
    for name, call in TENANT_CALLS.items():
        spy = ledger.within(f"spy-{name}")
        assert not call(spy, item.id, digest, tmp_path), name
        if (tmp_path / "spy.jsonl").exists():
            assert "secret" not in (tmp_path / "spy.jsonl").read_text()
    assert (ledger.head(), ledger.stats(), ledger.item(item.id)) == before
    assert ledger.verify().ok and ledger.find_fingerprints("text", ["secret"])


def test_scores_do_not_depend_on_other_tenants(ledger: Ledger) -> None:
    ledger.append([seen_draft(memory("a red ship")), seen_draft(memory("a green ship"))])
    before = ledger.search("red ship")
    other = ledger.within("other")
    other.append([seen_draft(memory(f"red ship {n}", namespace="other")) for n in range(20)])
    assert ledger.search("red ship") == before


def test_operators_see_the_namespaces(store_url: str) -> None:
    store = Store.open(store_url)
    for name in ("b", "a", "ünïcode ✓"):
        Ledger(store, name).append([Draft(EventKind.NOTED, "x")])
    assert store.namespaces() == ("a", "b", "ünïcode ✓")
    store.close()


def test_an_open_reader_delays_the_end_of_an_erasure_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "crew.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        secret = memory("my telephone number is 5550199")
        ledger.append_item(secret)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM lz_events").fetchone()
            ledger.erase(secret.id, "asked")
            assert not ledger.scrubbed, "the reader still sees the old state"
            reader.execute("ROLLBACK")
        ledger.append_item(memory("something else"))
        assert ledger.scrubbed
        assert b"5550199" not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_the_files_of_a_store_are_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "crew.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append_item(memory("a note"))
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            assert stat.S_IMODE(name.stat().st_mode) == 0o600
