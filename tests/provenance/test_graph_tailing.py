"""The graph on a real ledger: other processes write, tenants stay apart, erasure leaves the trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lazaretto.errors import StoreUnavailable, UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.ledger.effects import edges_of
from lazaretto.provenance import adjacency
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass

WRITER = """
import sys
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Observation
url, name = sys.argv[1:]
with Ledger.open(url) as ledger:
    for place in range(40):
        ledger.append_item(Observation(name, Channel.MEMORY, "x", parents=("root",), id=f"{name}-{place}"))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'crew.db'}"


def note(ledger: Ledger, name: str, *parents: str, agent: str = "ann", source: str = "agent_message") -> None:
    kind = SourceClass(source)
    ledger.append_item(
        Observation(agent, Channel.MEMORY, name, id=name, parents=parents, source=kind, namespace=ledger.namespace)
    )


@pytest.mark.slow
def test_events_of_other_processes_are_seen(url: str) -> None:
    with Ledger.open(url) as ledger:
        note(ledger, "root")
        graph = ProvenanceGraph(ledger)
        assert len(graph.blast_radius("root").items) == 0
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, name]) for name in ("p", "q")]
        sizes = []
        while any(writer.poll() is None for writer in writers):
            sizes.append(len(graph.blast_radius("root").items))
        assert all(writer.returncode == 0 for writer in writers)
        assert len(graph.blast_radius("root").items) == 80
        assert sizes == sorted(sizes), "a trace only grows while notes are added"


def test_a_tenant_traces_nothing_of_another(url: str) -> None:
    with Ledger.open(url) as ledger:
        other = ledger.within("other")
        note(ledger, "mine")
        note(other, "theirs", agent="eve")
        graph = ProvenanceGraph(ledger)
        for ask in (graph.blast_radius, graph.lineage, lambda n: graph.patient_zero([n]), graph.subgraph):
            with pytest.raises(UnknownItem):
                ask("theirs")
        with pytest.raises(UnknownItem):
            graph.contacts("eve")
        assert graph.stats()["items"] == 1


def test_stored_edges_are_those_of_the_events(url: str) -> None:
    with Ledger.open(url) as ledger:
        note(ledger, "a")
        note(ledger, "b", "a")
        ledger.append(
            [
                Draft(EventKind.RETRIEVED, "a", "bob"),
                Draft(EventKind.SENT, "b", "ann", {"to": "bob"}),
                Draft(EventKind.INFLUENCED, "a", body={"target": "b"}),
                Draft(EventKind.REPORTED, "de_1", "bob", {"what": "x", "success": None, "rests_on": ["b"]}),
            ]
        )
        stored = list(ledger.edges())
        assert stored == [(event.seq, edge) for event in ledger.events() for edge in edges_of(event)]
        assert len(stored) == 8


def test_trust_reads_the_sources_from_the_ledger(url: str) -> None:
    with Ledger.open(url) as ledger:
        note(ledger, "web", source="untrusted_document")
        note(ledger, "user", source="direct_user")
        note(ledger, "mix", "web", "user", source="model_inference")
        trust = ProvenanceGraph(ledger).trust(
            "mix", {SourceClass.UNTRUSTED_DOCUMENT: 0.2, SourceClass.DIRECT_USER: 0.9, SourceClass.MODEL_INFERENCE: 0.6}
        )
        assert (trust.value, trust.weakest, trust.path) == (0.2, "web", ("mix", "web"))


def test_erasing_content_keeps_the_trace(url: str) -> None:
    with Ledger.open(url) as ledger:
        note(ledger, "a")
        note(ledger, "b", "a")
        note(ledger, "c", "b")
        before = ProvenanceGraph(ledger)
        before.refresh()
        ledger.erase("b", "asked to")
        assert [r.id for r in before.blast_radius("a").items] == ["b", "c"]
        assert [r.id for r in ProvenanceGraph(ledger).blast_radius("a").items] == ["b", "c"]


def test_a_store_that_fails_while_a_long_ledger_is_read_is_asked_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items counted as read before they were: after the failure nobody knew them."""
    monkeypatch.setattr(adjacency, "WHOLE_UP_TO", 0)
    with Ledger.open(url) as ledger:
        note(ledger, "root")
        note(ledger, "leaf", "root")
        graph = ProvenanceGraph(ledger)

        def away(*_: object, **__: object) -> list[object]:
            raise StoreUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "edges_at", away)
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    graph.lineage("leaf")
        assert [step.id for step in graph.lineage("leaf").items] == ["root"]
        assert [step.id for step in graph.blast_radius("root").items] == ["leaf"]
