"""The provenance graph's memory of one namespace: ids as numbers, edges as adjacency, kept up by tailing the ledger."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, UnknownItem
from lazaretto.kept_texts import forget
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import STRICTEST_SHOWN, EdgeColumns, ItemState, changes_of, is_decision, restored_by
from lazaretto.provenance import adjacency
from lazaretto.provenance.adjacency import (
    MOST_LAYERS,
    MOST_NODES,
    Adjacency,
    EdgeReader,
    Floats,
    Ints,
    NewEdges,
    Surroundings,
)
from lazaretto.types import Channel, EdgeKind, Event, EventKind, Head, Observation, SourceClass

KINDS = tuple(EdgeKind)
TAGS = {kind: tag for tag, kind in enumerate(KINDS)}
"""The number under which an edge's kind is kept."""
_TAG_OF = {kind.value: tag for kind, tag in TAGS.items()}
_TO_AGENTS = frozenset(kind.value for kind in (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO))
_WRITTEN_BY, _RETRIEVED_BY, _SENT_TO = (TAGS[EdgeKind.WRITTEN_BY], TAGS[EdgeKind.RETRIEVED_BY], TAGS[EdgeKind.SENT_TO])
DERIVED_TAG, _INFLUENCED = TAGS[EdgeKind.DERIVED_FROM], TAGS[EdgeKind.INFLUENCED]

_CLASSES = tuple(SourceClass)
_PLACE_OF = {source: place for place, source in enumerate(_CLASSES, 1)}
_INFERRED = _PLACE_OF[SourceClass.MODEL_INFERENCE]

WIDE = 512
"""Frontiers from this size on are followed in whole arrays; thinner ones node by node."""


class GraphLedger(EdgeReader, Protocol):
    """The part of a ledger that the graph needs: to be read on from a place."""

    @property
    def namespace(self) -> str:
        """The tenant it is bound to."""
        ...

    def head(self) -> Head:
        """The last event."""
        ...

    def edge_columns(self, *, after: int, until: int) -> Iterator[EdgeColumns]:
        """Edges in order, of the events past ``after`` up to ``until``."""
        ...

    def events(
        self,
        *,
        after: int = 0,
        kinds: Iterable[EventKind] | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Events in order."""
        ...

    def items(
        self,
        *,
        ids: Sequence[str] | None = None,
        agent: str | None = None,
        channel: Channel | None = None,
        any_state: bool = False,
        limit: int | None = 100,
    ) -> list[Observation]:
        """The observations with these ids."""
        ...

    def states(self, ids: Iterable[str]) -> dict[str, ItemState]:
        """The present states of items; unknown ones are left out."""
        ...


class Numbering:
    """Ids in the order they were first met, and the way back from id to number."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.number: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def intern(self, name: str) -> int:
        """The number of an id, given out on first sight."""
        found = self.number.get(name)
        if found is None:
            found = self.number[name] = len(self.names)
            self.names.append(name)
        return found


class GraphIndex:
    """Numbered items (with decisions) and agents of one namespace, and their edges in every direction asked for."""

    def __init__(self, ledger: GraphLedger, source_trust: Mapping[SourceClass, float]) -> None:
        self._ledger = ledger
        self.source_trust = source_trust
        self.seq = 0
        """The last event taken in."""
        self.items, self.agents = Numbering(), Numbering()
        self.births = array("d")
        """Per item: when it was written, or the earliest mention of one never seen written."""
        self.writers = array("i")
        """Per item: the agent that wrote it, or -1."""
        self.decision = bytearray()
        """Per item: 1 for a decision."""
        self._sources = bytearray()
        """Per item: the place of its source class among ``_CLASSES``; 0 if nobody has asked."""
        self.influence = InfluenceState()
        self._flags = bytearray()
        self._near: Surroundings | None = None
        """The part of a long ledger that was read; None if all of it was."""
        self._empty()

    def _empty(self) -> None:
        self.children, self.parents = Adjacency(), Adjacency()
        self.exposures, self.readings = Adjacency(), Adjacency()
        """Item -> agents that read it, and agent -> items it read, with the times of reading."""
        self.writings = Adjacency()
        """Agent -> items it wrote."""

    def refresh(self) -> None:
        """Take in the events appended since the last time, by any process."""
        head = self._ledger.head().seq
        if head <= self.seq:
            return
        # Events appended meanwhile wait for the next time, so that edges and repairs are of one moment.
        if not self.seq and head > adjacency.WHOLE_UP_TO:
            self._near = Surroundings(self._ledger, head)
        else:
            self._add_edges(self._ledger.edge_columns(after=self.seq, until=head))
        for event in self._ledger.events(after=self.seq, kinds=(*STATE_KINDS, EventKind.ERASED)):
            if event.seq > head:
                break
            if event.kind is EventKind.ERASED:
                forget()  # perhaps by another process
                source = (event.body or {}).get("source")  # not noted by earlier versions
                self._sources[self._item(event.subject)] = 0 if source is None else _PLACE_OF[SourceClass(source)]
            else:
                self.influence.apply_event(event, self._item)
        self.seq = head

    def read_all(self) -> None:
        """Read every edge, for questions about the whole."""
        if self._near is not None:
            self._near = None
            self._empty()
            self._add_edges(self._ledger.edge_columns(after=0, until=self.seq))

    def know(self, items: Sequence[str]) -> list[int]:
        """The numbers of known items or decisions, read together; else ``UnknownItem``."""
        if self._near is not None:
            self._add_edges(self._near.behind(items))
        return [self.item_number(item) for item in items]

    def read_behind(self, numbers: Iterable[int]) -> None:
        """Read the writers, times and direct sources of nodes."""
        if self._near is None:
            return
        numbers = tuple(numbers)
        self._add_edges(self._near.behind(self.items.names[n] for n in numbers))
        # one that nobody wrote dates from its first mention, which may be as something that others came from
        self._add_edges(self._near.around(self.items.names[n] for n in numbers if self.writers[n] < 0))

    def read_around(self, numbers: Iterable[int]) -> None:
        """The same, and their direct children and readers."""
        if self._near is not None:
            self._add_edges(self._near.around(self.items.names[n] for n in numbers))

    def read_agents(self, agents: Iterable[str]) -> None:
        """Read the edges from agents to the items they read."""
        if self._near is not None:
            self._add_edges(self._near.read_by(agents))

    def read_for_walk(self, starts: Sequence[int], back: bool, max_hops: int | None) -> None:
        """Read the nodes that a walk meets; walks do this themselves, for many at once it is done together."""
        if self._near is None:
            return
        read = self.read_behind if back else self.read_around
        met, frontier, layers = set(starts), list(starts), 0
        while frontier:
            if len(met) > MOST_NODES or layers > MOST_LAYERS:
                self.read_all()
                return
            read(frontier)
            if max_hops is not None and layers >= max_hops:
                return
            edges = self.parents if back else self.children
            frontier = [n for n in np.unique(edges.gather(frontier).targets).tolist() if n not in met]
            met.update(frontier)
            layers += 1

    def _item(self, name: str) -> int:
        number = self.items.intern(name)
        self._make_room()
        return number

    def _make_room(self) -> None:
        """Bring every column of the items up to their number."""
        fresh = self.items.names[len(self.births) :]
        if fresh:
            self.births.extend([math.inf] * len(fresh))
            self.writers.extend([-1] * len(fresh))
            self.decision.extend(map(is_decision, fresh))
            self._sources.extend(bytes(len(fresh)))
            self.influence.add_items(len(fresh))

    def _add_edges(self, pages: Iterable[EdgeColumns]) -> None:
        pages_read = [self._numbered(page) for page in pages]
        if not pages_read:
            return
        rows = NewEdges.joined(pages_read)
        self._make_room()
        written, read = rows.tags == _WRITTEN_BY, (rows.tags == _RETRIEVED_BY) | (rows.tags == _SENT_TO)
        self._date(rows, written, read)
        writes, reads = rows.where(written), rows.where(read)
        other = rows.sources != rows.targets
        derived = rows.where((rows.tags == DERIVED_TAG) & other)
        influenced = rows.where((rows.tags == _INFLUENCED) & other)
        flow = NewEdges.joined([derived.reversed(), influenced])
        for some, outward, back in ((flow, self.children, self.parents), (reads, self.exposures, self.readings)):
            outward.extend(some)
            back.extend(some.reversed())
        self.writings.extend(writes.reversed())

    def _numbered(self, page: EdgeColumns) -> NewEdges:
        """The edges with numbers for ids, those of agents where an edge leads to one."""
        items, agents = self.items.intern, self.agents.intern
        # most ids are known already, and a million calls are a second
        known_items, known_agents = self.items.number.get, self.agents.number.get
        sources = [
            items(name) if at is None else at
            for name, at in zip(page.sources, map(known_items, page.sources), strict=True)
        ]
        targets = []
        for name, word in zip(page.targets, page.words, strict=True):
            if word in _TO_AGENTS:
                at = known_agents(name)
                targets.append(agents(name) if at is None else at)
            else:
                at = known_items(name)
                targets.append(items(name) if at is None else at)
        return NewEdges(
            np.array(sources, np.int64),
            np.array(targets, np.int64),
            np.array(page.times, np.float64),
            np.array(list(map(_TAG_OF.__getitem__, page.words)), np.uint8),
        )

    def _date(self, rows: NewEdges, written: NDArray[np.bool_], read: NDArray[np.bool_]) -> None:
        """Times and writers of items: the earliest writing counts, or the earliest mention before any."""
        births, writers = np.frombuffer(self.births, np.float64), np.frombuffer(self.writers, np.int32)
        writes = rows.where(written)
        order = np.lexsort((writes.times, writes.sources))
        items, first = np.unique(writes.sources[order], return_index=True)
        times, agents = writes.times[order][first], writes.targets[order][first]
        better = (writers[items] < 0) | (times < births[items])
        births[items[better]], writers[items[better]] = times[better], agents[better]
        named, shared = rows.where(~written), rows.where(~written & ~read)
        mentioned = np.concatenate([named.sources, shared.targets])
        moments = np.concatenate([named.times, shared.times])
        unwritten = writers[mentioned] < 0
        np.minimum.at(births, mentioned[unwritten], moments[unwritten])

    def item_number(self, name: str, field: str = "item") -> int:
        """The number of a known item or decision, else ``UnknownItem``."""
        return self._known(self.items, name, field)

    def agent_number(self, name: str) -> int:
        """The number of a known agent, else ``UnknownItem``."""
        return self._known(self.agents, name, "agent")

    def _known(self, names: Numbering, name: str, field: str) -> int:
        number = names.number.get(name)
        if number is None and self._near is not None:
            if names is self.agents:
                self.read_all()  # an agent that wrote, and read nothing, is known by its items alone
            else:
                self._add_edges(self._near.behind([name]))
                if name not in names.number:
                    self._add_edges(self._near.around([name]))
            number = names.number.get(name)
        if number is None:
            raise UnknownItem(name, self._ledger.namespace, field)
        return number

    def _source_places(self, nodes: Ints) -> NDArray[np.uint8]:
        """The places of the nodes' source classes among ``_CLASSES``; 0 for nodes never seen written.

        A decision counts as inferred by a model.
        """
        written = np.frombuffer(self.writers, np.int32)[nodes] >= 0
        decided = np.frombuffer(self.decision, np.uint8)[nodes] == 1
        places = np.frombuffer(self._sources, np.uint8)[nodes]
        asked = {self.items.names[n]: n for n in nodes[written & ~decided & (places == 0)].tolist()}
        for some in chunks(asked):
            for item in self._ledger.items(ids=some, any_state=True, limit=None):
                self._sources[asked[item.id]] = _PLACE_OF[item.source]
        if asked:
            places = np.frombuffer(self._sources, np.uint8)[nodes]
        found: NDArray[np.uint8] = np.where(written, np.where(places == 0, _INFERRED, places), 0).astype(np.uint8)
        return found

    def source_classes(self, numbers: Sequence[int]) -> dict[int, SourceClass]:
        """The source class of each node that was seen written; a decision counts as inferred by a model."""
        places = self._source_places(np.array(numbers, np.int64)).tolist()
        return {n: _CLASSES[place - 1] for n, place in zip(numbers, places, strict=True) if place}

    def trust_of(self, nodes: Ints, source_trust: Mapping[SourceClass, float]) -> Floats:
        """The trust of each node by itself; nobody vouches for a node that was never seen written."""
        places = self._source_places(nodes)
        missing = {_CLASSES[place - 1] for place in np.unique(places).tolist() if place} - source_trust.keys()
        if missing:
            names = sorted(source.value for source in missing)
            raise InputError("source_trust", f"says nothing about {names}", "Give each source class a trust")
        values: Floats = np.array([0.0, *(source_trust.get(source, 0.0) for source in _CLASSES)])[places]
        return values

    def own_trust(self, numbers: Sequence[int], source_trust: Mapping[SourceClass, float]) -> dict[int, float]:
        """The same by number."""
        return dict(zip(numbers, self.trust_of(np.array(numbers, np.int64), source_trust).tolist(), strict=True))

    def held(self, numbers: Sequence[int]) -> set[int]:
        """The nodes that a ruling hides: a gate's or a person's, not a repair, which changes no past."""
        states = self._ledger.states([self.items.names[n] for n in numbers])
        ruled = {name for name, state in states.items() if (state.ruling or 0) > STRICTEST_SHOWN}
        return {n for n in numbers if self.items.names[n] in ruled}

    def births_now(self) -> Floats:
        """Births as an array; a view that must not outlive the call, for the array behind it grows."""
        return np.frombuffer(self.births, np.float64)

    def carries_until_now(self) -> Floats:
        """The times at which items stop carrying influence, as an array; a view like ``births_now``."""
        return np.frombuffer(self.influence.carries_until, np.float64)

    def reachable(
        self, starts: Iterable[int], *, back: bool = False, live: bool = False, max_hops: int | None = None
    ) -> tuple[Ints, Ints]:
        """Breadth-first reach along influence, as columns (item, hops), without the starts.

        ``back`` walks from child to parent. ``live`` leaves out links that repairs have stopped.
        """
        starts = list(dict.fromkeys(starts))
        self.read_for_walk(starts, back, max_hops)
        edges = self.parents if back else self.children
        hindered = live and self.influence.stops_anything
        seen, frontier = self._unseen(), starts
        for start in frontier:
            seen[start] = 1
        layers: list[Ints] = [np.array(frontier, np.int64)]
        sizes: list[int] = []
        width = len(frontier)
        while width and (max_hops is None or len(sizes) < max_hops):
            if width >= WIDE:
                layers.append(self._next_wide_layer(layers[-1][-width:], seen, edges, hindered))
                width = len(layers[-1])
                frontier = layers[-1].tolist() if width < WIDE else []
                sizes.append(width)
                continue
            if hindered:
                reached = frontier = self._next_live_layer(frontier, seen, edges)
                sizes.append(len(frontier))
            else:
                left = None if max_hops is None else max_hops - len(sizes)
                reached, new_sizes, frontier = edges.breadth_first(frontier, seen, WIDE, left)
                sizes += new_sizes
            layers.append(np.array(reached, np.int64))
            width = len(frontier)
        touched = np.concatenate(layers)
        np.frombuffer(seen, np.uint8)[touched] = 0
        return touched[len(layers[0]) :], np.repeat(np.arange(1, len(sizes) + 1), sizes)

    def _unseen(self) -> bytearray:
        """One zero per item. Kept from walk to walk, each cleaning up behind itself: a fresh one would cost more than
        most walks do."""
        self._flags.extend(bytes(len(self.items) - len(self._flags)))
        return self._flags

    def _next_live_layer(self, frontier: list[int], seen: bytearray, edges: Adjacency) -> list[int]:
        until, births, cuts = self.influence.carries_until, self.births, self.influence.cuts
        found = []
        for node in frontier:
            last = until[node]
            cut = cuts.get(node, ())
            for child in edges.neighbours(node):
                if not seen[child] and births[child] <= last and child not in cut:
                    seen[child] = 1
                    found.append(child)
        return found

    def _next_wide_layer(self, nodes: Ints, seen: bytearray, edges: Adjacency, live: bool) -> Ints:
        owners, targets, _, _ = edges.gather(nodes)
        if live:
            keep = self.births_now()[targets] <= self.carries_until_now()[nodes[owners]]
            for node in self.influence.cuts.keys() & set(nodes.tolist()) if self.influence.cuts else ():
                keep &= ~((nodes[owners] == node) & np.isin(targets, list(self.influence.cuts[node])))
            targets = targets[keep]
        flags = np.frombuffer(seen, np.uint8)
        flags[targets[flags[targets] == 0]] = 2
        fresh = np.flatnonzero(flags == 2)
        flags[fresh] = 1
        return fresh


# The items that still carry influence, as repairs left them.
#
# - A superseded item carries none.
# - A hidden (isolated) item carries none from then on; items that it had reached stay reached.
# - A cut (pruned) edge carries none.
# - Undoing a receipt, or releasing an item, gives the influence back.
#
# States follow ``changes_of``, the rule of the store; only cuts, which are about an edge, are read here.

STATE_KINDS = (
    EventKind.SUPERSEDED, EventKind.REPAIRED, EventKind.UNDONE, EventKind.RELEASED, EventKind.WITHDRAWN,
)  # fmt: skip
"""Events that change who carries influence; all others only add edges."""

NEVER, ALWAYS = -math.inf, math.inf


def _cuts_of(event: Event) -> Iterator[tuple[str, str]]:
    """The (parent, child) edges that a repair's steps cut."""
    plan = (event.body or {}).get("plan") or {}
    for step in plan.get("steps") or ():
        detail = step.get("detail") or {}
        if step["action"] == "cut":
            for parent in detail.get("parents") or filter(None, [detail.get("parent")]):  # one alone, in old receipts
                yield parent, step["item"]


class InfluenceState:
    """The state of influence per numbered item, changed by one event at a time in the ledger's order."""

    def __init__(self) -> None:
        self.carries_until = array("d")
        """Per item: the last moment at which it carries influence."""
        self.cuts: dict[int, set[int]] = {}
        """Item -> those of its children that a repair cut off from it."""
        self.hidden: dict[int, float] = {}
        """Items out of sight, and since when."""
        self.superseded: set[int] = set()
        """Items that others have replaced."""
        self._cuts_by_receipt: dict[str, list[tuple[int, int]]] = {}

    @property
    def stops_anything(self) -> bool:
        """Whether any repair stops anything at all."""
        return bool(self.hidden or self.superseded or self.cuts)

    def add_items(self, count: int) -> None:
        """Make room for more items, which carry influence until further notice."""
        self.carries_until.extend([ALWAYS] * count)

    def apply_event(self, event: Event, number: Callable[[str], int]) -> None:
        """Follow one event of ``STATE_KINDS``; ``number`` turns an item's id into its number."""
        for name, field, value in changes_of(event.kind, event.subject, event.body):
            item = number(name)
            if field == "hidden" and value:
                self.hidden.setdefault(item, event.time)
            elif field == "hidden":
                self.hidden.pop(item, None)
            elif field == "superseded_by":
                (self.superseded.discard if value is None else self.superseded.add)(item)
            self.carries_until[item] = NEVER if item in self.superseded else self.hidden.get(item, ALWAYS)
        if event.kind is EventKind.REPAIRED:
            self._cut(event.subject, [(number(parent), number(child)) for parent, child in _cuts_of(event)])
        elif event.kind is EventKind.UNDONE:
            self._undo_cuts(event.subject, {number(item) for item in restored_by(event)})

    def _cut(self, receipt: str, pairs: list[tuple[int, int]]) -> None:
        fresh = [(parent, child) for parent, child in pairs if child not in self.cuts.get(parent, ())]
        for parent, child in fresh:
            self.cuts.setdefault(parent, set()).add(child)
        if fresh:
            self._cuts_by_receipt[receipt] = fresh

    def _undo_cuts(self, receipt: str, restored: set[int]) -> None:
        pairs = self._cuts_by_receipt.pop(receipt, [])
        if stays := [pair for pair in pairs if pair[1] not in restored]:
            self._cuts_by_receipt[receipt] = stays
        for parent, child in pairs:
            if child not in restored:
                continue
            self.cuts[parent].discard(child)
            if not self.cuts[parent]:
                del self.cuts[parent]
