"""What a write may cost is counted, not timed: walks over the provenance graph, and rows read from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard
from lazaretto.gates.memory.claims import update_rule
from lazaretto.provenance.index import GraphIndex

Open = Callable[..., Guard]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each walk over the graph found."""
    found: list[int] = []
    walk = GraphIndex.reachable

    def counted(self: GraphIndex, *args: Any, **options: Any) -> Any:
        nodes = walk(self, *args, **options)
        found.append(len(nodes[0]))
        return nodes

    monkeypatch.setattr(GraphIndex, "reachable", counted)
    return found


async def test_many_parents_are_walked_back_once(open_guard: Open, walks: list[int]) -> None:
    """Each parent used to be walked back by itself, twice: 282 characters with 120 parents took 15 seconds."""
    guard = open_guard()
    trust = guard.policy.trust.table()
    layer: list[str] = []
    for depth in range(3):
        wrote = [
            (await guard.remember(f"Note {depth}.{n} of the watch.", agent="ada", parents=layer)).item
            for n in range(12)
        ]
        layer = wrote
    last = await guard.remember("The watch is over.", agent="bob", parents=layer)
    item = guard.ledger.item(last.item)
    walks.clear()
    new = update_rule.newcomer(item, guard.graph, trust)
    assert walks == [24]
    walks.clear()
    seen = update_rule.witnesses([guard.ledger.item(name) for name in layer], guard.graph, trust)
    assert walks == [24]
    assert new.trust == min(guard.graph.trust(name, trust).value for name in layer)
    assert new.roots == frozenset().union(*(one.roots for one in seen.values())) and len(new.roots) == 12
