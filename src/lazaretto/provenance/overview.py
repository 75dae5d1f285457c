"""The whole graph at once, as columns, for a map."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lazaretto.provenance.adjacency import Floats, Ints
from lazaretto.provenance.index import GraphIndex


@dataclass(frozen=True, slots=True)
class Overview:
    """Items (decisions among them) and agents by number, and the edges between them."""

    items: tuple[str, ...]
    births: Floats
    decisions: frozenset[int]
    """The items that are decisions."""
    agents: tuple[str, ...]
    flow: Ints
    """Rows (item, item that came from it)."""
    written: Ints
    """Rows (item, agent that wrote it)."""
    read: Ints
    """Rows (item, agent that read it), each pair once."""


def overview(index: GraphIndex, limit: int, only: Collection[str] | None = None) -> Overview:
    """The newest items up to ``limit`` (of ``only``, where given), by any writer or reader, and their edges."""
    births = np.array(index.births_now())
    if only is None:
        chosen = np.sort(np.argsort(births, kind="stable")[-limit:])
    else:
        known = [index.items.number[item] for item in only if item in index.items.number]
        chosen = np.array(sorted(known, key=births.__getitem__)[-limit:], np.int64)
    place = np.full(len(births), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    owners, targets, _, _ = index.children.gather(chosen)
    inside = place[targets] >= 0
    flow = _pairs(owners[inside], place[targets[inside]])
    holders, readers, _, _ = index.exposures.gather(chosen)
    writers = np.frombuffer(index.writers, np.int32)[chosen].astype(np.int64)
    wrote = np.flatnonzero(writers >= 0)
    met = np.unique(np.concatenate([readers, writers[wrote]]))
    seat = np.full(len(index.agents) + 1, -1, np.int64)
    seat[met] = np.arange(len(met))
    return Overview(
        items=tuple(index.items.names[n] for n in chosen.tolist()),
        births=births[chosen],
        decisions=frozenset(at for at, n in enumerate(chosen.tolist()) if index.decision[n]),
        agents=tuple(index.agents.names[n] for n in met.tolist()),
        flow=flow,
        written=_pairs(wrote, seat[writers[wrote]]),
        read=_pairs(holders, seat[readers]),
    )


def _pairs(sources: Ints, targets: Ints) -> Ints:
    """Two columns as rows, each once."""
    rows: Ints = np.unique(np.stack([sources, targets], axis=1), axis=0) if len(sources) else np.zeros((0, 2), np.int64)
    return rows
