"""Which structure holds a million influence edges best? The measurement behind decision 0002.

Three candidates answer the same question, "what does this item reach, in how many hops", on three shapes: an ordinary
outbreak, a hub with 100,000 descendants, and a chain of 100,000 steps. Times are processor times.
Run: python lab/benchmarks/graph_structures.py
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import numpy as np
import psutil
import rustworkx

from lazaretto.provenance.adjacency import Adjacency, NewEdges
from lazaretto.provenance.index import WIDE

SEED = 20260
NODES = 700_000


def make_edges() -> np.ndarray:
    """One million parent -> child pairs: a hub, a chain, and heavy-tailed derivations for the rest."""
    rng = np.random.default_rng(SEED)
    hub = np.stack([np.zeros(100_000, np.int64), np.arange(1, 100_001)], 1)
    chain = np.stack([np.arange(100_001, 200_001), np.arange(100_002, 200_002)], 1)
    children = np.sort(rng.integers(200_100, NODES, 800_000))
    parents = 200_050 + ((children - 200_050) * (1 - rng.random(len(children)) ** 3)).astype(np.int64)
    rest = np.stack([np.minimum(parents, children - 1), children], 1)
    return np.concatenate([hub, chain, rest])


def rustworkx_reach(edges: np.ndarray) -> Callable[[int], dict[int, int]]:
    """Petgraph behind Python: hop counts through its Dijkstra with unit weights."""
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from([None] * NODES)
    graph.add_edges_from([(a, b, 1.0) for a, b in edges.tolist()])
    return lambda start: {n: int(d) for n, d in rustworkx.dijkstra_shortest_path_lengths(graph, start, float).items()}


def lists_reach(edges: np.ndarray) -> Callable[[int], dict[int, int]]:
    """One Python list of children per node, breadth first."""
    children: list[list[int]] = [[] for _ in range(NODES)]
    for parent, child in edges.tolist():
        children[parent].append(child)

    def reach(start: int) -> dict[int, int]:
        hops = {start: 0}
        frontier, depth = [start], 0
        while frontier:
            depth += 1
            found = []
            for node in frontier:
                for child in children[node]:
                    if child not in hops:
                        hops[child] = depth
                        found.append(child)
            frontier = found
        del hops[start]
        return hops

    return reach


def arrays_reach(edges: np.ndarray) -> Callable[[int], dict[int, int]]:
    """What the graph uses: flat arrays, thin frontiers node by node, wide ones in whole arrays."""
    adjacency = Adjacency()
    count = len(edges)
    adjacency.extend(NewEdges(edges[:, 0], edges[:, 1], np.zeros(count), np.zeros(count, np.uint8)))

    def reach(start: int) -> dict[int, int]:
        seen, depth, hops = bytearray(NODES), 0, {}
        seen[start] = 1
        flags = np.frombuffer(seen, np.uint8)
        frontier = [start]
        while frontier:
            if len(frontier) < WIDE:
                reached, sizes, frontier = adjacency.walk(frontier, seen, WIDE, None)
                depths = np.repeat(np.arange(depth + 1, depth + 1 + len(sizes)), sizes).tolist()
                hops.update(zip(reached, depths, strict=True))
                depth += len(sizes)
                continue
            depth += 1
            targets = adjacency.gather(frontier).targets
            flags[targets[flags[targets] == 0]] = 2
            fresh = np.flatnonzero(flags == 2)
            flags[fresh] = 1
            frontier = fresh.tolist()
            hops.update(dict.fromkeys(frontier, depth))
        return hops

    return reach


def resident() -> float:
    """Resident memory of this process in MB, after a collection."""
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def main() -> None:
    """Print one row per candidate."""
    edges = make_edges()
    ordinary = np.random.default_rng(SEED + 1).integers(200_050, NODES, 300).tolist()
    answers = []
    print(f"{'structure':<12}{'build s':>9}{'MB':>7}{'median ms':>11}{'p99 ms':>9}{'hub ms':>9}{'chain ms':>10}")
    for build in (rustworkx_reach, lists_reach, arrays_reach):
        before, begun = resident(), time.thread_time()
        reach = build(edges)
        built, grown = time.thread_time() - begun, resident() - before
        taken = []
        for start in [*ordinary, 0, 100_001]:
            begun = time.thread_time()
            answer = reach(start)
            taken.append((time.thread_time() - begun) * 1e3)
        answers.append([reach(start) for start in [*ordinary[:20], 0, 100_001]])
        usual = sorted(taken[:300])
        print(
            f"{build.__name__[:-6]:<12}{built:>9.2f}{grown:>7.0f}{statistics.median(usual):>11.3f}{usual[296]:>9.2f}{taken[300]:>9.1f}{taken[301]:>10.1f}"
        )
        del reach, answer
    assert answers[0] == answers[1] == answers[2], "the candidates disagree"


if __name__ == "__main__":
    main()
