"""The part of the graph that a picture or an export shows: one item with its lineage and its reach."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lazaretto.provenance.index import KINDS, GraphIndex
from lazaretto.provenance.questions import covering_origin
from lazaretto.types import EdgeKind

State = Literal["clean", "infected", "isolated", "superseded"]


@dataclass(frozen=True, slots=True)
class Node:
    """One item, decision or agent of a subgraph."""

    id: str
    kind: Literal["item", "decision", "agent"]
    agent: str
    """The agent that wrote it; for an agent its own name."""
    time: float | None
    """The time it was made; for an agent the time it first wrote or read something infected, else None."""
    state: State
    hops: int
    """Distance from the focus: above 0 downstream, below 0 upstream, 0 the focus itself; 0 for agents."""
    text: str = ""
    """Its text, if the caller gave it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One edge of a subgraph, as the ledger has it."""

    source: str
    target: str
    kind: EdgeKind
    time: float


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The nodes and edges of an export."""

    focus: str
    patient_zero: str
    """The origin of the focus."""
    nodes: tuple[Node, ...]
    """Nodes in time order; agents first."""
    links: tuple[Link, ...]
    left_out: int
    """Items and decisions that the limit left out, the most distant first."""


def subgraph_around(
    index: GraphIndex, focus: int, infected: Collection[int] | None, limit: int, texts: Mapping[str, str]
) -> Subgraph:
    """Gather the nodes around ``focus``: its whole history, past repairs too, nearest first up to ``limit`` nodes.

    Without ``infected``, the focus and everything that ever came from it count as infected.
    """
    down, down_hops = index.reachable([focus])
    up, up_hops = index.reachable([focus], back=True)
    hops = dict(zip(up.tolist(), (-up_hops).tolist(), strict=True))
    hops |= dict(zip(down.tolist(), down_hops.tolist(), strict=True)) | {focus: 0}
    ill = set(infected) if infected is not None else {focus, *down.tolist()}
    origin, _ = covering_origin(index, [focus])
    names = index.items.names
    nearest = sorted(hops, key=lambda n: (n not in (focus, origin), abs(hops[n]), index.births[n], names[n]))
    shown = nearest[:limit]
    links = _links(index, shown)
    sick_names = {names[n] for n in ill}
    agents = _agents(links, sick_names)
    items = [_node(index, n, hops[n], n in ill, texts) for n in sorted(shown, key=lambda n: (index.births[n], n))]
    return Subgraph(names[focus], names[origin], (*agents, *items), links, len(hops) - len(shown))


def _node(index: GraphIndex, number: int, hops: int, ill: bool, texts: Mapping[str, str]) -> Node:
    state: State = "infected" if ill else "clean"
    if number in index.influence.superseded:
        state = "superseded"
    elif number in index.influence.hidden:
        state = "isolated"
    name, writer = index.items.names[number], index.writers[number]
    return Node(
        id=name,
        kind="decision" if index.decision[number] else "item",
        agent=index.agents.names[writer] if writer >= 0 else "",
        time=index.births[number],
        state=state,
        hops=hops,
        text=texts.get(name, ""),
    )


def _links(index: GraphIndex, shown: list[int]) -> tuple[Link, ...]:
    inside, names = set(shown), index.items.names
    found: dict[Link, None] = {}
    flow = index.children.gather(shown)
    for owner, target, time, tag in zip(*(column.tolist() for column in flow), strict=True):
        if target in inside:
            ends = (names[target], names[shown[owner]])
            kind = KINDS[tag]
            found[Link(*(ends if kind is EdgeKind.DERIVED_FROM else ends[::-1]), kind, time)] = None
    reads = index.exposures.gather(shown)
    for owner, target, time, tag in zip(*(column.tolist() for column in reads), strict=True):
        found[Link(names[shown[owner]], index.agents.names[target], KINDS[tag], time)] = None
    for number in shown:
        if index.writers[number] >= 0:
            writer = index.agents.names[index.writers[number]]
            found[Link(names[number], writer, EdgeKind.WRITTEN_BY, index.births[number])] = None
    return tuple(sorted(found, key=lambda link: (link.time, link.kind, link.source, link.target)))


def _agents(links: tuple[Link, ...], ill: set[str]) -> list[Node]:
    """Every agent that wrote or read something shown; infected since it first wrote or read something infected."""
    first_met: dict[str, float] = {}
    exposed: dict[str, float] = {}
    for link in links:
        if link.kind in (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO):
            first_met[link.target] = min(first_met.get(link.target, np.inf), link.time)
            if link.source in ill:
                exposed[link.target] = min(exposed.get(link.target, np.inf), link.time)
    return [
        Node(name, "agent", name, exposed.get(name), "infected" if name in exposed else "clean", 0)
        for name in sorted(first_met, key=lambda name: (first_met[name], name))
    ]
