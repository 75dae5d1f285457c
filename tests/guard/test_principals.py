"""Who proved to be behind a write is recorded beside the agent's name, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto import InputError, Policy, SyncGuard, UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.names import MAX_NAME
from lazaretto.types import Channel, EventKind, Observation, principal_of, same_author, same_voice

MINIMAL = Policy.minimal()


def test_every_call_that_writes_records_its_principal(store_url: str) -> None:
    with SyncGuard.open(store_url, MINIMAL) as guard:
        ours = guard.remember("the harbour opens at six", agent="ann").item
        theirs = guard.remember("the harbour opens at seven", agent="ann", principal="key:scout").item
        read = guard.check("a page", agent="ann", channel="document", principal="mcp:desk").item
        told = guard.exchange("see you at noon", sender="ann", receiver="bob", principal="proxy:crew").item
        found = [guard.ledger.item(item).principal for item in (ours, theirs, read, told)]
        assert found == ["process:ann", "key:scout", "mcp:desk", "proxy:crew"]
        assert guard.screen("a page", agent="ann", principal="key:scout").allowed
        assert guard.ledger.verify().ok


def test_old_items_count_as_the_operators_own_process() -> None:
    old = Observation("ann", Channel.MEMORY, "written before principals were kept")
    by_key = Observation("p1", Channel.MEMORY, "one", principal="key:scout")
    same_key = Observation("p2", Channel.MEMORY, "two", principal="key:scout")
    same_name = Observation("ann", Channel.MEMORY, "three", principal="key:ann")
    assert principal_of(old) == "process:ann"
    assert same_voice(by_key, same_key)
    assert same_voice(old, same_name)
    assert not same_voice(old, by_key)
    assert not same_author(same_name, old), "a key may be for any name"
    assert same_author(old, same_name), "your own process vouches for the name"
    assert same_author(by_key, same_key), "one key, whatever names it uses"
    proxied = Observation("p3", Channel.MEMORY, "four", principal="proxy:scout")
    assert same_voice(by_key, proxied) and same_author(proxied, by_key), "the same key through the proxy"
    unknown = Observation("p3", Channel.MEMORY, "five", principal="proxy:open")
    assert not same_voice(unknown, Observation("p4", Channel.MEMORY, "six", principal="key:open"))


def test_a_principal_survives_export_and_import(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    with SyncGuard.open(f"sqlite:///{tmp_path}/a.db", MINIMAL) as guard:
        item = guard.remember("the harbour opens at six", agent="ann", principal="key:scout").item
        guard.ledger.export(file)
    with Ledger.import_(file, f"sqlite:///{tmp_path}/b.db") as ledger:
        assert ledger.item(item).principal == "key:scout"


def test_a_name_of_full_length_still_has_its_process(tmp_path: Path) -> None:
    with SyncGuard.open(f"sqlite:///{tmp_path}/a.db", MINIMAL) as guard:
        item = guard.remember("the harbour opens at six", agent="a" * MAX_NAME).item
        assert guard.ledger.item(item).principal == "process:" + "a" * MAX_NAME


def test_a_write_repeated_by_another_principal_is_refused(tmp_path: Path) -> None:
    with SyncGuard.open(f"sqlite:///{tmp_path}/a.db", MINIMAL) as guard:
        first = guard.remember("the harbour opens at six", agent="ann", once="n1", principal="key:scout")
        assert guard.remember("the harbour opens at six", agent="ann", once="n1", principal="key:scout") == first
        with pytest.raises(InputError, match="another writer"):
            guard.remember("the harbour opens at six", agent="ann", once="n1", principal="key:other")


def test_a_report_rests_on_what_its_agent_met(store_url: str) -> None:
    with SyncGuard.open(store_url, MINIMAL) as guard:
        honest = guard.remember("the harbour opens at six", agent="ann").item
        own = guard.remember("the harbour opens at seven", agent="eve", principal="key:eve").item
        sent = guard.exchange("see you at noon", sender="ann", receiver="eve").item
        for _ in range(2):
            accused = [honest, own, sent]
            guard.report("went there", agent="eve", success=False, rests_on=accused, principal="key:eve")
        assert {one.item: one.voices for one in guard.incidents.suspects()} == {own: 1, sent: 1}
        guard.report("stayed", agent="ann", success=True, rests_on=[honest])
        bodies = [event.body or {} for event in guard.ledger.events(kinds=(EventKind.REPORTED,))]
        assert [body["rests_on"] for body in bodies] == [[own, sent], [own, sent], [honest]]
        assert bodies[0]["claimed"] == [honest] and "claimed" not in bodies[2]
        guard.recall(agent="p7", items=[honest], principal="key:eve")
        guard.report("went", agent="eve", success=False, rests_on=[honest], principal="key:eve")
        last = [event.body or {} for event in guard.ledger.events(kinds=(EventKind.REPORTED,))][-1]
        assert last["rests_on"] == [honest], "what the key read under another name counts"
        with pytest.raises(UnknownItem):
            guard.report("went", agent="eve", rests_on=["it_none"], principal="key:eve")
        assert guard.ledger.verify().ok


def test_a_suspicion_says_how_many_principals_reported_it(store_url: str) -> None:
    with SyncGuard.open(store_url, MINIMAL) as guard:
        item = guard.exchange("see you at noon", sender="ann", receiver="eve").item
        for _ in range(2):
            guard.report("went there", agent="eve", success=False, rests_on=[item], principal="key:eve")
        assert [one.voices for one in guard.incidents.suspects()] == [1]
        guard.report("went too", agent="ann", success=False, rests_on=[item])
        assert [(one.item, one.voices, one.failed) for one in guard.incidents.suspects()] == [(item, 2, 3)]


def test_a_name_that_was_used_for_other_fields_is_refused(tmp_path: Path) -> None:
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", Policy.minimal()) as guard:
        fields = {"state": [1.0, 2.0], "action": [0.5]}
        first = guard.remember("reading 4", agent="ada", fields=fields, once="write-4")
        assert guard.remember("reading 4", agent="ada", fields=fields, once="write-4").item == first.item
        with pytest.raises(InputError, match="another fields"):
            guard.remember("reading 4", agent="ada", fields={**fields, "action": [0.9]}, once="write-4")
        with pytest.raises(InputError, match="another source"):
            guard.remember("reading 4", agent="ada", fields=fields, source="untrusted_document", once="write-4")
