"""Two looks for every memory, twenty for one that is held or blamed, none for what a person settled."""

from __future__ import annotations

import numpy as np

from lazaretto.gates.engine.recheck_queue import BLAMED, HELD_LOOKS, LOOKS, RecheckSchedule


def due(looks: RecheckSchedule) -> list[int]:
    ids = np.arange(looks.count)
    return ids[looks.due(ids)].tolist()


def test_who_is_due_when() -> None:
    looks = RecheckSchedule(size=2)  # it grows
    looks.wrote(np.arange(6), np.array([True, True, False, True, True, False]))
    looks.settled[5] = True
    for _ in range(LOOKS):
        assert due(looks) == [0, 1, 2, 3, 4]
        looks.close_pass()
    assert due(looks) == [2]
    looks.failed(np.array([3, 3, 4, -1, 5]))
    assert looks.blame[3] == BLAMED and due(looks) == [2, 3]
    looks.wrote(np.array([6]), np.array([True]))
    assert due(looks) == [2, 3, 6]
    for _ in range(HELD_LOOKS - LOOKS):
        looks.close_pass()
    assert due(looks) == []  # held for good, unless somebody asks


def test_a_pass_may_end_before_what_came_meanwhile() -> None:
    looks = RecheckSchedule()
    looks.wrote(np.arange(4), np.ones(4, dtype=bool))
    looks.close_pass(start=3)
    looks.close_pass(start=4)
    assert due(looks) == [3]
