"""Data of the map: nodes with their places, when each was there, infected and held. The slider only recolours it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.guard import Guard
from lazaretto.incidents.records import Incident
from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.effects import CHANGING, changes_of, with_change
from lazaretto.ledger.history import changes_so_far
from lazaretto.ledger.reader import Tail
from lazaretto.provenance.questions import Overview
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


# The layout of a map: a force layout in whole arrays, quick enough for ten thousand nodes.
#
# Nodes repel each other (a field on a grid, one convolution per round) and edges attract. Placed nodes keep their
# place.

Points = NDArray[np.float64]
ROUNDS = 140
_FEW = 1_200
"""Up to so many nodes every pair is looked at."""
_GRID = 128


def place(edges: NDArray[np.int64], count: int, known: Points | None = None, rounds: int = ROUNDS) -> Points:
    """Positions of ``count`` nodes; the first ``len(known)`` stay where they are."""
    fixed = 0 if known is None else len(known)
    points = np.random.default_rng(11).normal(0.0, np.sqrt(max(count, 1)), (count, 2))
    if known is not None and fixed:
        points[:fixed] = known
        _beside_neighbours(points, edges, fixed)
    if count - fixed < 1:
        return points
    degree = np.bincount(edges.ravel(), minlength=count).astype(float)
    weight = 1.0 + np.sqrt(degree)
    heat = np.sqrt(max(count, 2)) * (0.5 if not fixed else 0.05)
    for step in range(rounds if not fixed else rounds // 4):
        force = _pull(points, edges, degree) + _push(points, weight)
        force -= 0.02 * points * weight[:, None]
        length = np.sqrt((force**2).sum(axis=1, keepdims=True)) + 1e-9
        move = force / length * np.minimum(length, heat * (1 - step / rounds) + 0.01)
        points[fixed:] += move[fixed:]
    return points


def _beside_neighbours(points: Points, edges: NDArray[np.int64], fixed: int) -> None:
    """New nodes begin near those they belong to, in order, so that chains find their way."""
    chance = np.random.default_rng(len(points))
    settled = np.arange(len(points)) < fixed
    for _ in range(4):
        for side, other in ((0, 1), (1, 0)):
            ready = settled[edges[:, side]] & ~settled[edges[:, other]]
            targets = edges[ready, other]
            points[targets] = points[edges[ready, side]] + chance.normal(0.0, 1.5, (len(targets), 2))
            settled[targets] = True


def _pull(points: Points, edges: NDArray[np.int64], degree: NDArray[np.float64]) -> Points:
    if not len(edges):
        return np.zeros_like(points)
    a, b = edges[:, 0], edges[:, 1]
    strength = 1.0 / (1.0 + np.sqrt(np.minimum(degree[a], degree[b])))
    along = (points[b] - points[a]) * strength[:, None]
    count = len(points)
    columns = [np.bincount(a, along[:, k], count) - np.bincount(b, along[:, k], count) for k in (0, 1)]
    return np.stack(columns, axis=1)


def _push(points: Points, weight: NDArray[np.float64]) -> Points:
    return _push_pairs(points, weight) if len(points) <= _FEW else _push_grid(points, weight)


def _push_pairs(points: Points, weight: NDArray[np.float64]) -> Points:
    apart = points[:, None, :] - points[None, :, :]
    near = (apart**2).sum(axis=2) + 0.05
    pushed: Points = (apart / near[:, :, None] * weight[None, :, None]).sum(axis=1) * weight[:, None]
    return pushed


def _push_grid(points: Points, weight: NDArray[np.float64]) -> Points:
    low = points.min(axis=0)
    cell = max(float((points.max(axis=0) - low).max()) / (_GRID - 2), 1e-6)
    at = (points - low) / cell
    corner = at.astype(np.int64)
    share = at - corner
    cells = [corner + np.array(step) for step in ((0, 0), (1, 0), (0, 1), (1, 1))]
    sides = [np.abs(1 - np.array(step) - share).prod(axis=1) for step in ((0, 0), (1, 0), (0, 1), (1, 1))]
    density = np.zeros((_GRID, _GRID))
    for where, part in zip(cells, sides, strict=True):
        np.add.at(density, (where[:, 0], where[:, 1]), weight * part)
    offsets = np.fft.fftfreq(2 * _GRID, 1 / (2 * _GRID))
    x, y = np.meshgrid(offsets, offsets, indexing="ij")
    near = (x**2 + y**2 + 0.5) * cell
    spread = np.fft.rfft2(density, (2 * _GRID, 2 * _GRID))
    pushed = np.zeros_like(points)
    for axis, kernel in enumerate((x / near, y / near)):
        field = np.fft.irfft2(spread * np.fft.rfft2(kernel), (2 * _GRID, 2 * _GRID))
        for where, part in zip(cells, sides, strict=True):
            pushed[:, axis] += field[where[:, 0], where[:, 1]] * part
    return pushed * weight[:, None]
