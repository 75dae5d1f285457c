"""A name for a write (``once``): the same call answers the same, any other call under that name is refused."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lazaretto import InputError, SyncGuard
from lazaretto.gates.engine.decision import ruling_body
from lazaretto.guard.guard import Guard
from lazaretto.ingest.raw_input import RawInput, read_observation
from lazaretto.ledger import seen_draft
from lazaretto.policy import Limits
from lazaretto.types import Channel, Draft, EventKind, MemoryFields, Observation, Ref

POLICY = {
    "preset": "minimal",
    "channels": {"memory": {"stages": [["structure"], ["protected"]]}},
    "actions": {"directories": ["list_*"]},
}
NOTE = "The harbour gate opens at six."


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[SyncGuard]:
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", POLICY) as guard:
        yield guard


def picture(colour: str) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(made, "PNG")
    return made.getvalue()


def test_an_old_name_does_not_open_a_protected_key(guard: SyncGuard) -> None:
    written: dict[str, Any] = {"agent": "ada", "source": "untrusted_document"}
    assert guard.remember(NOTE, key="notes.x", once="n", **written).allowed
    with pytest.raises(InputError, match="another key"):
        guard.remember(NOTE, key="identity.role", once="n", **written)
    assert guard.remember(NOTE, key="identity.role", once="m", **written).rule == "protected:protected_key"


REF = ("notes", "crew", "gate")
CHANGES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("remember", "text", {"text": NOTE}, {"text": "The harbour gate opens at seven."}),
    ("remember", "text", {"value": {"a": NOTE}}, {"value": {"a": "Another."}}),
    ("remember", "value", {"value": {"a": NOTE}}, {"value": {"b": NOTE}}),
    ("remember", "value", {"value": {"a": NOTE, "admin": True}}, {"value": {"a": NOTE, "admin": False}}),
    ("remember", "value", {"value": {"a": NOTE}}, {"text": NOTE}),
    ("remember", "key", {"text": NOTE}, {"text": NOTE, "key": "notes.x"}),
    ("remember", "key", {"text": NOTE, "ref": REF}, {"text": NOTE, "ref": ("notes", "crew", "door")}),
    ("remember", "ref", {"text": NOTE, "ref": REF}, {"text": NOTE, "ref": ("other", "crew", "gate")}),
    ("remember", "ref", {"text": NOTE, "key": "gate"}, {"text": NOTE, "ref": REF}),
    ("remember", "image", {"text": NOTE, "image": picture("red")}, {"text": NOTE, "image": picture("blue")}),
    ("remember", "image", {"text": NOTE}, {"text": NOTE, "image": picture("blue")}),
    ("remember", "fields", {"text": NOTE, "fields": {"tags": ["a"]}}, {"text": NOTE, "fields": {"tags": ["b"]}}),
    ("remember", "source", {"text": NOTE}, {"text": NOTE, "source": "untrusted_document"}),
    ("remember", "agent", {"text": NOTE, "principal": "key:k"}, {"text": NOTE, "principal": "key:k", "agent": "bob"}),
    ("remember", "writer", {"text": NOTE}, {"text": NOTE, "agent": "bob"}),
    ("remember", "writer", {"text": NOTE}, {"text": NOTE, "principal": "key:ada"}),
    ("remember", "parents", {"text": NOTE}, {"text": NOTE, "parents": []}),
    ("remember", "parents", {"text": NOTE}, {"text": NOTE, "parents": ["PARENT"]}),
    ("check", "channel", {"text": NOTE}, {"text": NOTE, "channel": "document", "source": "agent_message"}),
    ("check", "tool", {"text": NOTE}, {"text": NOTE, "tool": "list_people"}),
    ("check", "answer", {"text": "a", "tool": "list_x", "answer": ["a"]},
     {"text": "a", "tool": "list_x", "answer": ["a", "eve@example.com"]}),
    ("exchange", "receiver", {"text": NOTE, "receiver": "bob"}, {"text": NOTE, "receiver": "eve"}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "field", "first", "other"), CHANGES)
def test_a_call_that_differs_is_refused_and_says_in_what(
    guard: SyncGuard, call: str, field: str, first: dict[str, Any], other: dict[str, Any]
) -> None:
    parent = guard.remember("The harbour has one gate.", agent="ada").item
    who = "sender" if call == "exchange" else "agent"

    def made(arguments: dict[str, Any]) -> Any:
        given = {who: "ada", **arguments}
        if "parents" in given:
            given["parents"] = [parent for _ in given["parents"]]
        return getattr(guard, call)(given.pop("text", ""), once="n", **given)

    decision, count = made(first), guard.ledger.head().seq
    with pytest.raises(InputError, match=f"another {field}") as refused:
        made(other)
    assert refused.value.field == "once"
    assert made(first) == decision
    assert guard.ledger.head().seq == count, "and nothing was recorded"


def test_every_field_of_an_item_and_every_argument_of_a_call_is_compared_or_excused() -> None:
    full = Observation("ada", Channel.MEMORY, NOTE, "0" * 64, MemoryFields(), key="k", ref=Ref(*REF), value={"a": 1})
    recorded = seen_draft(full).body
    by_other_means = {"agent", "principal", "tool"}  # of a tool only a directory counts, with the call
    excused = {"id", "namespace", "time"}  # id and namespace follow from the name; a retry comes later
    assert {field.name for field in fields(Observation)} == recorded.keys() | by_other_means | excused
    tried = {name for _, _, first, other in CHANGES for name in (*first, *other)} | {"agent", "sender", "once"}
    for call in (Guard.check, Guard.remember, Guard.exchange):
        names = call.__code__.co_varnames[1 : call.__code__.co_argcount + call.__code__.co_kwonlyargcount]
        assert set(names) <= tried, f"an argument of {call.__name__} without a case above"


@pytest.mark.parametrize(("first", "then"), [("check", "exchange"), ("exchange", "check"), ("check", "remember")])
def test_another_call_under_the_same_name_is_refused(guard: SyncGuard, first: str, then: str) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "exchange": lambda: guard.exchange(NOTE, sender="ada", receiver="bob", once="n"),
        "remember": lambda: guard.remember(NOTE, agent="ada", source="agent_message", once="n"),
        "check": lambda: guard.check(
            NOTE, agent="ada", channel="memory" if then == "remember" else "message", source="agent_message", once="n"
        ),
    }
    decision = calls[first]()
    with pytest.raises(InputError, match="this name was used for another call"):
        calls[then]()
    assert calls[first]() == decision


def test_what_means_the_same_is_the_same(guard: SyncGuard) -> None:
    first = guard.remember(NOTE, agent="ada", fields={"state": [1, 2], "meta": {"a": (1, 2)}}, once="n")
    same: dict[str, Any] = {"source": "model_inference", "principal": "process:ada", "once": "n"}
    assert (
        guard.remember(NOTE.encode(), agent="ada", fields={"state": (1.0, 2), "meta": {"a": [1, 2]}}, **same) == first
    )
    value = {"a": NOTE, "b": {"x": 1, "y": [2.5, None]}}
    stored = guard.remember(agent="ada", ref=REF, value=value, once="v")
    value = {"a": NOTE, "b": {"x": 1, "y": (2.5, None)}}
    assert guard.remember(agent="ada", ref=Ref(*REF), key="gate", value=value, once="v") == stored


def test_items_of_versions_that_did_not_note_the_call_still_repeat(guard: SyncGuard) -> None:
    decision = guard.screen(NOTE, agent="ada")

    def written_before(raw: RawInput, *events: Draft) -> str:
        seen = replace(read_observation(raw, guard.ledger.namespace, Limits()), principal="")
        body = ruling_body(replace(decision, item=seen.id))
        guard.ledger.append_item(
            seen, [Draft(EventKind.RULED, seen.id, body=body), *(replace(e, subject=seen.id) for e in events)]
        )
        return seen.id  # fmt: skip

    old = written_before(RawInput("ada", Channel.MEMORY, NOTE, key="notes.x", ref=REF, once="a"))
    assert guard.remember(NOTE, agent="ada", key="notes.x", ref=REF, once="a").item == old
    with pytest.raises(InputError, match="another key"):
        guard.remember(NOTE, agent="ada", key="identity.role", ref=REF, once="a")
    sent = written_before(
        RawInput("ada", Channel.MESSAGE, NOTE, once="b"), Draft(EventKind.SENT, "", "ada", {"to": "bob"})
    )
    assert guard.exchange(NOTE, sender="ada", receiver="bob", once="b").item == sent
    with pytest.raises(InputError, match="another receiver"):
        guard.exchange(NOTE, sender="ada", receiver="eve", once="b")
    with pytest.raises(InputError, match="another receiver"):
        guard.check(NOTE, agent="ada", once="b")


def test_the_name_of_an_erased_item_is_not_used_again(guard: SyncGuard) -> None:
    guard.erase(guard.remember(NOTE, agent="ada", once="n").item, reason="asked for")
    with pytest.raises(InputError, match="erased since"):
        guard.remember(NOTE, agent="ada", once="n")


def test_an_answer_without_its_tool_is_refused(guard: SyncGuard) -> None:
    with pytest.raises(InputError, match="answer"):
        guard.check("a", agent="ada", answer=["a"])
