"""The provenance graph's memory of one namespace: ids as numbers, edges as adjacency, kept up by tailing the ledger."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Protocol

import numpy as np

from lazaretto.errors import UnknownItem
from lazaretto.ledger.adjacency import Adjacency, Floats, Ints, Rows
from lazaretto.ledger.carriage import STATE_KINDS, Carriage
from lazaretto.ledger.edges import is_decision
from lazaretto.types import Channel, Edge, EdgeKind, Event, EventKind, Head, Observation

KINDS = tuple(EdgeKind)
TAGS = {kind: tag for tag, kind in enumerate(KINDS)}
"""The number under which an edge's kind is kept."""

WIDE = 512
"""Frontiers from this size on are stepped in whole arrays; thinner ones node by node."""


class Tailed(Protocol):
    """What the graph needs of a ledger: to be read from where one left off."""

    @property
    def namespace(self) -> str:
        """The tenant it is bound to."""
        ...

    def head(self) -> Head:
        """The last event."""
        ...

    def edges(self, *, after: int = 0) -> Iterator[tuple[int, Edge]]:
        """Edges in order, each with the number of the event that made it, of the events past ``after``."""
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
        hidden: bool = False,
        limit: int | None = 100,
    ) -> list[Observation]:
        """The observations with these ids."""
        ...


class Names:
    """Ids in the order they were first met, and the way back from id to number."""

    def __init__(self) -> None:
        self.of: list[str] = []
        self.number: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.of)

    def intern(self, name: str) -> int:
        """The number of an id, given out on first sight."""
        found = self.number.get(name)
        if found is None:
            found = self.number[name] = len(self.of)
            self.of.append(name)
        return found


class GraphIndex:
    """Numbered items (with decisions) and agents of one namespace, and their edges in every direction asked for."""

    def __init__(self, ledger: Tailed) -> None:
        self._ledger = ledger
        self.seq = 0
        """The last event taken in."""
        self.items, self.agents = Names(), Names()
        self.births = array("d")
        """Per item: when it was written, or the earliest mention of one never seen written."""
        self.writers = array("i")
        """Per item: the agent that wrote it, or -1."""
        self.decision = bytearray()
        """Per item: 1 for a decision."""
        self.carriage = Carriage()
        self.children, self.parents = Adjacency(), Adjacency()
        self.exposures, self.readings = Adjacency(), Adjacency()
        """Item -> agents that read it, and agent -> items it read, with the times of reading."""
        self.writings = Adjacency()
        """Agent -> items it wrote."""

    def refresh(self) -> None:
        """Take in what was appended since the last time, by whichever process."""
        head = self._ledger.head().seq
        if head <= self.seq:
            return
        fresh = self._ledger.edges(after=self.seq)
        # Events appended meanwhile wait for the next time, so that edges and repairs are of one moment.
        self._take_edges(edge for seq, edge in takewhile(lambda numbered: numbered[0] <= head, fresh))
        for event in self._ledger.events(after=self.seq, kinds=STATE_KINDS):
            if event.seq > head:
                break
            self.carriage.apply(event, self._item)
        self.seq = head

    def _item(self, name: str) -> int:
        number = self.items.intern(name)
        if number == len(self.births):
            self.births.append(math.inf)
            self.writers.append(-1)
            self.decision.append(is_decision(name))
            self.carriage.grow()
        return number

    def _mention(self, number: int, time: float) -> None:
        if self.writers[number] < 0 and time < self.births[number]:
            self.births[number] = time

    def _write(self, number: int, agent: int, time: float) -> None:
        if self.writers[number] < 0 or time < self.births[number]:
            self.writers[number], self.births[number] = agent, time

    def _take_edges(self, edges: Iterable[Edge]) -> None:
        flow, reads, writes = Rows.none(), Rows.none(), Rows.none()
        known = self.items.number.get  # most ids are known already, and a million calls are a second
        for edge in edges:
            kind, time, tag = edge.kind, edge.time, TAGS[edge.kind]
            item = known(edge.source)
            if item is None:
                item = self._item(edge.source)
            if kind is EdgeKind.WRITTEN_BY:
                agent = self.agents.intern(edge.target)
                self._write(item, agent, time)
                writes.add(agent, item, time, tag)
                continue
            self._mention(item, time)
            if kind is EdgeKind.RETRIEVED_BY or kind is EdgeKind.SENT_TO:
                reads.add(item, self.agents.intern(edge.target), time, tag)
                continue
            other = known(edge.target)
            if other is None:
                other = self._item(edge.target)
            self._mention(other, time)
            if kind is EdgeKind.DERIVED_FROM and item != other:
                flow.add(other, item, time, tag)
            elif kind is EdgeKind.INFLUENCED and item != other:
                flow.add(item, other, time, tag)
        for rows, outward, back in ((flow, self.children, self.parents), (reads, self.exposures, self.readings)):
            outward.extend(rows)
            back.extend(rows.turned())
        self.writings.extend(writes)

    def item_number(self, name: str, field: str = "item") -> int:
        """The number of a known item or decision, else ``UnknownItem``."""
        return self._known(self.items, name, field)

    def agent_number(self, name: str) -> int:
        """The number of a known agent, else ``UnknownItem``."""
        return self._known(self.agents, name, "agent")

    def _known(self, names: Names, name: str, field: str) -> int:
        number = names.number.get(name)
        if number is None:
            raise UnknownItem(name, self._ledger.namespace, field)
        return number

    def births_now(self) -> Floats:
        """Births as an array; a view that must not outlive the call, for the array behind it grows."""
        return np.frombuffer(self.births, np.float64)

    def until_now(self) -> Floats:
        """Ends of carriage as an array; a view like ``births_now``."""
        return np.frombuffer(self.carriage.until, np.float64)

    def spread(
        self, starts: Iterable[int], *, back: bool = False, live: bool = False, max_hops: int | None = None
    ) -> tuple[Ints, Ints]:
        """Breadth-first reach along influence, as columns (item, hops), without the starts.

        ``back`` walks from child to parent. ``live`` leaves out what repairs have stopped.
        """
        edges = self.parents if back else self.children
        hindered = live and self.carriage.hinders
        seen = bytearray(len(self.items))
        frontier: list[int] | Ints = list(dict.fromkeys(starts))
        for start in frontier:
            seen[start] = 1
        reached = array("q")
        sizes: list[int] = []
        while len(frontier) and (max_hops is None or len(sizes) < max_hops):
            thin = frontier if isinstance(frontier, list) else frontier.tolist()
            if len(thin) < WIDE and not hindered:
                layers = edges.walk(thin, seen, WIDE, None if max_hops is None else max_hops - len(sizes))
                frontier = layers.frontier
                reached.fromlist(layers.reached)
                sizes += layers.sizes
                continue
            if len(thin) < WIDE:
                frontier = self._thin_live_step(thin, seen, edges)
                reached.fromlist(frontier)
            else:
                frontier = self._wide_step(thin, seen, edges, hindered)
                reached.frombytes(frontier.tobytes())
            sizes.append(len(frontier))
        return np.array(reached, np.int64), np.repeat(np.arange(1, len(sizes) + 1), sizes)

    def _thin_live_step(self, frontier: list[int], seen: bytearray, edges: Adjacency) -> list[int]:
        until, births, cuts = self.carriage.until, self.births, self.carriage.cuts
        found = []
        for node in frontier:
            last = until[node]
            cut = cuts.get(node, ())
            for child in edges.of(node):
                if not seen[child] and births[child] <= last and child not in cut:
                    seen[child] = 1
                    found.append(child)
        return found

    def _wide_step(self, frontier: list[int], seen: bytearray, edges: Adjacency, live: bool) -> Ints:
        nodes = np.asarray(frontier, np.int64)
        owners, targets, _, _ = edges.gather(nodes)
        if live:
            keep = self.births_now()[targets] <= self.until_now()[nodes[owners]]
            for node in self.carriage.cuts.keys() & set(nodes.tolist()) if self.carriage.cuts else ():
                keep &= ~((nodes[owners] == node) & np.isin(targets, list(self.carriage.cuts[node])))
            targets = targets[keep]
        flags = np.frombuffer(seen, np.uint8)
        flags[targets[flags[targets] == 0]] = 2
        fresh = np.flatnonzero(flags == 2)
        flags[fresh] = 1
        return fresh
