"""Recordings: the same requests get the same answers, tokens included; anything else is a fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto.models.protocol import Completion, Message, Request
from lazaretto.models.scripted import RecordedChat, RecordingChat, ScriptedChatModel


def _ask(text: str, image: bytes = b"") -> Request:
    return Request((Message("user", text, (image,) if image else ()),))


async def test_what_was_recorded_is_said_again(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    answers = {"a": Completion("yes", 10, 2, 4, 7.0), "b": Completion("", fault="broken")}
    live = RecordingChat(ScriptedChatModel(lambda r: answers[r.messages[0].text], "m"), path)
    await live.complete([_ask("a"), _ask("b")])
    again = await RecordedChat(path, "m").complete([_ask("a"), _ask("b"), _ask("a", b"picture")])
    assert again[0] == answers["a"]
    assert [bool(c.fault) for c in again] == [False, True, True]  # faults are not recorded, pictures count
    shaped = replace(_ask("a"), schema={"type": "object"})
    assert (await RecordedChat(path, "m").complete([shaped]))[0].fault
    other = await RecordedChat(path, "another model").complete([_ask("a")])
    assert other[0].fault


def test_a_missing_or_damaged_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        RecordedChat(tmp_path / "none.jsonl", "m")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="line 1"):
        RecordedChat(tmp_path / "bad.jsonl", "m")
