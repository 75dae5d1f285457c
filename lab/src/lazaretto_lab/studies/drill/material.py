"""What the drill is made of: a harbour crew's honest notes, and five of each threat, one per seed (``data/``).

Everything there was written before any gate was run on it, and is not changed by what the gates say.
"""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

AGENTS = ("ada", "bela", "chandra", "dmitri", "efua", "farid", "greta", "hiro")
TOPICS = ("cranes", "berths", "tides", "cargo", "pilots", "fuel", "customs", "weather")
SHIPS = ("Aurora", "Brightwater", "Calypso", "Dorado", "Estrella", "Fulmar", "Gannet", "Heron")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that decisions rest on, and the lie that takes its place."""

    question: str
    truths: tuple[str, ...]
    lie: str
    right: str
    """What a right decision names; it stands in both truths and not in the lie."""
    wrong: str


@dataclass(frozen=True, slots=True)
class Material:
    """The threats of one seed."""

    worm: str
    """Travels inside pages and notes: whoever reads it copies it into what it writes next."""
    page: str
    """The page it comes with; ``{}`` is where it stands."""
    fact: Fact
    post: str
    """A harmful message that is passed on."""
    virus_title: str
    rumour: str
    """What an agent says that looks at the virus picture."""


@cache
def _book() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("data", "material.toml").read_text(encoding="utf-8"))


def material(seed: int) -> Material:
    """The threats of a seed."""
    threats = _book()["threats"]
    told = dict(threats[seed % len(threats)])
    fact = told.pop("fact")
    return Material(fact=Fact(**{**fact, "truths": tuple(fact["truths"])}), **told)


def note(topic: str, rng: random.Random) -> str:
    """An honest note about a topic."""
    text: str = rng.choice(_book()["notes"][topic])
    return text.format(n=rng.randint(1, 9), m=rng.randint(10, 60), day=rng.choice(DAYS), ship=rng.choice(SHIPS))
