"""The reading log: what an agent may have had in mind when it wrote or decided, read from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto.ingest import reading_log
from lazaretto.ingest.reading_log import ReadingLog
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Draft, EventKind, Observation


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as opened:
        for item in "abcd":
            opened.observe(Observation("ada", Channel.MEMORY, item, id=item))
        yield opened


def recalled(ledger: Ledger, agent: str, *items: str) -> None:
    ledger.append([Draft(EventKind.RETRIEVED, item, agent) for item in items])


def remembered(ledger: Ledger, agent: str, text: str = "a note") -> None:
    ledger.observe(Observation(agent, Channel.MEMORY, text))


def test_a_memory_ends_one_list_and_a_decision_the_other(ledger: Ledger) -> None:
    log = ReadingLog(ledger, messages=True)
    recalled(ledger, "bob", "a", "b")
    assert log.before_memory("bob", 9) == log.before_decision("bob", 9) == ("a", "b")
    remembered(ledger, "bob")
    assert (log.before_memory("bob", 9), log.before_decision("bob", 9)) == ((), ("a", "b"))
    recalled(ledger, "bob", "c")
    ledger.append([Draft(EventKind.REPORTED, "de_1", "bob", {"what": "x", "success": None, "rests_on": []})])
    assert (log.before_memory("bob", 9), log.before_decision("bob", 9)) == (("c",), ())


def test_only_memories_end_it(ledger: Ledger) -> None:
    log = ReadingLog(ledger, messages=True)
    recalled(ledger, "bob", "a")
    ledger.observe(Observation("bob", Channel.MESSAGE, "hello"))
    remembered(ledger, "cy")
    assert log.before_memory("bob", 9) == ("a",), "neither a message nor another agent's memory counts"


def test_the_most_recent_are_kept_and_what_is_read_again_moves_to_the_end(ledger: Ledger) -> None:
    log = ReadingLog(ledger, messages=True)
    recalled(ledger, "bob", "a", "b", "c", "a")
    assert log.before_memory("bob", 9) == ("b", "c", "a")
    assert log.before_memory("bob", 2) == ("c", "a")
    assert log.before_memory("bob", 0) == ()
    assert log.before_memory("nobody", 9) == ()


@pytest.mark.parametrize(("messages", "read"), [(True, ("a",)), (False, ())])
def test_messages_count_as_the_policy_says(ledger: Ledger, messages: bool, read: tuple[str, ...]) -> None:
    ledger.append([Draft(EventKind.SENT, "a", "ada", {"to": "bob"})])
    assert ReadingLog(ledger, messages=messages).before_memory("bob", 9) == read


def test_it_sees_what_other_processes_record(ledger: Ledger, tmp_path: Path) -> None:
    log = ReadingLog(ledger, messages=True)
    assert log.before_memory("bob", 9) == ()
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as other:
        recalled(other, "bob", "d")
    assert log.before_memory("bob", 9) == ("d",)


def test_a_new_guard_looks_back_over_a_window(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_log, "WINDOW", 2)
    recalled(ledger, "bob", "a", "b", "c")
    log = ReadingLog(ledger, messages=True)
    assert log.before_memory("bob", 9) == ("b", "c")
    recalled(ledger, "bob", "d")
    assert log.before_memory("bob", 9) == ("c", "d"), "and never holds more than that per agent"
