"""The guard decides what the vectorised defence decides, memory by memory, also when it is closed and opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpe2", reason="needs the worlds extra")
pytest.importorskip("safetensors", reason="needs the models extra")

from lazaretto.gates.memory.record_model import shared_model
from lazaretto_lab.studies.memory.defence import MemoryDefence
from lazaretto_lab.studies.memory.through_guard import GuardDefence, OneByOne
from lazaretto_lab.worlds.shared_memory import Scenario, simulate
from lazaretto_lab.worlds.shared_memory.world import MendResult

SMALL = Scenario(seed=31, rounds=16, per_domain=1, poison=None, ratio=0.15, quiet_rounds=9)
CLOSED = (10, 13)
"""Rounds after which every guard is closed, and opened again from its ledger."""


class Restarted(GuardDefence):
    """Guards that are closed and opened now and then."""

    def mend(self, round_index: int) -> MendResult | None:
        if round_index in CLOSED:
            self.reopen()
        return super().mend(round_index)


@pytest.mark.slow
def test_the_guard_and_the_vectorised_defence_decide_alike(tmp_path: Path) -> None:
    model = shared_model()
    hold = 0.6  # low enough that second looks have something to release
    defence = MemoryDefence(model, SMALL, hold)
    vectorised = simulate(SMALL, OneByOne(defence))
    with Restarted(model, SMALL, hold, tmp_path) as guarded:
        through = simulate(SMALL, guarded)
    assert defence.done["held"] > 50 and defence.done["released"] > 0 and defence.done["isolated"] > 0
    assert {k: guarded.done[k] for k in defence.done} == defence.done
    np.testing.assert_array_equal(through.held, vectorised.held)
    np.testing.assert_array_equal(through.action, vectorised.action)  # nothing that anybody did differs either
