"""What an epidemic is: a frozen scenario that owns every number and the seed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from lazaretto.errors import InputError

LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Defence:
    """A defence reduced to its transition rates. It acts on every agent, before each round's turn."""

    detection: float = 0.0
    """Chance that an agent carrying the virus is flagged, per round."""
    purification: float = 1.0
    """Chance that each virus copy in a flagged agent's album is removed."""
    false_alarm: float = 0.0
    """Chance that an agent without the virus is flagged, per round."""
    collateral: float = 0.0
    """Chance that each harmless picture in a flagged agent's album is removed as well."""

    @property
    def active(self) -> bool:
        """Whether it ever does anything."""
        return self.detection > 0 or self.false_alarm > 0


@dataclass(frozen=True, slots=True)
class Cure:
    """A cure that spreads as the virus does (Cowpox): retrieved before the virus by whoever carries both."""

    defenders: int = 0
    """Agents (the last of the list) that examine the chats they take part in and make a cure when they find a
    symptom."""
    detection: float = 0.847
    """Chance that a defender recognises a symptomatic chat; one yes/no question in the published system."""
    beta: float = 1.0
    """Chance that a questioner who carries the cure retrieves it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One epidemic: N agents with FIFO albums, paired at random each round."""

    agents: int = 128
    infected: int = 4
    """The first so many agents start with the virus as the newest picture of their album."""
    rounds: int = 65
    album: int = 10
    """Pictures an album holds; the oldest is dropped when one more arrives."""
    alpha: float = 1.0
    """Chance that a speaker shows the symptom, given that the virus was retrieved; drawn for each of the two."""
    beta: float = 1.0
    """Chance that a questioner who carries the virus retrieves it."""
    gamma: float = 0.0
    """Chance per round that an agent which carried the virus loses all copies, whatever it received meanwhile."""
    immune: int = 0
    """Agents (before the defenders, at the end of the list) that refuse the virus and show no symptom."""
    defence: Defence = Defence()
    cure: Cure = Cure()
    reference_pairing: bool = False
    """Draw the pairs as the reference program does, from Python's ``random`` seeded once."""

    def __post_init__(self) -> None:
        _at_least("agents", self.agents, 2)
        _at_least("rounds", self.rounds, 1)
        _at_least("album", self.album, 1)
        _at_least("infected", self.infected, 0)
        _at_least("immune", self.immune, 0)
        _at_least("defenders", self.cure.defenders, 0)
        special = self.infected + self.immune + self.cure.defenders
        if special > self.agents:
            raise InputError(
                "infected", f"{special} infected, immune and defending agents, but only {self.agents} agents in all"
            )
        for name in ("alpha", "beta", "gamma"):
            _share(name, getattr(self, name))
        for owner, record in (("defence", self.defence), ("cure", self.cure)):
            for field in dataclasses.fields(record):
                if field.name != "defenders":
                    _share(f"{owner} {field.name}", getattr(record, field.name))

    @property
    def pairs(self) -> int:
        """Chats per round; with an odd number of agents one sits out."""
        return self.agents // 2


def check_seed(seed: int) -> int:
    """The seed, if it is one."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError("seed", f"{seed} is not a seed", "Use a whole number from 0 to 2^64 - 1")
    return seed


def _at_least(field: str, value: int, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InputError(field, f"{value!r} will not do", f"Use a whole number of {low} or more")


def _share(field: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InputError(field, f"{value!r} is not a chance", "Use a number from 0 to 1")
