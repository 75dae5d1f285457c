"""Names and ids: one rule, asked at the door and in the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.statements import statements_of

from lazaretto import Guard, Policy
from lazaretto.errors import InputError, TooLarge, UnknownItem
from lazaretto.ledger import Ledger, Store
from lazaretto.names import MAX_NAME, check_ids, check_name, check_names
from lazaretto.types import Channel, Draft, EventKind, Observation

GOOD = ["ada", "it_1", "naïve 自由", "x" * MAX_NAME, "ß" * MAX_NAME]
BAD: list[object] = ["", "a\0b", "x" * (MAX_NAME + 1), "\ud800", 7, None, ["id"], b"ada"]
UNPRINTABLE = [" ", "\t", "two\nlines", "\u202eada", "a\u200bb"]


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("printable", [False, True])
def test_ordinary_names_pass_at_the_door_and_in_the_ledger(name: str, printable: bool) -> None:
    assert check_name(name, "agent", printable=printable) == name
    assert check_names([name, "b"], "agent") == [name, "b"]


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("printable", [False, True])
def test_what_no_store_can_hold_is_refused_everywhere(name: object, printable: bool) -> None:
    with pytest.raises(InputError) as caught:
        check_name(name, "agent", printable=printable)
    assert caught.value.field == "agent" and caught.value.fix
    with pytest.raises(InputError, match="subject"):
        check_names(["a", name], "subject")


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_what_cannot_be_printed_is_refused_from_callers_and_still_served_by_the_ledger(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="agent"):
        check_name(name, "agent", printable=True)
    with pytest.raises(InputError, match="parents"):
        check_ids(["fine", name], "parents", 10)
    with Ledger.open(f"sqlite:///{tmp_path / 'old.db'}") as ledger:
        ledger.append_item(Observation(name, Channel.MEMORY, "an old note", id=name))
        ledger.append([Draft(EventKind.RETRIEVED, name, "bob")])
        assert ledger.item(name).agent == name
        ledger.erase(name, "a request")
        assert ledger.state(name).erased and ledger.verify().ok


def test_the_empty_name_is_allowed_only_where_nobody_need_be_named() -> None:
    assert check_name("", "agent", empty=True) == ""
    with pytest.raises(InputError, match="agent"):
        check_name("", "agent")


def test_ids_come_once_in_order_and_within_the_limit() -> None:
    assert check_ids(["b", "a", "b"], "items", 3) == ("b", "a")
    with pytest.raises(TooLarge) as caught:
        check_ids(["a", "b", "c"], "items", 2)
    assert (caught.value.field, caught.value.size, caught.value.limit) == ("items", 3, 2)
    for wrong in ("it_1", {"it_1"}, None, 5):
        with pytest.raises(InputError, match="items"):
            check_ids(wrong, "items", 2)


def test_all_parents_are_checked_in_one_statement(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lazaretto.gates.engine.thresholds._FRESH_S", 3600.0
    )  # what people moved is read again by the clock
    store = Store.open(store_url)
    with Guard(Ledger(store)) as guard:
        ids = [guard.run(guard.remember(f"note {n}", agent="ada")).item for n in range(12)]
        counts = []
        for parents in (ids, ids[:1], ids):  # the first one also reads in what the gates have not seen yet
            with statements_of(store) as seen:
                guard.run(guard.check("a page", agent="bob", channel="document", parents=parents))
            counts.append(len(seen))
        assert counts[1] == counts[2]
        with statements_of(store) as seen:
            assert guard.ledger.unknown([*ids, "it_none", "it_nobody"]) == ("it_none", "it_nobody")
        assert len([one for one in seen if one.startswith("SELECT")]) == 1
        with pytest.raises(UnknownItem) as caught:
            guard.run(guard.check("a page", agent="bob", channel="document", parents=[ids[0], "it_none"]))
        assert (caught.value.field, caught.value.item) == ("parents", "it_none")
        assert guard.ledger.within("other").unknown(ids[:2]) == tuple(ids[:2])


def test_held_items_in_mind_are_read_in_few_statements(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazaretto.gates.engine.thresholds._FRESH_S", 3600.0)
    store = Store.open(store_url)
    with Guard(Ledger(store), Policy.minimal()) as guard:
        ids = [guard.run(guard.remember(f"The ferry {n} leaves at nine.", agent="ada")).item for n in range(40)]
        guard.run(guard.recall(agent="bob", items=ids))
        counts = []
        for held in ([], ids[:2], ids[2:]):
            for item in held:
                guard.run(guard.label(item, "harmful", by="carol"))
            guard.run(guard.remember("Tea is at four.", agent="bob"))  # what was labelled is read in
            with statements_of(store) as seen:
                said = guard.run(guard.remember(f"Milk is at {len(held)}.", agent="bob"))
            counts.append(len(seen))
        assert counts[1] == counts[2] and said.allowed
        (told,) = [one for one in said.verdicts if one.gate == "taint"]
        assert len(told.evidence) == 5 and len(told.evidence[-1].data["more"]) == 20
