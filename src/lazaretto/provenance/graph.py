"""The provenance graph: where an item came from, whom it reached, and how far it can be trusted.

It is held in memory, and every query first reads the events that any process appended since the last.
Of a long ledger only the surroundings of the items asked about are read (``adjacency.py``).

- **Forward** questions (blast radius) are about the present reach: repairs count. ``history=True`` ignores repairs.
- **Backward** questions (lineage, trust, patient zero) and contacts ask about the past, which no repair changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from lazaretto.errors import InputError, UnknownItem
from lazaretto.names import warn_old_name
from lazaretto.policy import DEFAULT_TRUST
from lazaretto.provenance import questions
from lazaretto.provenance.adjacency import Floats, Ints
from lazaretto.provenance.drawing.subgraph import Subgraph, subgraph_around
from lazaretto.provenance.index import DERIVED_TAG, GraphIndex, GraphLedger
from lazaretto.provenance.questions import Overview, covering_origin, overview, reproduction_windows
from lazaretto.provenance.traces import (
    BlastRadius,
    Contact,
    Ground,
    LazyRows,
    Lineage,
    OutbreakWindow,
    PatientZero,
    TraceStep,
    Trust,
)
from lazaretto.types import SourceClass

_FAR = np.iinfo(np.int64).max
# ``_make`` without its Python frame, most of the cost of a row; the number of columns is right by construction
_TRACE_STEP: Callable[[Iterable[Any]], TraceStep] = partial(tuple.__new__, TraceStep)
_CONTACT: Callable[[Iterable[Any]], Contact] = partial(tuple.__new__, Contact)


class ProvenanceGraph:
    """Items, agents and decisions of one namespace and the typed edges between them. Safe to share between threads."""

    def __init__(self, ledger: GraphLedger, source_trust: Mapping[SourceClass, float] | None = None) -> None:
        """``source_trust`` tells possible origins apart (default: the default policy's)."""
        self._ledger = ledger
        self._index = GraphIndex(ledger, DEFAULT_TRUST.table() if source_trust is None else source_trust)
        self._lock = threading.RLock()

    def refresh(self) -> int:
        """Take in new events; returns the number of the last one. Every query does this by itself."""
        with self._lock:
            self._index.refresh()
            return self._index.seq

    @contextmanager
    def _fresh(self, *, whole: bool = False) -> Iterator[GraphIndex]:
        """The index as of now; ``whole`` for questions that concern more than the items they name."""
        with self._lock:
            self._index.refresh()
            if whole:
                self._index.read_all()
            yield self._index

    def stats(self) -> dict[str, int]:
        """How many nodes and edges there are."""
        with self._fresh(whole=True) as index:
            decisions = sum(index.decision)
            return {
                "items": len(index.items) - decisions,
                "decisions": decisions,
                "agents": len(index.agents),
                "edges": len(index.children) + len(index.exposures) + len(index.writings),
            }

    def blast_radius(self, item: str, *, max_hops: int | None = None, history: bool = False) -> BlastRadius:
        """The item's reach: items that came from it, agents that read any of them, decisions they shaped.

        An item is reached by derivation or by an INFLUENCED event; that its writer retrieved something is no edge.
        Reach that repairs have stopped is left out unless ``history`` is asked for.
        """
        if max_hops is not None and max_hops < 0:
            raise InputError("max_hops", f"found {max_hops}", "Use 0 or more, or leave it out")
        with self._fresh() as index:
            start = index.item_number(item)
            nodes, hops = index.reachable([start], live=not history, max_hops=max_hops)
            decided = np.frombuffer(index.decision, np.uint8)[nodes] == 1
            agents = self._exposed(index, np.array([start], np.int64), nodes, hops, (max_hops, history))
            return BlastRadius(
                origin=item,
                items=_listed(index, nodes[~decided], hops[~decided]),
                agents=agents,
                decisions=_listed(index, nodes[decided], hops[decided]),
            )

    @staticmethod
    def _exposed(
        index: GraphIndex, starts: Ints, nodes: Ints, hops: Ints, limits: tuple[int | None, bool]
    ) -> Sequence[TraceStep]:
        """Agents that read an origin or any reached item, with the fewest hops and the earliest time."""
        max_hops, history = limits
        carriers = np.concatenate([starts, nodes])
        steps = np.concatenate([np.ones(len(starts), np.int64), hops + 1])
        if max_hops is not None:
            carriers, steps = carriers[steps <= max_hops], steps[steps <= max_hops]
        owners, agents, times, _ = index.exposures.gather(carriers)
        if not history:
            kept = times <= index.carries_until_now()[carriers[owners]]
            owners, agents, times = owners[kept], agents[kept], times[kept]
        fewest = np.full(len(index.agents), _FAR)
        earliest = np.full(len(index.agents), np.inf)
        np.minimum.at(fewest, agents, steps[owners])
        np.minimum.at(earliest, agents, times)
        reached = np.flatnonzero(fewest < _FAR)
        return _rows(index.agents.names, reached, fewest[reached], earliest[reached])

    def children(self, items: Sequence[str]) -> tuple[tuple[str, str, bool], ...]:
        """Children of each of ``items`` that no repair cut off: item, child, and whether the child was derived from it
        (else it was influenced). Decisions are left out.
        """
        with self._fresh() as index:
            numbers = [index.item_number(item) for item in items]
            index.read_around(numbers)
            return _flow(index, numbers)

    def descent(
        self, items: Sequence[str], *, most: int | None = None
    ) -> tuple[tuple[tuple[str, str, bool], ...], frozenset[str]]:
        """The ``children`` of several items, of their children and so on, nearest first: all in one walk. With ``most``
        of the nearest only, about so many; then also the items whose children were not looked for."""
        with self._fresh() as index:
            starts = [index.item_number(item) for item in items]
            nodes, hops = index.reachable(starts, max_hops=most)  # so many are reached in so many hops
            if most is not None and len(nodes) >= most:
                nodes = nodes[hops < hops[most - 1]]  # whole layers
            rows = _flow(index, [*starts, *nodes.tolist()])
            if most is None:
                return rows, frozenset()
            known = {*items, *(index.items.names[n] for n in nodes.tolist())}
            return rows, frozenset(child for _, child, _ in rows if child not in known)

    def came_from(self, item: str) -> Mapping[str, bool]:
        """The items that an item directly came from, as far as no repair cut them off, and whether it was derived
        from each (else influenced).
        """
        with self._fresh() as index:
            number = index.item_number(item)
            index.read_behind([number])
            _, sources, _, tags = index.parents.gather([number])
            found: dict[str, bool] = {}
            for source, tag in zip(sources.tolist(), tags.tolist(), strict=True):
                if number not in index.influence.cuts.get(source, ()):
                    name = index.items.names[source]
                    found[name] = found.get(name, False) or tag == DERIVED_TAG
            return found

    def made_from(self, item: str) -> Mapping[str, bool]:
        """Old name of ``came_from``; it goes in 0.3."""
        warn_old_name("graph.made_from", "graph.came_from")
        return self.came_from(item)

    def lineage(self, item: str) -> Lineage:
        """Everything the item came from, however far back."""
        with self._fresh() as index:
            start = index.item_number(item)
            nodes, hops = index.reachable([start], back=True)
            everyone = [start, *nodes.tolist()]
            writers = {index.agents.names[index.writers[n]] for n in everyone if index.writers[n] >= 0}
            return Lineage(
                item=item,
                items=_listed(index, nodes, hops),
                roots=tuple(sorted(index.items.names[n] for n in everyone if not index.parents.neighbours(n))),
                writers=tuple(sorted(writers)),
            )

    def ground(self, items: Sequence[str], source_trust: Mapping[SourceClass, float]) -> Ground:
        """The least trust and the roots of several items taken together: one walk back, however much they share."""
        with self._fresh() as index:
            return questions.together(index, [index.item_number(item) for item in items], source_trust)

    def grounds(self, items: Sequence[str], source_trust: Mapping[SourceClass, float]) -> dict[str, Ground]:
        """The least trust and the roots of each item. Every ancestor is visited once, though many items share it."""
        with self._fresh() as index:
            found = questions.each(index, [index.item_number(item) for item in items], source_trust)
            return dict(zip(items, found, strict=True))

    def ancestors(self, items: Sequence[str]) -> list[str]:
        """The items with all they came from, nearest first, each once: one walk back for all of them."""
        with self._fresh() as index:
            starts = list(dict.fromkeys(index.item_number(item) for item in items))
            nodes = [*starts, *index.reachable(starts, back=True)[0].tolist()]
            return [index.items.names[n] for n in nodes]

    def sources(self, item: str, *, limit: int | None = None) -> Sequence[TraceStep]:
        """Items that the item came from, nearest first; with ``limit`` only so many."""
        with self._fresh() as index:
            start, far = index.item_number(item), None if limit is None else 2
            nodes, hops = index.reachable([start], back=True, max_hops=far)
            while far is not None and limit is not None and len(nodes) < limit and len(hops) and hops[-1] == far:
                far *= 2  # no further back than it takes
                nodes, hops = index.reachable([start], back=True, max_hops=far)
            return _listed(index, nodes[:limit], hops[:limit])

    def stated(self, item: str, *, back: bool, limit: int) -> Sequence[TraceStep]:
        """Items that the item came from (``back``) or that came from it, as their writers stated it: without links
        inferred from reading or from likeness. Nearest first, repairs or not, at most ``limit``."""
        with self._fresh() as index:
            start = index.item_number(item)
            found: dict[int, int] = {start: 0}
            layer, hops = [start], 0
            while layer and len(found) <= limit:
                (index.read_behind if back else index.read_around)(layer)
                edges = (index.parents if back else index.children).gather(layer)
                near = dict.fromkeys(edges.targets[edges.tags == DERIVED_TAG].tolist())
                layer, hops = [n for n in near if n not in found and not index.decision[n]], hops + 1
                found |= dict.fromkeys(layer, hops)
            nodes, steps = np.array(list(found)[1:], np.int64), np.array(list(found.values())[1:], np.int64)
            return _listed(index, nodes[:limit], steps[:limit])

    def sources_of(self, items: Sequence[str], *, limit: int) -> list[str]:
        """Items that any of several items came from, each once: of each item the nearest, at most ``limit``."""
        found: dict[int, None] = {}
        with self._fresh() as index:
            starts = index.know(items)
            index.read_for_walk(starts, back=True, max_hops=None)  # together: one by one each would be a statement
            for start in starts:
                if index.parents.neighbours(start):
                    far, nodes, hops = 2, *index.reachable([start], back=True, max_hops=2)
                    while len(nodes) < limit and len(hops) and hops[-1] == far:
                        far *= 2  # no further back than it takes
                        nodes, hops = index.reachable([start], back=True, max_hops=far)
                    found.update(dict.fromkeys(nodes[:limit].tolist()))
            return [index.items.names[n] for n in found]

    def reach(self, items: Sequence[str]) -> BlastRadius:
        """Everything that any of several items ever reached, in one walk: ``blast_radius`` with ``history`` from all at
        once, each node with the fewest hops. ``origin`` is the first of them."""
        with self._fresh() as index:
            starts = np.array([index.item_number(item) for item in items], np.int64)
            nodes, hops = index.reachable(starts.tolist())
            decided = np.frombuffer(index.decision, np.uint8)[nodes] == 1
            return BlastRadius(
                origin=items[0],
                items=_listed(index, nodes[~decided], hops[~decided]),
                agents=self._exposed(index, starts, nodes, hops, (None, True)),
                decisions=_listed(index, nodes[decided], hops[decided]),
            )

    def read_ahead(self, items: Sequence[str], *, back: bool = False, max_hops: int | None = None) -> None:
        """Read the surroundings of many items together: questions about each of them then read nothing."""
        with self._fresh() as index:
            index.read_for_walk(index.know(items), back, max_hops)

    def roots_among(self, items: Sequence[str]) -> tuple[str, ...]:
        """The items that came from none of the others, not even indirectly, in the order given."""
        with self._fresh() as index:
            numbers = [index.item_number(item) for item in items]
            index.read_around(numbers)
            near = np.unique(index.children.gather(numbers).targets).tolist()
            made = {*near, *index.reachable(near)[0].tolist()}
            return tuple(item for item, number in zip(items, numbers, strict=True) if number not in made)

    def births(self, items: Sequence[str]) -> dict[str, float]:
        """The times at which items were written."""
        with self._fresh() as index:
            numbers = [index.item_number(item) for item in items]
            index.read_behind(numbers)
            return {item: index.births[number] for item, number in zip(items, numbers, strict=True)}

    def rests_on(self, decision: str) -> Sequence[TraceStep]:
        """Every item that a reported decision rested on, directly or through their lineage."""
        with self._fresh() as index:
            start = index.item_number(decision, "decision")
            if not index.decision[start]:
                raise UnknownItem(decision, self._ledger.namespace, "decision")
            return _listed(index, *index.reachable([start], back=True))

    def patient_zero(self, items: Sequence[str], healthy: Sequence[str] = ()) -> PatientZero:
        """The origin that explains most of the given infected items. Where several explain as many, one that stated
        derivation leads back to goes before one of inferred influence alone, held or less trusted items before the
        rest, then the earliest.

        ``healthy`` names items and decisions known to be fine. Two notes behind every wrong decision look alike; one
        that also stands behind a right decision is the less likely culprit.
        """
        if not items:
            raise InputError("items", "no infected item was given", "Give at least one")
        with self._fresh(whole=True) as index:
            given = list(dict.fromkeys(index.item_number(item) for item in items))
            fine = list(dict.fromkeys(index.item_number(item) for item in healthy))
            origin, covered = covering_origin(index, given, fine)
            writer = index.writers[origin]
            return PatientZero(
                item=index.items.names[origin],
                agent=index.agents.names[writer] if writer >= 0 else "",
                time=index.births[origin],
                covers=tuple(index.items.names[n] for n in given if n in covered),
                share=len(covered) / len(given),
            )

    def contacts(self, agent: str, since: float | None = None, until: float | None = None) -> Sequence[Contact]:
        """Exposures of the agent to others and of others to it, within [since, until], earliest first, each once."""
        first, last = -np.inf if since is None else since, np.inf if until is None else until
        if first > last:
            raise InputError("since", f"{since} is after until = {until}", "Swap them")
        with self._fresh(whole=True) as index:
            return _contacts(index, index.agent_number(agent), first, last)

    def reproduction_number(self, infected: Mapping[str, float], window: float) -> tuple[OutbreakWindow, ...]:
        """How many agents each infected agent went on to infect, per window of the time they were infected in.

        ``infected`` maps agents to the time of infection. A case is shared equally among the infected agents it had
        read something from that was written since they were infected. The last windows read low: their cases
        have had little time.
        """
        if not window > 0:
            raise InputError("window", f"found {window}", "Use a length in seconds above 0")
        with self._fresh() as index:
            index.read_agents(infected)
            times = {index.agent_number(agent): time for agent, time in infected.items()}
            return reproduction_windows(index, times, window)

    def trust(self, item: str, source_trust: Mapping[SourceClass, float]) -> Trust:
        """The least trust among the item and all it came from, which item sets it, and the way to that item.

        An item that the ledger never saw written is vouched for by nobody: its trust is 0.
        """
        return self.trusts([item], source_trust)[item]

    def trusts(self, items: Sequence[str], source_trust: Mapping[SourceClass, float]) -> dict[str, Trust]:
        """The trust of several items at once."""
        with self._fresh() as index:
            starts = index.know(items)
            together = [*starts, *index.reachable(starts, back=True)[0].tolist()]
            index.trust_of(np.array(together, np.int64), source_trust)  # read in one go, and kept
            return {item: _trust(index, item, source_trust) for item in items}

    def read_by(self, agent: str, since: float) -> tuple[str, ...]:
        """Items that an agent read or was sent from a moment on, in order, each once; empty for an unknown agent."""
        with self._fresh() as index:
            index.read_agents([agent])
            number = index.agents.number.get(agent)
            if number is None:
                return ()
            _, items, times, _ = index.readings.gather([number])
            return tuple(dict.fromkeys(index.items.names[n] for n in items[times >= since].tolist()))

    def subgraph(
        self,
        item: str,
        *,
        infected: Collection[str] | None = None,
        limit: int = 120,
        texts: Mapping[str, str] | None = None,
    ) -> Subgraph:
        """The item with all it came from and ever reached, for ``lazaretto.provenance.drawing.pictures`` to write down.

        ``infected`` lists the nodes to colour (default: the item and everything that came from it); ``limit``
        keeps the nearest.
        """
        if limit < 1:
            raise InputError("limit", f"found {limit}", "Use 1 or more")
        with self._fresh(whole=True) as index:
            ill = None if infected is None else {index.item_number(name) for name in infected}
            return subgraph_around(index, index.item_number(item), ill, limit, texts or {})

    def overview(self, *, limit: int = 10_000, only: Collection[str] | None = None) -> Overview:
        """The newest items (of ``only``, where given) with their agents and edges, as columns, for a map."""
        if limit < 1:
            raise InputError("limit", f"found {limit}", "Use 1 or more")
        with self._fresh(whole=True) as index:
            return overview(index, limit, only)


def _flow(index: GraphIndex, numbers: Sequence[int]) -> tuple[tuple[str, str, bool], ...]:
    """Items with the children of each that no repair cut off, and whether each was derived; without decisions."""
    owners, targets, _, tags = index.children.gather(numbers)
    found: dict[tuple[int, int], bool] = {}
    for owner, child, tag in zip(owners.tolist(), targets.tolist(), tags.tolist(), strict=True):
        if not index.decision[child] and child not in index.influence.cuts.get(numbers[owner], ()):
            pair = (owner, child)
            found[pair] = found.get(pair, False) or tag == DERIVED_TAG
    names = index.items.names
    return tuple((names[numbers[owner]], names[child], derived) for (owner, child), derived in found.items())


def _rows(names: Sequence[str], numbers: Ints, hops: Ints, times: Floats) -> Sequence[TraceStep]:
    order = np.lexsort((times, hops))
    return LazyRows(_TRACE_STEP, (names, numbers[order]), (None, hops[order]), (None, times[order]))


def _trust(index: GraphIndex, item: str, source_trust: Mapping[SourceClass, float]) -> Trust:
    start = index.item_number(item)
    nodes, hops = index.reachable([start], back=True)
    nodes, hops = np.concatenate([[start], nodes]), np.concatenate([[0], hops])
    values = index.trust_of(nodes, source_trust)
    least = values == values.min()
    nearest = int(hops[least].min())
    weakest = min(nodes[least & (hops == nearest)].tolist(), key=index.items.names.__getitem__)
    depth = dict(zip(nodes[hops < nearest].tolist(), hops[hops < nearest].tolist(), strict=True)) | {weakest: nearest}
    path = [weakest]
    while path[-1] != start:
        nearer = (n for n in index.children.neighbours(path[-1]) if depth.get(n, -1) == depth[path[-1]] - 1)
        path.append(min(nearer, key=index.items.names.__getitem__))
    names = tuple(index.items.names[n] for n in reversed(path))
    return Trust(float(values.min()), names[-1], names)


def _listed(index: GraphIndex, nodes: Ints, hops: Ints) -> Sequence[TraceStep]:
    return _rows(index.items.names, nodes, hops, index.births_now()[nodes] if len(nodes) else np.zeros(0))


def _contacts(index: GraphIndex, agent: int, first: float, last: float) -> Sequence[Contact]:
    _, read, read_times, _ = index.readings.gather([agent])
    writers = np.frombuffer(index.writers, np.int32)[read] if len(read) else np.zeros(0, np.int64)
    written = np.unique(index.writings.gather([agent]).targets)
    owners, readers, reader_times, _ = index.exposures.gather(written)
    others = np.concatenate([writers, readers])
    items = np.concatenate([read, written[owners]])
    times = np.concatenate([read_times, reader_times])
    outward = np.arange(len(others)) >= len(writers)
    kept = (others >= 0) & (others != agent) & (times >= first) & (times <= last)
    columns = [column[kept] for column in (times, others, items, outward)]
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    fresh = np.ones(len(order), bool)
    if len(order):  # the same exposure recorded twice is one
        fresh[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    when, who, what, way = (column[fresh] for column in columns)
    return LazyRows(
        _CONTACT,
        (index.agents.names, who),
        (index.items.names, what),
        (("in", "out"), way.astype(np.int64)),
        (None, when),
    )
