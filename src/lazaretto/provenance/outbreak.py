"""Epidemiology over the graph's index: who started it, and how fast it spreads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lazaretto.errors import InputError
from lazaretto.provenance.index import GraphIndex
from lazaretto.provenance.traces import Window

MOST_WINDOWS = 100_000


def covering_origin(index: GraphIndex, given: Sequence[int], healthy: Sequence[int] = ()) -> tuple[int, set[int]]:
    """The ancestor (or one of the given) that most of the given come from, and which those are.

    Where several explain as many, one that led to none of the ``healthy`` goes before one that did, then one made
    from nothing before one with parents, then the earlier, then the smaller id: with clocks that disagree, the edges
    still tell what came first.
    """
    nodes, _ = index.reachable(given, back=True)
    ancestry = [*given, *nodes.tolist()]
    cleared = {*healthy, *index.reachable(healthy, back=True)[0].tolist()} if healthy else set()
    owners, parents, _, _ = index.parents.gather(ancestry)
    parents_of: dict[int, list[int]] = {node: [] for node in ancestry}
    for owner, parent in zip(owners.tolist(), parents.tolist(), strict=True):
        parents_of[ancestry[owner]].append(parent)
    cover = _covered_bits(parents_of, given)
    most = max(bits.bit_count() for bits in cover.values())
    best = min(
        (node for node, bits in cover.items() if bits.bit_count() == most),
        key=lambda n: (n in cleared, bool(parents_of[n]), index.births[n], index.items.names[n]),
    )
    return best, {node for place, node in enumerate(given) if cover[best] >> place & 1}


def _covered_bits(parents_of: Mapping[int, Sequence[int]], given: Sequence[int]) -> dict[int, int]:
    """For every node, which of ``given`` it leads to, one bit each.

    Children hand their bits to their parents once they are complete, so each edge is walked once; what lies on or
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


def reproduction_windows(index: GraphIndex, infected: Mapping[int, float], window: float) -> tuple[Window, ...]:
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
        Window(
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
    sources = set()
    for item, read in zip(items.tolist(), reads.tolist(), strict=True):
        writer = index.writers[item]
        since = infected.get(writer, math.inf)
        if writer != case and since < time and since <= index.births[item] and read <= time:
            sources.add(writer)
    return sources
