"""The provenance graph against plain recursion on random histories, and its rules one by one."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger.effects import EdgeColumns, EdgeEnd, ItemState, edges_of
from lazaretto.provenance import adjacency, index, questions
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.traces import Contact
from lazaretto.types import (
    Channel,
    Cost,
    EdgeKind,
    Event,
    EventKind,
    Head,
    Observation,
    Receipt,
    RepairPlan,
    RepairStep,
    SourceClass,
    plain,
)

Trust = Mapping[SourceClass, float]
TRUST: Trust = {source: 0.1 * (place + 2) for place, source in enumerate(SourceClass)}


class Notebook:
    """An in-memory ledger with the methods the graph reads, and shorthands that write."""

    namespace = "default"

    def __init__(self) -> None:
        self.log: list[Event] = []
        self.clock = 0.0

    def add(self, kind: EventKind, subject: str, agent: str = "", time: float | None = None, **body: Any) -> None:
        self.clock = self.clock + 1 if time is None else time
        self.log.append(Event("default", len(self.log) + 1, kind, subject, agent, self.clock, body, "", ""))

    def seen(self, name: str, *parents: str, agent: str = "ann", time: float | None = None, source: str = "") -> None:
        self.add(EventKind.SEEN, name, agent, time, parents=list(parents), source=source or "agent_message")

    def read(self, item: str, agent: str, time: float | None = None) -> None:
        self.add(EventKind.RETRIEVED, item, agent, time)

    def repair(self, receipt: str, action: str, *items: str, time: float | None = None, **detail: Any) -> None:
        steps = tuple(RepairStep(item, action, detail) for item in items)
        plan = RepairPlan("isolate", items[0], steps)
        body = plain(Receipt(plan, {}, {}, Cost(), time=0.0, id=receipt))
        self.add(EventKind.REPAIRED, receipt, "", time, **{key: body[key] for key in ("plan", "before", "after")})

    def head(self) -> Head:
        return Head("default", len(self.log), "")

    def events(
        self,
        *,
        after: int = 0,
        kinds: Iterable[EventKind] | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        wanted = set(EventKind if kinds is None else kinds)
        return (e for e in self.log[after:] if e.kind in wanted)

    def edge_columns(self, *, after: int, until: int) -> Iterator[EdgeColumns]:
        made = [edge for event in self.log[after:until] for edge in edges_of(event)]
        for page in (made[: len(made) // 2], made[len(made) // 2 :]):  # two, so that pages have to fit together
            yield EdgeColumns(
                [e.source for e in page], [e.target for e in page], [e.kind.value for e in page], [e.time for e in page]
            )

    def edges_at(
        self, nodes: Iterable[str], *, end: EdgeEnd, kinds: Sequence[EdgeKind], until: int
    ) -> list[EdgeColumns]:
        wanted = set(nodes)
        found = [
            (e.source, e.target, e.kind.value, e.time)
            for event in self.log[:until]
            for e in edges_of(event)
            if e.kind in kinds and (e.source if end == "source" else e.target) in wanted
        ]
        return [EdgeColumns(*zip(*found, strict=True))] if found else []

    def items(self, *, ids: Iterable[str] | None = None, **_: Any) -> list[Observation]:
        bodies = {e.subject: e.body or {} for e in self.log if e.kind is EventKind.SEEN and e.subject in set(ids or ())}
        return [
            Observation("ann", Channel.MEMORY, id=name, source=SourceClass(body["source"]))
            for name, body in bodies.items()
        ]

    def states(self, ids: Iterable[str]) -> dict[str, ItemState]:
        return {}


def ids(rows: Iterable[Any]) -> set[str]:
    return {row.id for row in rows}


# ---- the reference: plain recursion over the edges, nothing shared with the code under test


class Reference:
    """Slow and obvious answers from a list of edges."""

    def __init__(self, log: Iterable[Event]) -> None:
        self.edges = [edge for event in log for edge in edges_of(event)]
        self.flow, self.stated = networkx.DiGraph(), networkx.DiGraph()
        for edge in self.edges:
            if edge.kind is EdgeKind.DERIVED_FROM:
                self.stated.add_edge(edge.target, edge.source)
            if edge.kind is EdgeKind.DERIVED_FROM:
                self.flow.add_edge(edge.target, edge.source)
            elif edge.kind is EdgeKind.INFLUENCED:
                self.flow.add_edge(edge.source, edge.target)
            else:
                self.flow.add_node(edge.source)
        self.lengths = dict(networkx.all_pairs_shortest_path_length(self.flow))
        self.wrote = {e.source: e for e in self.edges if e.kind is EdgeKind.WRITTEN_BY}

    def birth(self, item: str) -> float:
        if item in self.wrote:
            return self.wrote[item].time
        kinds = (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)
        ends = [(e.source, e.target if e.kind not in kinds else "", e.time) for e in self.edges]
        return min(time for source, target, time in ends if item in (source, target))

    def hops(self, item: str) -> dict[str, int]:
        return {name: count for name, count in self.lengths[item].items() if name != item}

    def radius(self, item: str) -> tuple[dict[str, tuple[int, float]], dict[str, tuple[int, float]]]:
        hops = self.hops(item)
        reached = {name: (count, self.birth(name)) for name, count in hops.items()}
        carriers = {**hops, item: 0}
        agents: dict[str, tuple[int, float]] = {}
        for edge in self.edges:
            if edge.kind in (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO) and edge.source in carriers:
                count, time = agents.get(edge.target, (10**9, math.inf))
                agents[edge.target] = min(count, carriers[edge.source] + 1), min(time, edge.time)
        return reached, agents

    def contacts(self, agent: str, first: float, last: float) -> set[Contact]:
        found = set()
        for edge in self.edges:
            if edge.kind not in (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO) or edge.source not in self.wrote:
                continue
            writer = self.wrote[edge.source].target
            if writer == edge.target or not first <= edge.time <= last:
                continue
            if edge.target == agent:
                found.add(Contact(writer, edge.source, "in", edge.time))
            if writer == agent:
                found.add(Contact(edge.target, edge.source, "out", edge.time))
        return found

    def patient_zero(self, items: list[str]) -> tuple[str, set[str]]:
        given = set(items)
        cover = {node: given & set(far) for node, far in self.lengths.items()}
        most = max(map(len, cover.values()))
        self.stated.add_nodes_from(self.flow)
        stated = {node: len(given & {node, *networkx.descendants(self.stated, node)}) for node in cover}
        best = min(
            (node for node in cover if len(cover[node]) == most),
            key=lambda n: (self.flow.in_degree(n) > 0, -stated[n], self.birth(n), n),
        )
        return best, cover[best]


ITEMS = [f"it_{n}" for n in range(9)]
AGENTS = ["ann", "bob", "cy", "it_0"]  # an agent may carry the name of an item
TIMES = st.integers(0, 12).map(float)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("derived"), st.sampled_from(ITEMS), st.sampled_from(ITEMS), TIMES),
        st.tuples(st.just("influenced"), st.sampled_from(ITEMS), st.sampled_from([*ITEMS, "de_1", "de_2"]), TIMES),
        st.tuples(st.just("retrieved"), st.sampled_from(ITEMS), st.sampled_from(AGENTS), TIMES),
        st.tuples(st.just("sent"), st.sampled_from(ITEMS), st.sampled_from(AGENTS), TIMES),
    ),
    max_size=30,
)
PARENTS = st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=9, max_size=9)


def history(parents: list[list[int]], extra: list[tuple[str, str, str, float]]) -> Notebook:
    notes = Notebook()
    for place, name in enumerate(ITEMS):
        earlier = [ITEMS[p] for p in parents[place] if p < place]
        notes.seen(name, *earlier, agent=AGENTS[place % 3], time=float(place))
    for kind, item, other, time in extra:
        if kind == "derived":
            notes.add(EventKind.DERIVED, item, time=time, parent=other)
        elif kind == "influenced":
            notes.add(EventKind.INFLUENCED, item, time=time, target=other)
        elif kind == "retrieved":
            notes.add(EventKind.RETRIEVED, item, other, time)
        else:
            notes.add(EventKind.SENT, item, "ann", time, to=other)
    return notes


def agrees(graph: ProvenanceGraph, reference: Reference, infected: list[str], window: tuple[float, float]) -> None:
    for name in ITEMS:
        radius = graph.blast_radius(name)
        reached, agents = reference.radius(name)
        assert {r.id: (r.hops, r.time) for r in radius.items + radius.decisions} == reached
        assert all(r.id.startswith("de_") for r in radius.decisions)
        assert not any(r.id.startswith("de_") for r in radius.items)
        assert {r.id: (r.hops, r.time) for r in radius.agents} == agents
        back = {r.id: r.hops for r in graph.lineage(name).items}
        assert back == {n: far[name] for n, far in reference.lengths.items() if n != name and name in far}
    zero = graph.patient_zero(infected)
    assert (zero.item, set(zero.covers)) == reference.patient_zero(infected)
    for agent in AGENTS[:3]:
        assert set(graph.contacts(agent, *window)) == reference.contacts(agent, *window)


@given(PARENTS, EVENTS, st.lists(st.sampled_from(ITEMS), min_size=1), TIMES, TIMES, st.data())
@settings(max_examples=150, deadline=None)
def test_agrees_with_plain_recursion_in_any_order_of_events(
    parents: list[list[int]],
    extra: list[tuple[str, str, str, float]],
    infected: list[str],
    one: float,
    two: float,
    data: st.DataObject,
) -> None:
    """Cycles, duplicates, late and self edges; shuffled; taken in at once or in pieces: the same answers."""
    notes = history(parents, extra)
    window = (min(one, two), max(one, two))
    reference = Reference(notes.log)
    agrees(ProvenanceGraph(notes), reference, infected, window)
    shuffled, whole = Notebook(), data.draw(st.permutations(notes.log))
    tailing = ProvenanceGraph(shuffled)
    for place, event in enumerate(whole):
        shuffled.log.append(
            Event("default", place + 1, event.kind, event.subject, event.agent, event.time, event.body, "", "")
        )
        if place % 7 == 0:
            tailing.refresh()
    agrees(tailing, reference, infected, window)


@pytest.mark.parametrize("wide", [1, 512])
@pytest.mark.parametrize("merge", [1, 8192])
@given(parents=PARENTS, extra=EVENTS)
@settings(max_examples=60, deadline=None)
def test_array_steps_and_merges_change_no_answer(
    wide: int, merge: int, parents: list[list[int]], extra: list[tuple[str, str, str, float]]
) -> None:
    """The wide step and the merged arrays give what the thin step and the table of recent edges give."""
    notes = history(parents, extra)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "WIDE", wide)
        patch.setattr(adjacency, "MERGE_AT_LEAST", merge)
        graph = ProvenanceGraph(notes)
        everything, notes.log = notes.log, []
        for event in everything:  # one at a time, so that merges happen in the middle
            notes.log.append(event)
            graph.refresh()
        agrees(graph, Reference(notes.log), ITEMS, (0.0, 12.0))
        notes.repair("rc_1", "hide", "it_1", "it_4", time=5.0)
        notes.repair("rc_2", "cut", "it_3", "it_5", parent="it_2", time=6.0)
        notes.add(EventKind.SUPERSEDED, "it_8", old="it_2")
        live = {name: graph.blast_radius(name) for name in ITEMS}
    plain_graph = ProvenanceGraph(notes)
    for name, radius in live.items():
        other = plain_graph.blast_radius(name)
        for part in ("items", "agents", "decisions"):  # as sets: rows that tie in hops and time have no order
            assert set(getattr(radius, part)) == set(getattr(other, part))


REPAIRS = st.lists(
    st.tuples(st.sampled_from(["hide", "show", "release", "supersede"]), st.sampled_from(ITEMS), TIMES), max_size=8
)


@pytest.mark.parametrize("most", [0, 1 << 28])
@given(parents=PARENTS, extra=EVENTS, asked=st.lists(st.sampled_from(ITEMS), min_size=1, unique=True))
@settings(max_examples=80, deadline=None)
def test_what_items_stand_on_is_the_same_asked_together_or_one_by_one(
    most: int, parents: list[list[int]], extra: list[tuple[str, str, str, float]], asked: list[str]
) -> None:
    """With cycles and late edges too; past the limit of one pass they are walked one by one."""
    graph = ProvenanceGraph(history(parents, extra))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "_MOST_BITS", most)
        found = graph.grounds(asked, TRUST)
    assert {name: (one.trust, one.roots) for name, one in found.items()} == {
        name: (graph.trust(name, TRUST).value, frozenset(graph.lineage(name).roots)) for name in asked
    }
    whole = graph.ground(asked, TRUST)
    assert whole.trust == min(one.trust for one in found.values())
    assert whole.roots == frozenset().union(*(one.roots for one in found.values()))
    above = {name for one in asked for name in (one, *ids(graph.lineage(one).items))}
    assert set(graph.ancestors(asked)) == above and len(graph.ancestors(asked)) == len(above)


def _rows(rows: Iterable[Any]) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in rows}


QUESTIONS: dict[str, Callable[[ProvenanceGraph, str], Any]] = {
    "blast_radius": lambda graph, item: [
        _rows(part)
        for history in (False, True)
        for found in [graph.blast_radius(item, history=history)]
        for part in (found.items, found.agents, found.decisions)
    ],
    "one hop": lambda graph, item: _rows(graph.blast_radius(item, max_hops=1).items),
    "reach": lambda graph, item: [
        _rows(part) for found in [graph.reach([item, "it_3"])] for part in (found.items, found.agents, found.decisions)
    ],
    "lineage": lambda graph, item: (
        _rows(graph.lineage(item).items), graph.lineage(item).roots, graph.lineage(item).writers,
    ),
    "sources": lambda graph, item: {row.hops for row in graph.sources(item, limit=3)},
    "stated": lambda graph, item: [_rows(graph.stated(item, back=way, limit=99)) for way in (True, False)],
    "sources_of": lambda graph, item: set(graph.sources_of([item, "it_2"], limit=99)),
    "ground": lambda graph, item: (graph.ground([item], TRUST), graph.grounds([item, "it_5"], TRUST)),
    "trust": lambda graph, item: graph.trust(item, TRUST).value,
    "children": lambda graph, item: set(graph.children([item])),
    "made_from": lambda graph, item: graph.came_from(item),
    "births": lambda graph, item: graph.births([item, "it_7"]),
    "roots_among": lambda graph, item: graph.roots_among(list(dict.fromkeys([item, "it_1", "it_6"]))),
    "read_by": lambda graph, _: [set(graph.read_by(agent, 2.0)) for agent in AGENTS],
    "reproduction": lambda graph, _: graph.reproduction_number({"ann": 1.0, "bob": 4.0}, 2.0),
    "patient_zero": lambda graph, item: graph.patient_zero([item]),
}  # fmt: skip


@given(
    PARENTS, EVENTS, st.floats(0, 1), st.lists(st.tuples(st.sampled_from(sorted(QUESTIONS)), st.sampled_from(ITEMS)))
)
@settings(max_examples=150, deadline=None)
def test_a_graph_that_reads_only_around_what_is_asked_gives_the_same_answers(
    parents: list[list[int]], extra: list[tuple[str, str, str, float]], old: float, asked: list[tuple[str, str]]
) -> None:
    """Whatever was there when it was opened and whatever came later, in any order of questions."""
    notes = history(parents, extra)
    notes.repair("rc_1", "hide", "it_1", time=5.0)
    notes.repair("rc_2", "cut", "it_5", parent="it_2", time=6.0)
    everything, asked = notes.log, [*asked, *((question, ITEMS[-1]) for question in QUESTIONS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacency, "WHOLE_UP_TO", 0)
        near = ProvenanceGraph(notes)
        notes.log = everything[: int(len(everything) * old)]
        for question, item in asked[::2]:  # some of it before the rest is written
            with contextlib.suppress(UnknownItem):
                QUESTIONS[question](near, item)
        notes.log = everything
        near.refresh()
    whole = ProvenanceGraph(notes)
    for question, item in asked:
        assert _told(QUESTIONS[question], near, item) == _told(QUESTIONS[question], whole, item), question


def _told(question: Callable[[ProvenanceGraph, str], Any], graph: ProvenanceGraph, item: str) -> Any:
    try:
        return question(graph, item)
    except UnknownItem as unknown:
        return str(unknown)


@given(PARENTS, EVENTS, REPAIRS)
@settings(max_examples=100, deadline=None)
def test_what_is_still_carried_agrees_with_plain_recursion(
    parents: list[list[int]],
    extra: list[tuple[str, str, str, float]],
    repairs: list[tuple[str, str, float]],
) -> None:
    """Hidden items carry what was made or read up to then, superseded ones nothing."""
    notes = history(parents, extra)
    reference, until = Reference(notes.log), dict.fromkeys(ITEMS, math.inf)
    hidden: dict[str, float] = {}
    gone = set()
    for place, (action, item, time) in enumerate(repairs):
        if action == "supersede":
            notes.add(EventKind.SUPERSEDED, f"new_{place}", "ann", time, old=item)
            gone.add(item)
        elif action == "release":
            notes.add(EventKind.RELEASED, item, "ann", time)
            hidden.pop(item, None)
        else:
            notes.repair(f"rc_{place}", action, item, time=time)
            hidden = {k: v for k, v in hidden.items() if k != item} if action == "show" else {item: time, **hidden}
    until |= hidden | dict.fromkeys(gone, -math.inf)
    graph = ProvenanceGraph(notes)
    for name in ITEMS:
        reached, layer = {name}, {name}
        while layer:
            steps = {(a, b) for a in layer for b in reference.flow.successors(a) if a in reference.flow}
            layer = {b for a, b in steps if reference.birth(b) <= until.get(a, math.inf)} - reached
            reached |= layer
        radius = graph.blast_radius(name)
        assert ids(radius.items + radius.decisions) == reached - {name}
        reads = [e for e in reference.edges if e.kind in (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)]
        assert ids(radius.agents) == {
            e.target for e in reads if e.source in reached and e.time <= until.get(e.source, math.inf)
        }


# ---- the rules, one by one


@pytest.fixture
def chain() -> Notebook:
    """a -> b -> c -> d, each read by one agent, and a decision on c."""
    notes = Notebook()
    notes.seen("a", agent="ann", source="untrusted_document")
    notes.read("a", "bob")
    notes.seen("b", "a", agent="bob")
    notes.read("b", "cy")
    notes.seen("c", "b", agent="cy")
    notes.add(EventKind.SENT, "c", "cy", to="dee")
    notes.seen("d", "c", agent="dee")
    notes.add(EventKind.REPORTED, "de_1", "dee", what="bought", success=False, rests_on=["c"])
    return notes


def test_blast_radius_has_hops_and_times(chain: Notebook) -> None:
    radius = ProvenanceGraph(chain).blast_radius("a")
    assert radius.items == (("b", 1, 3.0), ("c", 2, 5.0), ("d", 3, 7.0))
    assert radius.agents == (("bob", 1, 2.0), ("cy", 2, 4.0), ("dee", 3, 6.0))
    assert radius.decisions == (("de_1", 3, 8.0),)


def test_max_hops_limits_items_agents_and_decisions_alike(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    radius = graph.blast_radius("a", max_hops=2)
    assert (ids(radius.items), ids(radius.agents), ids(radius.decisions)) == ({"b", "c"}, {"bob", "cy"}, set())
    nothing = graph.blast_radius("a", max_hops=0)
    assert nothing.items == nothing.agents == nothing.decisions == ()
    with pytest.raises(InputError, match="max_hops"):
        graph.blast_radius("a", max_hops=-1)


def test_reading_reaches_an_agent_but_not_what_it_writes_afterwards(chain: Notebook) -> None:
    chain.seen("unrelated", agent="bob")
    assert "unrelated" not in ids(ProvenanceGraph(chain).blast_radius("a").items)


def test_a_superseded_item_carries_nothing_and_undo_restores_it(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    whole = graph.blast_radius("a")
    chain.seen("b2", agent="bob")
    chain.add(EventKind.SUPERSEDED, "b2", old="b")
    chain.repair("rc_1", "replace", "b")
    radius = graph.blast_radius("a")
    assert (ids(radius.items), ids(radius.agents), radius.decisions) == ({"b"}, {"bob"}, ())
    assert graph.blast_radius("b").items == graph.blast_radius("b2").items == ()
    assert graph.blast_radius("a", history=True) == whole
    assert ids(graph.lineage("d").items) == {"a", "b", "c"}, "the past stays the past"
    chain.add(EventKind.UNDONE, "rc_1", restored={"b": {"superseded_by": None}})
    assert graph.blast_radius("a") == whole


def test_an_isolated_item_carries_nothing_from_then_on(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    whole = graph.blast_radius("a")
    chain.repair("rc_1", "hide", "b")
    chain.read("b", "eve")
    chain.seen("late", "b", agent="eve")
    assert graph.blast_radius("a") == whole, "what it had reached by then stays reached"
    after = graph.blast_radius("a", history=True)
    assert {"late"} == ids(after.items) - ids(whole.items) and {"eve"} == ids(after.agents) - ids(whole.agents)
    chain.add(EventKind.DERIVED, "d", parent="b")
    assert {r.id: r.hops for r in graph.blast_radius("b").items}["d"] == 1, "found late, but d was made before"
    chain.add(EventKind.RELEASED, "b")
    assert "late" in ids(graph.blast_radius("a").items)


def test_undoing_an_isolation_restores_it(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    chain.repair("rc_1", "hide", "a", "b", time=2.5)
    assert graph.blast_radius("a").items == ()
    assert ids(graph.blast_radius("a").agents) == {"bob"}
    chain.add(EventKind.UNDONE, "rc_1", restored={"a": {"hidden": False}, "b": {"hidden": False}})
    assert ids(graph.blast_radius("a").items) == {"b", "c", "d"}


def test_a_cut_edge_carries_nothing_until_undone(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    chain.repair("rc_1", "cut", "c", parent="b")
    chain.repair("rc_2", "cut", "c", parent="b")
    assert ids(graph.blast_radius("a").items) == {"b"}
    chain.add(EventKind.UNDONE, "rc_2", restored={"c": {"hidden": False}})
    assert ids(graph.blast_radius("a").items) == {"b"}, "the first receipt still stands"
    chain.add(EventKind.UNDONE, "rc_1", restored={"c": {"hidden": False}})
    assert ids(graph.blast_radius("a").items) == {"b", "c", "d"}


def test_cycles_end_and_self_edges_are_ignored() -> None:
    notes = Notebook()
    for name, parent in pairwise(["x", "z", "y", "x"]):
        notes.add(EventKind.DERIVED, name, parent=parent)
    notes.add(EventKind.DERIVED, "x", parent="x")
    graph = ProvenanceGraph(notes)
    assert {r.id: r.hops for r in graph.blast_radius("x").items} == {"y": 1, "z": 2}
    assert ids(graph.lineage("x").items) == {"y", "z"} and graph.lineage("x").roots == ()
    assert graph.patient_zero(["x", "y", "z"]).share == 1.0


def test_lineage_names_roots_and_writers(chain: Notebook) -> None:
    chain.seen("other", agent="zoe")
    chain.add(EventKind.DERIVED, "d", parent="other")
    lineage = ProvenanceGraph(chain).lineage("d")
    assert [r[:2] for r in lineage.items] == [("c", 1), ("other", 1), ("b", 2), ("a", 3)]
    assert lineage.roots == ("a", "other") and lineage.writers == ("ann", "bob", "cy", "dee", "zoe")
    assert ProvenanceGraph(chain).lineage("a").roots == ("a",)


def test_what_a_decision_rested_on(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    assert graph.rests_on("de_1") == (("c", 1, 5.0), ("b", 2, 3.0), ("a", 3, 1.0))
    with pytest.raises(UnknownItem) as refused:
        graph.rests_on("c")
    assert refused.value.field == "decision"


def test_patient_zero_explains_most_and_says_how_much(chain: Notebook) -> None:
    chain.seen("stray", agent="zoe")
    zero = ProvenanceGraph(chain).patient_zero(["d", "stray", "c", "d"])
    assert (zero.item, zero.agent, zero.time, zero.covers) == ("a", "ann", 1.0, ("d", "c"))
    assert zero.share == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="items"):
        ProvenanceGraph(chain).patient_zero([])


def test_patient_zero_trusts_edges_more_than_clocks() -> None:
    notes = Notebook()
    notes.seen("root", time=50.0)
    notes.seen("child", "root", time=10.0)
    assert ProvenanceGraph(notes).patient_zero(["child"]).item == "root"


def test_trust_is_the_weakest_link_and_shows_the_way(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    trust = graph.trust("d", TRUST)
    assert trust.value == TRUST[SourceClass.UNTRUSTED_DOCUMENT]
    assert (trust.weakest, trust.path) == ("a", ("d", "c", "b", "a"))
    level = dict.fromkeys(SourceClass, 0.5)
    assert graph.trust("d", level).path == ("d",), "the nearest of equals"
    with pytest.raises(InputError, match="untrusted_document"):
        graph.trust("a", {SourceClass.SYSTEM: 1.0})


def test_nobody_vouches_for_an_item_never_seen_written() -> None:
    notes = Notebook()
    notes.seen("child")
    notes.add(EventKind.DERIVED, "child", parent="ghost")
    trust = ProvenanceGraph(notes).trust("child", TRUST)
    assert (trust.value, trust.weakest) == (0.0, "ghost")


def test_contacts_go_both_ways_within_the_window(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    chain.read("b", "bob")  # its own note: no contact
    assert graph.contacts("bob") == (("ann", "a", "in", 2.0), ("cy", "b", "out", 4.0))
    assert graph.contacts("bob", since=2.5) == (("cy", "b", "out", 4.0),)
    assert graph.contacts("bob", until=2.0) == (("ann", "a", "in", 2.0),)
    with pytest.raises(InputError, match="since"):
        graph.contacts("bob", since=3, until=2)


def test_reproduction_number_counts_offspring_per_window() -> None:
    notes = Notebook()
    notes.seen("a0", agent="zero", time=0.0)
    for reader, time in (("one", 1.0), ("two", 2.0)):
        notes.read("a0", reader, time)
        notes.seen(f"by_{reader}", "a0", agent=reader, time=time)
    notes.read("by_one", "three", 11.0)
    notes.read("by_two", "three", 11.5)
    infected = {"zero": 0.0, "one": 1.0, "two": 2.0, "three": 12.0}
    windows = ProvenanceGraph(notes).reproduction_number(infected, 10.0)
    assert [(w.start, w.end, w.cases) for w in windows] == [(0.0, 10.0, 3), (10.0, 20.0, 1)]
    assert windows[0].r_effective == pytest.approx((2 + 0.5 + 0.5) / 3)
    assert windows[1].r_effective == 0.0
    assert ProvenanceGraph(notes).reproduction_number({}, 1.0) == ()


def test_reproduction_windows_without_cases_say_so_and_bad_ones_are_refused() -> None:
    notes = Notebook()
    notes.seen("a", agent="x")
    notes.seen("b", agent="y")
    graph = ProvenanceGraph(notes)
    assert [w.r_effective for w in graph.reproduction_number({"x": 0.0, "y": 2.5}, 1.0)] == [0.0, None, 0.0]
    for window in (0.0, -1.0, math.nan, 1e-9):
        with pytest.raises(InputError, match="window"):
            graph.reproduction_number({"x": 0.0, "y": 2.5}, window)


def test_unknown_names_are_refused_by_name(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    for ask in (
        graph.blast_radius,
        graph.lineage,
        graph.rests_on,
        graph.contacts,
        lambda n: graph.patient_zero(["a", n]),
    ):
        with pytest.raises(UnknownItem) as refused:
            ask("nobody")
        assert refused.value.item == "nobody"


def test_every_query_sees_what_was_appended_meanwhile(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    assert graph.blast_radius("d").items == ()
    chain.seen("e", "d", agent="eve")
    assert ids(graph.blast_radius("d").items) == {"e"}
    assert graph.stats() == {"items": 5, "decisions": 1, "agents": 5, "edges": 14}


def test_threads_may_share_one_graph(chain: Notebook) -> None:
    graph = ProvenanceGraph(chain)
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(200):
                assert {"b", "c", "d"} <= ids(graph.blast_radius("a").items)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for place in range(200):
        chain.seen(f"n{place}", "d")
    for thread in threads:
        thread.join()
    assert not faults
    assert len(graph.blast_radius("d").items) == 200
