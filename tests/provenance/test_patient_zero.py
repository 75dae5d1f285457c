"""What tells the culprit from an innocent note that stands behind the same mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto.errors import UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass

USER, PAGE = SourceClass.DIRECT_USER, SourceClass.UNTRUSTED_DOCUMENT


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as made:
        yield made


def keep(
    ledger: Ledger,
    name: str,
    time: float,
    *,
    parents: tuple[str, ...] = (),
    met: tuple[str, ...] = (),
    source: SourceClass = SourceClass.MODEL_INFERENCE,
) -> None:
    """A memory, the parents its writer states, and what the guard inferred from its reading."""
    ledger.append_item(Observation("ada", Channel.MEMORY, name, id=name, parents=parents, source=source, time=time))
    if met:
        ledger.append([Draft(EventKind.INFLUENCED, name, "ada", {"sources": list(met)})])


def decide(ledger: Ledger, name: str, *grounds: str) -> None:
    body = {"what": "paid", "success": False, "rests_on": list(grounds)}
    ledger.append([Draft(EventKind.REPORTED, name, "ada", body)])


def test_what_was_said_is_told_from_what_is_inferred(ledger: Ledger) -> None:
    keep(ledger, "page", 1.0)
    keep(ledger, "read", 1.5)
    keep(ledger, "note", 2.0, parents=("page",), met=("read",))
    keep(ledger, "plan", 3.0, parents=("note",), met=("page", "read"))
    decide(ledger, "de_wrong", "plan")
    graph = ProvenanceGraph(ledger)
    said = graph.stated("plan", back=True, limit=9)
    assert [(step.id, step.hops) for step in said] == [("note", 1), ("page", 2)], (
        "by the stated way, though it is longer"
    )
    assert {step.id for step in graph.sources("plan")} == {"note", "page", "read"}
    assert [step.id for step in graph.stated("page", back=False, limit=9)] == ["note", "plan"]
    assert graph.stated("read", back=False, limit=9) == graph.stated("page", back=True, limit=9)
    assert [step.id for step in graph.stated("plan", back=True, limit=1)] == ["note"]


def test_stated_derivation_counts_for_more_than_inferred_influence(ledger: Ledger) -> None:
    keep(ledger, "order", 1.0)
    keep(ledger, "poison", 2.0)
    keep(ledger, "page", 2.5, source=PAGE)
    keep(ledger, "summary", 3.0, parents=("poison",), met=("order", "page"))
    keep(ledger, "schedule", 4.0, parents=("summary",), met=("order",))
    decide(ledger, "de_wrong", "schedule")
    graph = ProvenanceGraph(ledger)
    assert graph.patient_zero(["de_wrong"]).item == "poison"  # neither the earliest nor the least trusted
    assert graph.patient_zero(["schedule", "summary"]).item == "poison"
    assert graph.subgraph("schedule").patient_zero == "poison"
    assert set(graph.lineage("schedule").roots) == {"order", "page", "poison"}, "a trace still lists all of them"


def test_of_what_was_only_met_the_less_trusted_goes_before_the_earlier(ledger: Ledger) -> None:
    keep(ledger, "order", 1.0, source=USER)
    keep(ledger, "page", 2.0, source=PAGE)
    keep(ledger, "note", 3.0, met=("order", "page"))
    decide(ledger, "de_wrong", "note")
    assert ProvenanceGraph(ledger).patient_zero(["de_wrong"]).item == "page"
    backwards = {source: float(source is PAGE) for source in SourceClass}
    assert ProvenanceGraph(ledger, backwards).patient_zero(["de_wrong"]).item == "order", "the table given decides"


def test_of_what_was_only_met_the_held_goes_before_the_less_trusted(ledger: Ledger) -> None:
    keep(ledger, "page", 1.0, source=PAGE)
    keep(ledger, "poison", 2.0, source=USER)
    keep(ledger, "note", 3.0, met=("page", "poison"))
    graph = ProvenanceGraph(ledger)
    assert graph.patient_zero(["note"]).item == "page"
    ledger.append([Draft(EventKind.RULED, "poison", body={"ruling": "block"})])
    assert graph.patient_zero(["note"]).item == "poison"
    ledger.append([Draft(EventKind.RELEASED, "poison", body={"by": "carol"})])
    assert graph.patient_zero(["note"]).item == "page"


def test_what_came_from_outside_is_an_origin_though_its_writer_had_read_the_crews_own(ledger: Ledger) -> None:
    keep(ledger, "order", 1.0, source=USER)
    keep(ledger, "poison", 2.0, met=("order",), source=PAGE)
    keep(ledger, "note", 3.0, met=("poison",))
    graph = ProvenanceGraph(ledger)
    assert graph.patient_zero(["note"]).item == "poison"
    keep(ledger, "web", 4.0, source=PAGE)
    keep(ledger, "draft", 5.0, met=("web",))
    keep(ledger, "copy", 6.0, met=("draft",), source=PAGE)
    assert graph.patient_zero(["copy"]).item == "web", "it may be a copy of what else came from outside"


def test_a_note_behind_a_right_decision_is_the_less_likely_culprit(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
        innocent = Observation("ada", Channel.MEMORY, "terms", time=1.0)
        poison = Observation("scout", Channel.MEMORY, "poison", time=2.0)
        child = Observation("ada", Channel.MEMORY, "summary", parents=(innocent.id, poison.id), time=3.0)
        for one in (innocent, poison, child):
            ledger.append_item(one)
        for name, item in (("de_wrong", child), ("de_right", innocent)):
            ledger.append(
                [Draft(EventKind.REPORTED, name, "ada", {"what": "", "success": None, "rests_on": [item.id]})]
            )
        graph = ProvenanceGraph(ledger)
        assert graph.patient_zero(["de_wrong"]).item == innocent.id  # nothing speaks for either: the earlier
        assert graph.patient_zero(["de_wrong"], healthy=["de_right"]).item == poison.id
        assert graph.patient_zero(["de_wrong"], healthy=[innocent.id]).item == poison.id
        with pytest.raises(UnknownItem):
            graph.patient_zero(["de_wrong"], healthy=["de_never"])
