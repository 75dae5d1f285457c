"""The origin of a set of infected items: the one that explains most of them, and how ties are decided.

Much of the graph is inferred: an agent that recalled ten notes is linked to all ten. So stated ways back count for more
than inferred ones, and held items or little trusted sources for more than merely earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazaretto.provenance.index import DERIVED_TAG, GraphIndex
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
