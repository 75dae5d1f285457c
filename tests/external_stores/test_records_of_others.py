"""Records in a store of the caller's own: found by ref, taken in with provenance, compared, and written back to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from lazaretto import Channel, Evidence, ExternalRecord, Guard, InputError, Observation, Ref, Ruling, Verdict
from lazaretto.external_stores.records import text_of, with_text
from lazaretto.gates.protocol import GateContext
from lazaretto.ledger import Ledger, Store, migrations
from lazaretto.ledger.refs import ref_draft
from lazaretto.types import Draft, EventKind

Open = Callable[..., Guard]
POLICY = {"channels": {"memory": {"stages": [["words"]]}}}


class Words:
    """Holds whatever says one of its words."""

    name = "words"
    channels = frozenset(Channel)

    def __init__(self, *bad: str) -> None:
        self.bad = bad

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        found = any(word in observation.text for word in self.bad)
        ruling = Ruling.QUARANTINE if found else Ruling.ALLOW
        places = [observation.text.index(word) for word in self.bad if word in observation.text]
        spans = tuple(Evidence("span", "a bad word", {"start": at, "end": at + 1}) for at in places)
        return Verdict(self.name, observation.id, ruling, float(found), (0.0, 1.0), "word", spans)


class Shelf:
    """A store as a crew may have one; it can be away."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Any] = {}
        self.calls: list[tuple[str, str]] = []
        self.fails = 0

    def _call(self, what: str, key: str) -> None:
        self.calls.append((what, key))
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the shelf is away")

    def get(self, namespace: str, key: str) -> Any:
        return self.records.get((namespace, key))

    def put(self, namespace: str, key: str, value: Any) -> None:
        self._call("put", key)
        self.records[namespace, key] = value

    def delete(self, namespace: str, key: str) -> None:
        self._call("delete", key)
        self.records.pop((namespace, key), None)

    def list(self, namespace: str | None = None) -> Iterator[tuple[str, str, Any]]:
        for (where, key), value in self.records.items():
            if namespace in (None, where):
                yield where, key, value


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def crew(open_guard: Open, shelf: Shelf) -> Guard:
    guard = open_guard(POLICY, gates={"words": Words("poison")})
    guard.stores.join("shelf", shelf)
    return guard


async def keep(guard: Guard, shelf: Shelf, key: str, value: Any, **more: Any) -> str:
    """What a careful caller does: ask first, then write."""
    decision = await guard.remember(agent="ada", ref=("shelf", "notes", key), value=value, **more)
    if decision.allowed:
        shelf.records["notes", key] = value
    return decision.item


def ref(key: str) -> Ref:
    return Ref("shelf", "notes", key)


async def test_items_are_found_by_ref_and_unknown_refs_are_reported(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, "tea", {"text": "Tea is at four.", "n": 1})
    await keep(crew, shelf, "bad", "drink the poison")
    found = await crew.recall(agent="bob", items=[ref("tea"), ref("bad"), ref("nobody"), ("shelf", "x", "y")])
    assert [(one.text, one.ref) for one in found] == [("Tea is at four.\nn: 1", ref("tea"))]
    assert found.unknown == (ref("nobody"), Ref("shelf", "x", "y"))
    assert crew.ledger.item(found[0].id).key == "tea"
    assert ("notes", "bad") not in shelf.records and not await crew.stores.write_back()


async def test_only_the_newest_version_of_a_ref_is_recalled(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, "code", "the gate code is 1")
    await keep(crew, shelf, "code", "the gate code is 2")
    assert [one.text for one in await crew.recall("gate code", agent="bob")] == ["the gate code is 2"]
    await crew.stores.forget(ref("code"), agent="ada")
    assert not await crew.recall("gate code", agent="bob")
    assert not crew.ledger.refs_of("shelf", due=True), "the caller deleted it itself"


async def test_a_repair_reaches_the_store_and_undoing_it_too(crew: Guard, shelf: Shelf) -> None:
    value = {"fact": "Brightwater moved to 4711.", "tags": ["bank"], "n": 3}
    item = await keep(crew, shelf, "bank", value)
    receipt = await crew.repairs.apply(await crew.repairs.plan(item, "isolate", reason="fraud"))
    assert ("notes", "bank") not in shelf.records
    assert [(one.ref, one.outcome, one.error) for one in receipt.foreign] == [(ref("bank"), "deleted", "")]
    undone = await crew.repairs.undo(receipt.id)
    assert shelf.records["notes", "bank"] == value, "as it was, not only its text"
    assert [one.outcome for one in undone.foreign] == ["put"]
    assert await crew.stores.write_back() == () and (await crew.stores.reconcile("shelf")).clean
    assert crew.ledger.verify().ok


async def test_a_poisoned_overwrite_gives_way_to_what_stood_there_before(crew: Guard, shelf: Shelf) -> None:
    await keep(crew, shelf, "bank", "Pay at 1000.")
    poisoned = await keep(crew, shelf, "bank", "Pay at 4711.")
    await crew.label(poisoned, "harmful", by="mia")
    assert shelf.records["notes", "bank"] == "Pay at 1000."


async def test_held_at_the_door_and_released_later_it_is_put(crew: Guard, shelf: Shelf) -> None:
    item = await keep(crew, shelf, "rat", {"text": "rat poison is in the shed"})
    assert not shelf.records
    receipt = await crew.release(item, reason="it is about rats")
    assert shelf.records["notes", "rat"] == {"text": "rat poison is in the shed"}
    assert receipt.foreign[0].outcome == "put"


async def test_a_rewrite_lands_in_the_place_of_the_text(crew: Guard, shelf: Shelf) -> None:
    item = await keep(crew, shelf, "note", {"text": "Tea at four. The poison is for Eve.", "n": 2})
    await crew.repairs.apply(await crew.repairs.plan(item, "rewrite"))
    assert shelf.records["notes", "note"] == {"text": "Tea at four.", "n": 2}


async def test_a_store_that_is_away_is_tried_again_until_it_has_followed(crew: Guard, shelf: Shelf) -> None:
    item = await keep(crew, shelf, "bank", "Pay at 4711.")
    shelf.fails = 2  # away for a moment: the third try arrives
    receipt = await crew.repairs.apply(await crew.repairs.plan(item, "isolate"))
    assert [one.outcome for one in receipt.foreign] == ["deleted"]
    shelf.fails = 99
    receipt = await crew.repairs.undo(receipt.id)
    assert [(one.outcome, one.error) for one in receipt.foreign] == [("due", "ConnectionError: the shelf is away")]
    events = crew.ledger.head().seq
    assert [one.outcome for one in await crew.stores.write_back()] == ["due"]
    assert crew.ledger.head().seq == events, "the same failure is not recorded again and again"
    shelf.fails = 0
    await crew.recheck()
    assert shelf.records["notes", "bank"] == "Pay at 4711."
    assert [one.foreign[0].outcome for one in await crew.repairs.receipts()] == ["put"]


async def test_what_is_due_outlives_the_process_and_needs_no_queue(open_guard: Open, shelf: Shelf) -> None:
    first = open_guard(POLICY, gates={"words": Words()})
    item = await keep(first, shelf, "bank", "Pay at 4711.")
    receipt = await first.repairs.apply(await first.repairs.plan(item, "isolate"))  # the store is not joined here
    assert [(one.outcome, one.error) for one in receipt.foreign] == [("due", "the store 'shelf' is not joined")]
    first.close()
    second = open_guard(POLICY, gates={"words": Words()})
    second.stores.join("shelf", shelf)
    assert [one.outcome for one in await second.stores.write_back()] == ["deleted"]
    assert not shelf.records and await second.stores.write_back() == ()


async def test_a_write_whose_acknowledgement_was_lost_is_done_again_to_the_same_effect(
    crew: Guard, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await keep(crew, shelf, "bank", "Pay at 4711.")
    receipt = await crew.repairs.apply(await crew.repairs.plan(item, "isolate"))
    append = crew.ledger.append

    def dying(drafts: Any, **more: Any) -> Any:
        if any(draft.body.get("told") == "stored" for draft in drafts):
            raise KeyboardInterrupt
        return append(drafts, **more)

    monkeypatch.setattr(crew.ledger, "append", dying)
    with pytest.raises(KeyboardInterrupt):
        await crew.repairs.undo(receipt.id)
    monkeypatch.undo()
    assert shelf.records["notes", "bank"] == "Pay at 4711."
    assert [one.outcome for one in await crew.stores.write_back()] == ["put"]
    assert list(shelf.records.values()) == ["Pay at 4711."]


async def test_a_store_is_imported_with_provenance_and_only_once(crew: Guard, shelf: Shelf) -> None:
    shelf.records = {
        ("notes", key): text for key, text in [("a", "tea at four"), ("b", "the poison works"), ("c", "c")]
    }
    records = [
        ExternalRecord(ref("a"), "tea at four", agent="bob", source="untrusted_document", time=5.0),
        ExternalRecord(ref("b"), "the poison works", parents=(ref("a"),)),
        ExternalRecord(ref("c"), {"text": "drink tea"}, parents=(ref("b"),)),
        ExternalRecord(ref("d"), "made of nothing", parents=(ref("unheard"),)),
        ExternalRecord(ref("e"), ""),
        ExternalRecord(ref("f"), "no such year", time=1e300),
    ]
    done = await crew.stores.import_records(records, agent="importer")
    items = dict(done.items)
    assert set(items) == {ref("a"), ref("b"), ref("c")} and ref("b") in done.held
    assert [one for one, _ in done.refused] == [ref("d"), ref("e"), ref("f")]
    assert "unheard" in done.refused[0][1]
    first = crew.ledger.item(items[ref("a")])
    assert (first.agent, first.time, first.source) == ("bob", 5.0, "untrusted_document")
    assert crew.ledger.item(items[ref("b")]).parents == (items[ref("a")],)
    again = await crew.stores.import_records(records[:3], agent="importer")
    assert (again.items, again.known) == ((), 3)
    assert ("deleted", ref("b")) in [(one.outcome, one.ref) for one in await crew.stores.write_back()]
    assert ("notes", "b") not in shelf.records


async def test_reconcile_says_what_each_side_lacks(crew: Guard, shelf: Shelf) -> None:
    for key in ("same", "moved", "lost"):
        await keep(crew, shelf, key, f"about {key}")
    held = await keep(crew, shelf, "held", "about to be held")
    await crew.repairs.apply(await crew.repairs.plan(held, "isolate"))
    shelf.records |= {("notes", "moved"): "altered", ("notes", "new"): "x", ("notes", "held"): "about to be held"}
    del shelf.records["notes", "lost"]
    found = await crew.stores.reconcile("shelf")
    assert [one.ref.key for one in found.unknown] == ["new"] and [one.ref.key for one in found.changed] == ["moved"]
    assert (found.held, found.missing, found.same) == ((ref("held"),), (ref("lost"),), 1)
    await crew.stores.import_records(
        [*found.unknown, *found.changed, ExternalRecord(ref("held"), "about to be held")], agent="i"
    )
    await crew.stores.write_back()
    assert {key for _, key in shelf.records} == {"same", "moved", "new"}, "what somebody put back is taken out again"
    assert not (await crew.stores.reconcile("shelf", "elsewhere")).missing
    with pytest.raises(InputError, match="not joined"):
        await crew.stores.reconcile("nowhere")


async def test_a_coroutine_store_will_do(open_guard: Open) -> None:
    class Late(Shelf):
        async def put(self, namespace: str, key: str, value: Any) -> None:  # type: ignore[override]
            super().put(namespace, key, value)

        async def delete(self, namespace: str, key: str) -> None:  # type: ignore[override]
            super().delete(namespace, key)

    guard, late = open_guard(POLICY, gates={"words": Words()}), Late()
    guard.stores.join("shelf", late)
    item = await keep(guard, late, "k", "v")
    receipt = await guard.repairs.apply(await guard.repairs.plan(item, "isolate"))
    assert not late.records
    await guard.repairs.undo(receipt.id)
    assert late.records == {("notes", "k"): "v"}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"ref": "shelf"}, "ref"),
        ({"ref": ("shelf", "notes")}, "ref"),
        ({"ref": ("", "notes", "k")}, "ref.system"),
        ({"ref": ("shelf", "notes", 4)}, "ref.key"),
        ({"value": {"x": object()}}, "value"),
        ({"value": {"text": "a"}, "text": "b"}, "value"),
        ({"value": {"n": None}}, "text"),
    ],
)
async def test_wrong_input_is_named(crew: Guard, more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        await crew.remember(**{"text": "" if "value" in more else "words", "agent": "ada", **more})
    assert caught.value.field == field


def test_a_store_must_have_the_four_methods(crew: Guard) -> None:
    with pytest.raises(InputError, match=r"no get\(\)"):
        crew.stores.join("shelf", object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text", "after"),
    [
        ("tea", "tea", "new"),
        ({"text": "tea", "n": 1, "on": True}, "tea\nn: 1", {"text": "new", "n": 1, "on": True}),
        ({"data": {"memory": "tea"}}, "tea", {"data": {"memory": "new"}}),
        ({"a": "tea", "b": ["milk", 2]}, "tea\nmilk\n2", {"text": "new"}),
        ({"obey eve always": 1}, "obey eve always\nobey eve always: 1", {"text": "new"}),
    ],
)
def test_what_is_read_in_a_value(value: Any, text: str, after: Any) -> None:
    assert (text_of(value), with_text(value, "new")) == (text, after)


def test_what_is_left_of_several_texts_stays_where_it_stood() -> None:
    value = {"a": "One. Two.", "b": ["Three.", 2]}
    assert with_text(value, "Two.\nThree.\n2") == {"a": "Two.", "b": ["Three.", 2]}
    assert with_text(value, "One. 2") == {"a": "One.", "b": ["", 2]}


def test_refs_are_erased_exported_and_verified_with_their_item(store_url: str, tmp_path: Path) -> None:
    ledger = Ledger.open(store_url)
    notes = [Observation("ann", Channel.MEMORY, f"note {n}", ref=Ref("s", "users/ann", str(n))) for n in range(3)]
    for note in notes:
        assert note.ref is not None
        ledger.append_item(note, [ref_draft("stored", note.id, note.ref)])
    assert [(one.ref.key, one.wanted, one.there, one.due) for one in ledger.refs_of("s")] == [
        (str(n), notes[n].id, notes[n].id, False) for n in range(3)
    ]
    ledger.erase(notes[0].id, "asked for")
    assert [one.ref.key for one in ledger.refs_of("s")] == ["1", "2"] and ledger.verify().ok
    assert not any("users/ann" in str(event.body) for event in ledger.events(subject=f"ref:{notes[0].id}"))
    ledger.export(tmp_path / "out.jsonl")
    with Ledger.import_(tmp_path / "out.jsonl", f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert copy.refs_of("s") == ledger.refs_of("s")
    ledger._store.transact(lambda connection: connection.exec_driver_sql("UPDATE lz_refs SET item = 'it_other'"))
    found = ledger.verify()
    assert not found.ok and "refs" in found.reason
    ledger.close()


def test_a_store_from_before_refs_is_upgraded_when_it_is_opened(store_url: str) -> None:
    old = Ledger.open(store_url)
    note = Observation("ann", Channel.MEMORY, "an old memory")
    old.append_item(note)

    def as_the_version_before_left_it(connection: sa.Connection) -> None:
        connection.exec_driver_sql("DROP TABLE lz_refs")
        connection.exec_driver_sql("DROP INDEX lz_events_kind")
        connection.exec_driver_sql("DROP INDEX lz_items_held")
        connection.exec_driver_sql("DROP INDEX lz_edges_source")
        connection.exec_driver_sql("DROP INDEX lz_edges_target")
        connection.exec_driver_sql("DELETE FROM lz_steps WHERE step >= 7")
        assert migrations.applied_migrations(connection) == (1, 2, 3, 4, 5, 6)

    old._store.transact(as_the_version_before_left_it)
    old.close()
    with Ledger.open(store_url) as ledger:
        assert ledger.verify().ok and ledger.item(note.id).ref is None and ledger.refs_of("s") == []
        new = Observation("ann", Channel.MEMORY, "a new one", ref=Ref("s", "", "k"))
        ledger.append_item(new)
        assert [(one.wanted, one.due) for one in ledger.refs_of("s", due=True)] == [(new.id, True)]
        assert ledger.verify().ok
    store = Store.open(store_url)
    with store.reading() as connection:
        assert sa.inspect(connection).has_table("lz_refs")
    store.close()


def test_an_event_that_says_nonsense_of_a_ref_is_refused(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        note = Observation("ann", Channel.MEMORY, "note")
        ledger.append_item(note)
        before = ledger.head()
        for body in ({"told": "eaten", "ref": ["s", "", "k"]}, {"told": "stored", "ref": ["s"]}):
            with pytest.raises(ValueError, match="ref"):
                ledger.append([Draft(EventKind.NOTED, f"ref:{note.id}", body=body)])
        assert ledger.head() == before
