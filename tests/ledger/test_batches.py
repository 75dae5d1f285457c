"""Batches are checked as columns, come back as events when looked at, and are noticed by whoever watches the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.ledger.chain import Linker, check_times
from lazaretto.names import check_names
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass

TRUST = {source: 0.1 if source is SourceClass.UNTRUSTED_DOCUMENT else 0.9 for source in SourceClass}


def note(name: str, **more: object) -> Draft:
    return seen_draft(Observation("ann", Channel.MEMORY, f"text of {name}", id=name, **more))  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path / 'batches.db'}")


@pytest.mark.parametrize("bad", ["", "a\0b", "x" * 513, "\ud800", 7, None, ["id"]])
def test_one_bad_name_among_good_ones_is_found(ledger: Ledger, bad: object) -> None:
    with pytest.raises(InputError, match="subject"):
        check_names(["one", bad, "three"], "subject")
    with pytest.raises(InputError):
        ledger.append([note("one"), Draft(EventKind.NOTED, bad), note("three")])  # type: ignore[arg-type]
    assert ledger.head().seq == 0


def test_names_beyond_ascii_pass() -> None:
    assert list(check_names(["one", "zwölf", "三"], "subject")) == ["one", "zwölf", "三"]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), True, "1"])
def test_one_bad_time_among_good_ones_is_found(place: int, bad: object) -> None:
    times: list[object] = [1.0, 2.0]
    times.insert(place, bad)
    with pytest.raises(InputError, match="time"):
        check_times(times)


def test_only_what_brings_an_item_needs_an_agent(ledger: Ledger) -> None:
    ledger.append([note("one"), Draft(EventKind.NOTED, "policy", "")])
    with pytest.raises(InputError, match="agent"):
        ledger.append([Draft(EventKind.NOTED, "policy", ""), seen_draft(Observation("", Channel.MEMORY, "x"))])


def test_what_was_recorded_reads_like_a_list_of_what_is_stored(ledger: Ledger) -> None:
    recorded = ledger.append([note("one"), Draft(EventKind.RETRIEVED, "one", "bob"), note("two", parents=("one",))])
    stored = list(ledger.events())
    assert recorded == stored and stored == list(recorded) and recorded != stored[:2]
    assert [event.seq for event in recorded[1:]] == [2, 3] and recorded[-1] == stored[-1]
    assert recorded + recorded[:1] == [*stored, stored[0]] and stored + recorded == stored * 2


def test_a_run_of_links_is_each_link() -> None:
    linker, prev = Linker("default"), bytes(32)
    opened = [("seen", f"it_{n}", "anné", float(n), bytes([n]) * 32) for n in range(4)]
    for seq, (found, event) in enumerate(zip(linker.link_all(5, opened, prev), opened, strict=True), 5):
        kind, subject, agent, time, digest = event
        prev = linker.link(seq, kind.encode(), subject.encode(), agent.encode(), time, digest + prev)
        assert found == prev


def test_the_head_is_current_for_every_holder(ledger: Ledger, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'batches.db'}") as other:
        for number in range(6):
            (ledger, other)[number % 2].append([note(f"n{number}")])
            assert ledger.head() == other.head() and ledger.head().seq == number + 1
        ledger.within("else").append([note("there")])
        assert ledger.head().seq == 6 and other.within("else").head().seq == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_is_noticed_and_notices(ledger: Ledger) -> None:
    ledger.append([note("one")])
    assert ledger.head().seq == 1
    child = os.fork()
    if child == 0:  # never return into pytest
        ok = ledger.head().seq == 1
        ledger.append([note("two")])
        os._exit(0 if ok and ledger.head().seq == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.head().seq == 2 and ledger.verify().ok


def test_trust_keeps_the_class_of_a_source_that_was_erased(ledger: Ledger) -> None:
    ledger.append([note("one", source=SourceClass.DIRECT_USER), note("two", parents=("one",))])
    graph = ProvenanceGraph(ledger)
    assert graph.trust("two", TRUST).value == 0.9 == graph.trust("two", TRUST).value
    ledger.erase("one", "asked for")
    assert graph.trust("two", TRUST).value == 0.9 == ProvenanceGraph(ledger).trust("two", TRUST).value
    tombstone = next(iter(ledger.events(kinds=(EventKind.ERASED,))))
    assert tombstone.body is not None and tombstone.body["source"] == "direct_user"
