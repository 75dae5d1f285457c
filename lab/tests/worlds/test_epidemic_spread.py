"""Spread over workers, the epidemic is the same bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.worlds.epidemic import Cure, Defence, Scenario, simulate
from lazaretto_lab.worlds.epidemic.agents import Population
from lazaretto_lab.worlds.epidemic.pairing import random_pairs
from lazaretto_lab.worlds.epidemic.spread import play_part, simulate_on_ray
from lazaretto_lab.worlds.epidemic.world import COUNTS, chat

BUSY = Scenario(
    1001, 40, 12, 4, 0.8, 0.7, 0.05, immune=20, defence=Defence(0.2, 0.6, 0.05, 0.1), cure=Cure(30, 0.8, 0.9)
)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_round_are_the_round(parts) -> None:
    population = Population.start(BUSY)
    asks, answers, _ = random_pairs(5, 3, BUSY.agents)
    whole = chat(BUSY, population, (5,), 3, asks[None], answers[None])
    pieces = [play_part(BUSY, population, 5, 3, part, parts) for part in range(parts)]
    for name in ("questioners", "answerers", "virus", "cure", "nothing", "asked", "answered", "carrying"):
        assert np.array_equal(np.concatenate([getattr(p, name) for p in pieces], axis=1), getattr(whole, name)), name


@pytest.mark.slow
def test_ray_gives_the_same_bit_by_bit() -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        for scenario in (BUSY, Scenario(50_000, 5, 12)):
            alone = simulate(scenario, [11])
            for workers in (1, 2):  # more parts than two: the test above
                spread = simulate_on_ray(scenario, 11, workers)
                assert all(np.array_equal(spread.counts[n], alone.counts[n]) for n in COUNTS)
        assert ray.is_initialized()  # a cluster that was there before is left alone
    finally:
        ray.shutdown()


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(InputError, match="reference_pairing"):
        simulate_on_ray(Scenario(reference_pairing=True), 1, 2)
    with pytest.raises(InputError, match="workers"):
        simulate_on_ray(Scenario(), 1, 0)
