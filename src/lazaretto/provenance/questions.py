"""Questions to the whole graph: the origin of infected items, trust and roots of many, how fast it spreads, a map.

Much of the graph is inferred: an agent that recalled ten notes is linked to all ten. So stated ways back count for
more than inferred ones, and held items or little trusted sources for more than merely earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lazaretto.errors import InputError
from lazaretto.provenance.adjacency import Floats, Ints
from lazaretto.provenance.index import DERIVED_TAG, GraphIndex
from lazaretto.provenance.traces import Ground, OutbreakWindow
from lazaretto.types import SourceClass

OUTSIDE = frozenset({SourceClass.TOOL_OUTPUT_EXTERNAL, SourceClass.UNTRUSTED_DOCUMENT})
"""Source classes whose items others made, outside of the crew."""
Parents = dict[int, list[int]]


def covering_origin(index: GraphIndex, given: Sequence[int], healthy: Sequence[int] = ()) -> tuple[int, set[int]]:
    """The ancestor (or one of the given) that most of the given come from, and the given ones it explains.

    If several explain as many, these go first, in this order: a node that led to none of the ``healthy``; an origin
    (``_origins``); one that leads to more of the given by stated edges alone; a held one; one with the less
    trusted source; the earlier; the smaller id. Clocks come last: they disagree, and edges still show the
    order.
    """
    nodes, _ = index.reachable(given, back=True)
    ancestry = [*given, *nodes.tolist()]
    parents_of, stated = _parents(index, ancestry)
    cover = _covered_bits(parents_of, given)
    most = max(bits.bit_count() for bits in cover.values())
    covering = [node for node, bits in cover.items() if bits.bit_count() == most]
    cleared = {*healthy, *index.reachable(healthy, back=True)[0].tolist()} if healthy else set()
    left = [node for node in covering if node not in cleared] or covering
    origins = _origins(index, covering, parents_of, stated)
    left = [node for node in left if node in origins] or left
    if len(left) > 1:
        by_word = _covered_bits(stated, given)
        furthest = max(by_word[node].bit_count() for node in left)
        left = [node for node in left if by_word[node].bit_count() == furthest]
    if len(left) > 1:
        held, trust = index.held(left), index.own_trust(left, index.source_trust)
        left.sort(key=lambda n: (n not in held, trust[n], index.births[n], index.items.names[n]))
    return left[0], {node for place, node in enumerate(given) if cover[left[0]] >> place & 1}


def _parents(index: GraphIndex, ancestry: Sequence[int]) -> tuple[Parents, Parents]:
    """The parents of each node, and the stated ones among them: derivations, and items that decisions rested on."""
    owners, parents, _, tags = index.parents.gather(ancestry)
    every: Parents = {node: [] for node in ancestry}
    stated: Parents = {node: [] for node in ancestry}
    for owner, parent, tag in zip(owners.tolist(), parents.tolist(), tags.tolist(), strict=True):
        node = ancestry[owner]
        every[node].append(parent)
        if tag == DERIVED_TAG or index.decision[node]:
            stated[node].append(parent)
    return every, stated


def _origins(index: GraphIndex, covering: Sequence[int], parents_of: Parents, stated: Parents) -> set[int]:
    """Origins: items without parents, and items from outside though their writer had read something before.

    The second are those without a stated parent whose inferred ancestors are all the crew's own; where one of these
    came from outside as well, it may be where the text is from. ``covering`` holds every ancestor of its members.
    """
    origins = {node for node in covering if not parents_of[node]}
    met = [node for node in covering if parents_of[node] and not stated[node]]
    if not any(source in OUTSIDE for source in index.source_classes(met).values()):
        return origins
    outside = {node for node, source in index.source_classes(covering).items() if source in OUTSIDE}
    children_of: Parents = {}
    for node in covering:
        for parent in parents_of[node]:
            children_of.setdefault(parent, []).append(node)
    below: set[int] = set()
    waiting = list(outside)
    while waiting:
        fresh = [child for child in children_of.get(waiting.pop(), ()) if child not in below]
        below.update(fresh)
        waiting += fresh
    return origins | {node for node in met if node in outside and node not in below}


def _covered_bits(parents_of: Mapping[int, Sequence[int]], given: Sequence[int]) -> dict[int, int]:
    """For every node, the members of ``given`` that it leads to, one bit each.

    Children hand their bits to their parents once they are complete, so each edge is walked once; a node on or
    above a cycle never completes by itself and is settled by passing bits on until nothing changes.
    """
    cover = dict.fromkeys(parents_of, 0)
    for place, node in enumerate(given):
        cover[node] |= 1 << place
    waiting = dict.fromkeys(parents_of, 0)
    for parents in parents_of.values():
        for parent in parents:
            waiting[parent] += 1
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:  # grows while it is walked
        for parent in parents_of[node]:
            cover[parent] |= cover[node]
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    unsettled = [node for node, count in waiting.items() if count]
    while unsettled:
        node = unsettled.pop()
        for parent in parents_of[node]:
            joined = cover[parent] | cover[node]
            if joined != cover[parent]:
                cover[parent] = joined
                unsettled.append(parent)
    return cover


# The grounds of items: the least trust and the roots of their lineages, for many items in one pass.

_MOST_BITS = 1 << 28
"""Nodes times roots that one pass may hold, a bit each: 32 MB. Past it the items are walked back one by one."""


def together(index: GraphIndex, starts: Sequence[int], source_trust: Mapping[SourceClass, float]) -> Ground:
    """The roots of several items together, by one walk back."""
    everyone = _lineage(index, starts)
    values, names = index.own_trust(everyone, source_trust), index.items.names
    roots = frozenset(names[n] for n in everyone if not index.parents.neighbours(n))
    return Ground(min(values.values()), roots)


def each(index: GraphIndex, starts: Sequence[int], source_trust: Mapping[SourceClass, float]) -> list[Ground]:
    """The roots of each of several items. Every ancestor is visited once, though many items share it."""
    everyone = sorted(_lineage(index, starts), key=index.births.__getitem__)
    above = {n: tuple(dict.fromkeys(index.parents.neighbours(n))) for n in everyone}
    roots = [n for n in everyone if not above[n]]
    if len(everyone) * len(roots) > _MOST_BITS:
        return [together(index, [start], source_trust) for start in starts]
    trust = index.own_trust(everyone, source_trust)
    bits = {n: 1 << place for place, n in enumerate(roots)}
    while _passed_down(everyone, above, trust, bits):
        pass  # parents are the older, so that one pass does it, and the second finds nothing to do
    names = index.items.names
    return [Ground(trust[start], frozenset(names[roots[k]] for k in _places(bits.get(start, 0)))) for start in starts]


def _lineage(index: GraphIndex, starts: Sequence[int]) -> list[int]:
    return [*dict.fromkeys(starts), *index.reachable(starts, back=True)[0].tolist()]


def _passed_down(
    nodes: Sequence[int], above: Mapping[int, Sequence[int]], trust: dict[int, float], bits: dict[int, int]
) -> bool:
    """Give every node the values of its parents; returns whether any was new."""
    changed = False
    for n in nodes:
        least, found = trust[n], bits.get(n, 0)
        for parent in above[n]:
            least = min(least, trust[parent])
            found |= bits.get(parent, 0)
        if least < trust[n] or found != bits.get(n, 0):
            trust[n], bits[n] = least, found
            changed = True
    return changed


def _places(bits: int) -> list[int]:
    """The places of the bits that are set."""
    if not bits:
        return []
    raw = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    places: list[int] = np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()
    return places


# Epidemiology over the graph's index: how fast it spreads.

MOST_WINDOWS = 100_000


def reproduction_windows(index: GraphIndex, infected: Mapping[int, float], window: float) -> tuple[OutbreakWindow, ...]:
    """Cases and mean offspring per window, counted from the first infection on."""
    if not infected:
        return ()
    begin = min(infected.values())
    if (max(infected.values()) - begin) / window > MOST_WINDOWS:
        raise InputError("window", f"{window} cuts this outbreak into more than {MOST_WINDOWS:,}", "Use a longer one")
    offspring = dict.fromkeys(infected, 0.0)
    for case, time in infected.items():
        sources = _infectors(index, case, time, infected)
        for source in sources:
            offspring[source] += 1 / len(sources)
    windows: dict[int, list[float]] = {}
    for agent, time in infected.items():
        windows.setdefault(math.floor((time - begin) / window), []).append(offspring[agent])
    return tuple(
        OutbreakWindow(
            start=begin + place * window,
            end=begin + (place + 1) * window,
            cases=len(windows.get(place, ())),
            r_effective=float(np.mean(windows[place])) if place in windows else None,
        )
        for place in range(max(windows) + 1)
    )


def _infectors(index: GraphIndex, case: int, time: float, infected: Mapping[int, float]) -> set[int]:
    """Agents infected before ``case`` whose later writings it had read by the time it was infected."""
    _, items, reads, _ = index.readings.gather([case])
    early = reads <= time
    items, reads = items[early], reads[early]
    begin = min(infected.values())
    index.read_behind(items[reads >= begin].tolist())  # an item read before the first infection infected nobody
    sources = set()
    for item, read in zip(items.tolist(), reads.tolist(), strict=True):
        writer = index.writers[item]
        since = infected.get(writer, math.inf)
        if writer != case and since < time and since <= index.births[item] and since <= read:
            sources.add(writer)
    return sources


# The whole graph at once, as columns, for a map.


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
