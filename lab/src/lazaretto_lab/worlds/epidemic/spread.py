"""One large epidemic over Ray workers, bit by bit the same as in one process.

Each round every worker draws the pairs whose key falls into its range, plays them against the albums as they stand, and
sends back what was retrieved and said; this process lets the pictures arrive. Random numbers depend on seed, round and
position only, so neither the number of workers nor their order can be seen in the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazaretto.errors import InputError, MissingExtra
from lazaretto_lab.worlds.epidemic.agents import Population
from lazaretto_lab.worlds.epidemic.pairing import random_pairs
from lazaretto_lab.worlds.epidemic.scenario import Scenario, check_seed
from lazaretto_lab.worlds.epidemic.world import COUNTS, Chats, Epidemic, after_turn, before_turn, chat, settle


def play_part(scenario: Scenario, population: Population, seed: int, round_: int, part: int, parts: int) -> Chats:
    """One worker's share of a round. Changes nothing."""
    questioners, answerers, first = random_pairs(seed, round_, scenario.agents, part, parts)
    return chat(scenario, population, (seed,), round_, questioners[None], answerers[None], first)


def simulate_on_ray(scenario: Scenario, seed: int, workers: int) -> Epidemic:
    """Run one seed over ``workers`` Ray workers: a running cluster if there is one, else local processes."""
    if scenario.reference_pairing:
        raise InputError(
            "reference_pairing", "draws pairs one after the other and cannot be spread", "Leave out one of them"
        )
    if workers < 1:
        raise InputError("ray", f"{workers} is not a number of workers", "Use 1 or more")
    try:
        import ray
    except ImportError:
        raise MissingExtra("spreading over Ray", "ray") from None
    own = not ray.is_initialized()
    if own:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        return _run(ray, scenario, check_seed(seed), workers)
    finally:
        if own:
            ray.shutdown()


def _run(ray: Any, scenario: Scenario, seed: int, workers: int) -> Epidemic:
    play = ray.remote(play_part)
    population = Population.start(scenario)
    counts = {name: np.zeros((1, scenario.rounds), dtype=np.int64) for name in COUNTS}
    for round_ in range(scenario.rounds):
        now = {name: array[:, round_] for name, array in counts.items()}
        carried = before_turn(scenario, population, (seed,), round_, now)
        albums = ray.put(population)
        for chats in ray.get([play.remote(scenario, albums, seed, round_, part, workers) for part in range(workers)]):
            settle(population, chats, now)
        after_turn(scenario, population, (seed,), round_, carried, now)
    return Epidemic(scenario, (seed,), counts)
