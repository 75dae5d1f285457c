"""The reading log: what an agent may have had in mind when it wrote or decided, read from the ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto.ingest import read_history
from lazaretto.ingest.read_history import ReadHistory
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Draft, EventKind, Observation


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as opened:
        for item in "abcd":
            opened.append_item(Observation("ada", Channel.MEMORY, item, id=item))
        yield opened


def recalled(ledger: Ledger, agent: str, *items: str) -> None:
    ledger.append([Draft(EventKind.RETRIEVED, item, agent) for item in items])


def remembered(ledger: Ledger, agent: str, text: str = "a note") -> None:
    ledger.append_item(Observation(agent, Channel.MEMORY, text))


def test_a_memory_ends_nothing_and_a_decision_one_of_the_lists(ledger: Ledger) -> None:
    log = ReadHistory(ledger, messages=True, window_s=60)
    recalled(ledger, "bob", "a", "b")
    assert log.lately("bob").read == log.before_decision("bob") == ("a", "b")
    remembered(ledger, "bob", "a dummy, to look harmless")
    assert log.lately("bob").read == log.before_decision("bob") == ("a", "b")
    recalled(ledger, "bob", "c")
    ledger.append([Draft(EventKind.REPORTED, "de_1", "bob", {"what": "x", "success": None, "rests_on": []})])
    assert (log.lately("bob").read, log.before_decision("bob")) == (("a", "b", "c"), ())


def test_what_was_read_fades_after_the_window(ledger: Ledger) -> None:
    now = time.time()
    log = ReadHistory(ledger, messages=True, window_s=60)
    for item, ago in (("a", 61), ("b", 30), ("c", 90), ("d", 1)):  # the clock of another process may be behind
        ledger.append([Draft(EventKind.RETRIEVED, item, "bob", time=now - ago)])
    assert log.lately("bob").read == ("b", "d")
    recalled(ledger, "bob", "a")
    assert log.lately("bob").read == ("b", "d", "a")


def test_what_is_read_again_moves_to_the_end(ledger: Ledger) -> None:
    log = ReadHistory(ledger, messages=True, window_s=60)
    recalled(ledger, "bob", "a", "b", "c", "a")
    assert log.lately("bob").read == ("b", "c", "a")
    assert log.before_decision("bob") == ("b", "c", "a")
    for most, kept in ((2, ("c", "a")), (0, ())):
        assert ReadHistory(ledger, messages=True, window_s=60, max_sources=most).before_decision("bob") == kept
    assert log.lately("nobody").read == ()


@pytest.mark.parametrize(("messages", "read"), [(True, ("a",)), (False, ())])
def test_messages_count_as_the_policy_says(ledger: Ledger, messages: bool, read: tuple[str, ...]) -> None:
    ledger.append([Draft(EventKind.SENT, "a", "ada", {"to": "bob"})])
    assert ReadHistory(ledger, messages=messages, window_s=60).lately("bob").read == read


def test_it_sees_what_other_processes_record(ledger: Ledger, tmp_path: Path) -> None:
    log = ReadHistory(ledger, messages=True, window_s=60)
    assert log.lately("bob").read == ()
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as other:
        recalled(other, "bob", "d")
    assert log.lately("bob").read == ("d",)


def test_a_new_guard_looks_back_over_a_window(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_history, "WINDOW", 2)
    recalled(ledger, "bob", "a", "b", "c")
    log = ReadHistory(ledger, messages=True, window_s=60)
    assert log.lately("bob").read == ("b", "c")
    recalled(ledger, "bob", "d")
    assert log.lately("bob").read == ("c", "d"), "and never holds more than that per agent"


def influenced(ledger: Ledger, agent: str, item: str, sources: tuple[str, ...]) -> None:
    ledger.append_item(
        Observation(agent, Channel.MEMORY, "x", id=item),
        [Draft(EventKind.INFLUENCED, item, agent, {"sources": list(sources)})],
    )


def test_what_the_last_item_is_linked_to_is_reached_through_it(ledger: Ledger) -> None:
    log = ReadHistory(ledger, messages=True, window_s=60)
    recalled(ledger, "bob", "a", "b")
    assert log.lately("bob").links == ("a", "b")
    influenced(ledger, "bob", "first", log.lately("bob").links)
    assert log.lately("bob").links == ("first",) and log.lately("bob").read == ("a", "b")
    recalled(ledger, "bob", "c")
    assert log.lately("bob").links == ("first", "c")
    influenced(ledger, "bob", "second", log.lately("bob").links)
    assert log.lately("bob").links == ("second",)
    assert ReadHistory(ledger, messages=True, window_s=60).lately("bob") == log.lately("bob"), "and after a restart"


def test_a_chain_that_goes_back_too_far_begins_anew(ledger: Ledger) -> None:
    log, now = ReadHistory(ledger, messages=True, window_s=60), time.time()
    ledger.append([Draft(EventKind.RETRIEVED, "a", "bob", time=now - 130)])
    ledger.append_item(
        Observation("bob", Channel.MEMORY, "x", id="first", time=now - 50),
        [Draft(EventKind.INFLUENCED, "first", "bob", {"sources": ["a"]}, now - 50)],
    )
    ledger.append([Draft(EventKind.RETRIEVED, "b", "bob", time=now - 40)])
    assert log.lately("bob").links == ("b",)
    ledger.append([Draft(EventKind.RETRIEVED, "c", "cy", time=now - 55)])
    ledger.append_item(
        Observation("cy", Channel.MEMORY, "x", id="mine", time=now - 50),
        [Draft(EventKind.INFLUENCED, "mine", "cy", {"sources": ["c", "a"]}, now - 50)],
    )
    assert log.lately("cy").links == ("mine",)


def test_what_faded_is_forgotten_of_agents_that_never_come_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_history, "_SWEEP_AFTER", 3)
    log, now = ReadHistory(ledger, messages=True, window_s=60), time.time()
    for item, agent, ago in (("a", "gone", 300), ("b", "bob", 200), ("c", "bob", 50)):
        ledger.append([Draft(EventKind.RETRIEVED, item, agent, time=now - ago)])
    influenced(ledger, "bob", "note", ("c",))
    assert log.lately("bob").read == ("c",) and log.lately("bob").links == ("note",)
    assert "gone" not in log._read and log.before_decision("gone") == ("a",)
