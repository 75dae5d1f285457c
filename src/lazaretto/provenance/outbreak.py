"""Epidemiology over the graph's index: how fast it spreads."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from lazaretto.errors import InputError
from lazaretto.provenance.index import GraphIndex
from lazaretto.provenance.traces import OutbreakWindow

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
