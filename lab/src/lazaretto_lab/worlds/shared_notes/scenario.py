"""What a world of shared notes is: a frozen scenario that owns every number and the seed."""

from __future__ import annotations

from dataclasses import dataclass

from lazaretto.errors import InputError

KINDS = ("I", "II", "III")
"""An order that names the value; the value in the words of honest notes; lies that support each other."""
AXES = ("C1", "C2", "C3")
"""A page from outside; a note changed by one of the crew; messages of colluding strangers. C4 is ``tries`` above 1."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run."""

    seed: int = 0
    crews: int = 4
    facts: int = 4
    """Facts that each crew needs."""
    rounds: int = 20
    """In each round every crew does one job: four notes, each made from the newest it finds, and a decision."""
    quiet_rounds: int = 2
    """Before the first attack."""
    attacks: int = 12
    """Targets of the attacker; a type III attack writes three notes."""
    kinds: tuple[str, ...] = KINDS
    axes: tuple[str, ...] = AXES
    tries: int = 1
    """Versions that an adaptive attacker tries until one passes."""
    updates: float = 0.1
    """Chance per crew and round that somebody who may do so changes a fact."""
    documents: float = 0.3
    """Chance per crew and round of an honest page or tool output about a fact."""
    asides: float = 0.7
    """Chance per crew and round of a note that concerns no fact."""
    found_after: int = 2
    """Rounds after which a wrong decision is traced to the lie it rests on; 0: never."""

    def __post_init__(self) -> None:
        if min(self.crews, self.facts, self.rounds, self.tries) < 1:
            raise InputError("crews", "facts, rounds and tries must be at least 1")
        if set(self.kinds) - set(KINDS) or set(self.axes) - set(AXES) or not self.kinds or not self.axes:
            raise InputError("kinds", f"{self.kinds} / {self.axes}", f"Use {KINDS} and {AXES}")
        if self.attacks and self.quiet_rounds >= self.rounds:
            raise InputError("quiet_rounds", f"is {self.quiet_rounds}", "Leave rounds for the attack")
