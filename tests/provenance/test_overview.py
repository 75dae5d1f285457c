"""The whole graph as columns, several starts in one walk, and the layout that a map is drawn from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lazaretto import Guard
from lazaretto.console.map_data import place


async def test_the_overview_and_the_walks_agree_with_single_questions(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard()
    made: list[str] = []
    for number in range(12):
        parents = [made[number // 2]] if number else []
        note = await guard.remember(f"note {number}", agent=f"a{number % 3}", parents=parents, source="direct_user")
        made.append(note.item)
        await guard.recall(agent="reader", items=[note.item])
    seen = guard.graph.overview()
    assert seen.items == tuple(made) and set(seen.agents) == {"a0", "a1", "a2", "reader"}
    assert {(made.index(seen.items[a]), made.index(seen.items[b])) for a, b in seen.flow.tolist()} == {
        (n // 2, n) for n in range(1, 12)
    }
    assert len(seen.written) == 12 and len(seen.read) == 12
    assert guard.graph.overview(limit=3).items == tuple(made[-3:])
    assert guard.graph.overview(only=made[:2]).items == tuple(made[:2])
    starts = [made[2], made[3]]
    several = guard.graph.reach(starts)
    alone = [guard.graph.blast_radius(start, history=True) for start in starts]
    assert {one.id for one in several.items} == {one.id for found in alone for one in found.items}
    assert {one.id for one in several.agents} == {one.id for found in alone for one in found.agents}
    assert guard.graph.roots_among([made[5], made[2], made[9], made[3]]) == (made[2], made[3])
    for limit in (1, 2, 3, None):
        whole = [step.id for step in guard.graph.sources(made[11])]
        assert [step.id for step in guard.graph.sources(made[11], limit=limit)] == whole[:limit]


def test_a_layout_is_finite_stays_and_spreads() -> None:
    for count in (0, 1, 40, 1_500):  # pairs, and the field
        edges = np.array([(n // 2, n) for n in range(1, count)], np.int64).reshape(-1, 2)
        points = place(edges, count, rounds=20)
        assert points.shape == (count, 2) and np.isfinite(points).all()
    grown = place(np.vstack([edges, [[0, 1_500]]]), 1_501, points, rounds=20)
    assert np.array_equal(grown[:1_500], points)
    assert len(np.unique(points.round(3), axis=0)) == 1_500
