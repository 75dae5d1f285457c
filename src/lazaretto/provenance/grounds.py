"""The grounds of items: the least trust and the roots of their lineages, for many items in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lazaretto.provenance.index import GraphIndex
from lazaretto.provenance.traces import Ground
from lazaretto.types import SourceClass

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
