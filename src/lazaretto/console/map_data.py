"""Data of the map: nodes with their places, when each was there, infected and held. The slider only recolours it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazaretto.console.layout import Points, place
from lazaretto.guard import Guard
from lazaretto.incidents.records import Incident
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.history import changes_so_far
from lazaretto.ledger.item_state import CHANGING, changes_of, with_change
from lazaretto.ledger.tail import Tail
from lazaretto.provenance.overview import Overview
from lazaretto.types import Event

MOST_ITEMS = 9_500
MOST_EDGES = 50_000
ITEM, AGENT, DECISION = 0, 1, 2
FLOW, WROTE, READ = 0, 1, 2


@dataclass(frozen=True, slots=True)
class MapData:
    """A map as columns; a script of the page reads exactly this."""

    seq: int
    ids: tuple[str, ...]
    kinds: list[int]
    x: list[float]
    y: list[float]
    born: list[float | None]
    ill: list[float | None]
    """The time a node was infected; None: never. An agent is infected once it met an infected item."""
    zero: list[int]
    """Patients zero."""
    holds: dict[int, list[float]]
    """Node -> moments at which it was held and let go, by turns, beginning with held."""
    edges: list[list[int]]
    """Edges: from, to, kind."""


class HoldLog:
    """The times at which items were held and released, read from the ledger's tail."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._tail, self._opened = ledger, Tail(ledger, CHANGING), False
        self._states: dict[str, ItemState] = {}
        self.turns: dict[str, list[float]] = {}

    def follow(self) -> None:
        """Take in the events recorded since."""
        if not self._opened:
            head = self._ledger.head().seq
            for event in changes_so_far(self._ledger, CHANGING, head):
                self._take(event)
            self._tail.skip_to(head)
            self._opened = True
        for event in self._tail.new():
            self._take(event)

    def _take(self, event: Event) -> None:
        for item, field, value in changes_of(event.kind, event.subject, event.body):
            before = self._states.get(item, ItemState())
            after = with_change(before, field, value)
            if before.visible != after.visible:
                self.turns.setdefault(item, []).append(event.time)
            if item in self.turns:  # an item that was never held stands as every item does
                self._states[item] = after


class Maps:
    """The map of one crew; its layout is kept, and grows with the crew. Safe to share between threads."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._holds = HoldLog(guard.ledger)
        self._lock = threading.Lock()
        self._made: MapData | None = None
        self._places: dict[str, tuple[float, float]] = {}

    async def whole(self) -> MapData:
        """The whole crew's."""
        head = await asyncio.to_thread(self._guard.ledger.head)
        if self._made is not None and self._made.seq == head.seq:
            return self._made
        incidents = await self._guard.incidents.all()
        self._made = await asyncio.to_thread(self._draw, incidents, head.seq)
        return self._made

    async def of(self, incident: Incident) -> MapData:
        """The map of one incident: its items, the items made from them, and the agents they reached."""
        head = await asyncio.to_thread(self._guard.ledger.head)
        only = [*(i.id for i in (*incident.items, *incident.reached)), *(d.id for d in incident.decisions)]
        return await asyncio.to_thread(self._draw_part, incident, only, head.seq)

    def _draw(self, incidents: Sequence[Incident], seq: int) -> MapData:
        with self._lock:
            self._holds.follow()
            seen = self._guard.graph.overview(limit=MOST_ITEMS)
            edges = _edges(seen)
            ids = [*(_key(ITEM, item) for item in seen.items), *(_key(AGENT, agent) for agent in seen.agents)]
            old = [n for n, key in enumerate(ids) if key in self._places]
            fresh = [n for n, key in enumerate(ids) if key not in self._places]
            order = np.array([*old, *fresh], np.int64)
            rank = np.empty(len(ids), np.int64)
            rank[order] = np.arange(len(ids))
            known = np.array([self._places[ids[n]] for n in old]).reshape(-1, 2)
            points = place(rank[edges[:, :2]], len(ids), known if len(old) * 2 > len(ids) else None)[rank]
            self._places = {key: (float(x), float(y)) for key, (x, y) in zip(ids, points, strict=True)}
            return self._made_of(seen, edges, points, incidents, seq)

    def _draw_part(self, incident: Incident, only: list[str], seq: int) -> MapData:
        with self._lock:
            self._holds.follow()
            seen = self._guard.graph.overview(limit=MOST_ITEMS, only=only)
            edges = _edges(seen)
            points = place(edges[:, :2], len(seen.items) + len(seen.agents))
            return self._made_of(seen, edges, points, [incident], seq)

    def _made_of(
        self, seen: Overview, edges: np.ndarray[Any, Any], points: Points, incidents: Sequence[Incident], seq: int
    ) -> MapData:
        ids = (*seen.items, *seen.agents)
        number = {item: n for n, item in enumerate(seen.items)}
        seat = {agent: n + len(seen.items) for n, agent in enumerate(seen.agents)}
        ill: list[float | None] = [None] * len(ids)
        born: list[float | None] = [float(t) if np.isfinite(t) else None for t in seen.births]
        zero = []
        for incident in incidents:
            if incident.false_alarm:
                continue
            for item in incident.items:
                if item.id in number:
                    ill[number[item.id]] = item.time
            for agent in incident.agents:
                at = seat.get(agent.agent)
                if at is not None:
                    before = ill[at]
                    ill[at] = agent.time if before is None else min(before, agent.time)
            if incident.patient_zero in number:
                zero.append(number[incident.patient_zero])
        kinds = [DECISION if n in seen.decisions else ITEM for n in range(len(seen.items))]
        holds = {number[item]: turns for item, turns in self._holds.turns.items() if item in number}
        return MapData(
            seq, ids, [*kinds, *([AGENT] * len(seen.agents))], points[:, 0].round(2).tolist(),
            points[:, 1].round(2).tolist(), [*born, *([None] * len(seen.agents))], ill, zero, holds, edges.tolist(),
        )  # fmt: skip


def _key(kind: int, name: str) -> str:
    return f"{kind}{name}"


def _edges(seen: Overview) -> np.ndarray[Any, Any]:
    """Edges (from, to, kind): derivations come first if there are too many."""
    shift = np.array([0, len(seen.items)])
    parts = [(seen.flow, FLOW), (seen.written + shift, WROTE), (seen.read + shift, READ)]
    rows = [np.column_stack([part, np.full(len(part), kind, np.int64)]) for part, kind in parts if len(part)]
    joined: np.ndarray[Any, Any] = np.concatenate(rows)[:MOST_EDGES] if rows else np.zeros((0, 3), np.int64)
    return joined
