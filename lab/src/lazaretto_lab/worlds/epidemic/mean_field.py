"""The mean-field equation, its limits, and what it leaves out: albums and chance.

The paper's equation c' = (1 - gamma) c + beta c (1 - c) / 2 knows neither. Albums forget: a copy leaves after B
receptions, so even with gamma = 0 a virus dies out when it is too rarely asked for (``reproduction_number``), and a
small outbreak may die by chance although it could grow (``extinction_chance``). ``album_mean_field`` adds albums and
keeps the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.worlds.epidemic.scenario import Scenario

Curve = NDArray[np.float64]


def mean_field(share: float, beta: float, gamma: float, rounds: int) -> Curve:
    """Share of carriers after each round by the paper's equation, from an initial share."""
    curve = np.empty(rounds)
    for index in range(rounds):
        share = (1 - gamma) * share + beta * share * (1 - share) / 2
        curve[index] = share
    return curve


def endemic_share(beta: float, gamma: float) -> float:
    """Where the equation settles: 1 - 2 gamma / beta, or 0 when beta <= 2 gamma.

    Proposition 4.1 says that for beta > 2 gamma the share rises monotonically. It does so only from below this value;
    from above it falls to it.
    """
    return max(0.0, 1 - 2 * gamma / beta) if beta > 0 else 0.0


def album_mean_field(scenario: Scenario) -> Curve:
    """Share of carriers after each round when albums forget.

    A carrier is described by the age of its newest copy, in receptions: 0 is just received, at B it is gone. Each
    round an agent answers with chance one half and is then sent the virus with chance beta times the share of
    carriers among the others.
    """
    agents, stays = scenario.agents, 1 - scenario.gamma
    answering = scenario.pairs / agents
    ages = np.zeros(scenario.album)
    ages[0] = scenario.infected / agents
    curve = np.empty(scenario.rounds)
    for index in range(scenario.rounds):
        carriers = float(ages.sum())
        asked = answering * scenario.beta * agents / (agents - 1)
        renewed, infected = asked * max(0.0, carriers - 1 / agents), asked * carriers  # nobody is asked by itself
        after = ages * (1 - answering) * stays
        after[1:] += ages[:-1] * (answering - renewed) * stays
        after[0] += carriers * renewed * stays + (1 - carriers) * infected
        ages = after
        curve[index] = ages.sum()
    return curve


def reproduction_number(beta: float, gamma: float, album: int) -> float:
    """Copies that one copy leaves behind in an otherwise clean crowd: the virus can grow only above 1.

    A carrier asks or answers with equal chance each round, and forgets at its B-th reception. Without recovery it
    asks B times on average, so the number is beta B; with endless albums it is beta / (2 gamma), the paper's threshold.
    """
    if gamma == 0.0:
        return beta * album
    ages_first = (1 - gamma) / (1 + gamma)  # chance that a reception comes before the recovery
    return beta / (2 * gamma) * (1 - ages_first**album)


def extinction_chance(beta: float, gamma: float, album: int, infected: int = 1) -> float:
    """Chance that an outbreak in a large crowd dies before it takes off: the smallest root of the branching process."""
    chance = 0.0
    for _ in range(100_000):
        again = _offspring(chance, beta, gamma, album)
        if abs(again - chance) < 1e-14:
            break
        chance = again
    return float(chance**infected)


def _offspring(z: float, beta: float, gamma: float, album: int) -> float:
    """E[z^copies] of one copy, reception by reception: either it ages, or it is asked for, and then it may recover."""
    value = 1.0  # a copy that has been pushed out leaves nothing more
    asked = 1 - beta + beta * z
    for _ in range(album):
        # f(now) = 1/2 asked [(1-g) f(now) + g] + 1/2 [(1-g) f(next) + g]; a copy passed on earlier is a life of its own
        value = (asked * gamma + (1 - gamma) * value + gamma) / (2 - asked * (1 - gamma))
    return value
