"""What a shared-memory world is: a frozen scenario that owns every number and the seed.

Nothing here was chosen by looking at a detector: the attack's strength follows the published definitions (share of
poison, cosine of at least 0.90 for camouflage), and the agents' competence was fixed so that a team without an
attack acts well.
"""

from __future__ import annotations

from dataclasses import dataclass

from lazaretto.errors import InputError

DOMAINS = ("path_planning", "pursuit", "formation", "resource_contention", "rationing", "knowledge")
"""The first three are tasks of the multi-particle environments (mpe2), the others our own."""
MAX_AGENTS = 8
STATE, CONTEXT, ACTION = 12, 8, 4
"""Numbers in each field of a memory."""
KINDS = ("I", "II", "III")
AXES = ("C1", "C2", "C3")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run. The defaults are the main setting: about 213,600 memories, 12,000 of them poisoned."""

    seed: int = 0
    rounds: int = 560
    """Each agent decides, and writes one memory, per round."""
    per_domain: int = 10
    """Scenarios per domain; teams have 4 to 8 agents."""
    poison: int | None = 12_000
    """Poisoned memories in all; None takes ``ratio``."""
    ratio: float = 0.0
    """Poisoned share of all memories, when ``poison`` is None."""
    kinds: tuple[str, ...] = KINDS
    axes: tuple[str, ...] = AXES
    quiet_rounds: int = 40
    """Rounds before the first injection: an attacker needs something to imitate."""
    attack_rounds: int = 0
    """Rounds in which poison comes, from the first injection on; 0: to the end."""
    window: int = 200
    """Recent memories each agent keeps at hand."""
    shared: float = 0.5
    """Share of memories that the whole team can read."""
    retrieved: int = 3
    reliance: float = 0.75
    """Weight of what was retrieved in a decision; the rest is the agent's own judgement."""
    own_noise: float = 0.1
    """Spread of an agent's own judgement around the reference policy."""
    exploration: float = 0.005
    """Share of decisions in which an agent tries something else on purpose."""
    deviation: float = 0.5
    """An executed action further than this from the reference policy is misbehaviour."""
    node_failure: float = 0.0
    """Share of agents that fall silent half-way (a disturbance of table 1)."""

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.per_domain < 1:
            raise InputError("rounds", "and per_domain must be at least 1")
        if not 0 <= self.ratio < 0.5:
            raise InputError("ratio", f"is {self.ratio}", "Give a share below one half")
        if not self.kinds or set(self.kinds) - set(KINDS) or not self.axes or set(self.axes) - set(AXES):
            raise InputError("kinds", f"{self.kinds} / {self.axes}", f"Use {KINDS} and {AXES}")

    @property
    def attacked(self) -> tuple[int, int]:
        """The first round in which poison comes, and the first after it."""
        first = min(self.quiet_rounds, self.rounds - 1)
        return first, min(first + self.attack_rounds, self.rounds) if self.attack_rounds else self.rounds

    @property
    def teams(self) -> int:
        """How many scenarios run side by side."""
        return self.per_domain * len(DOMAINS)

    def team_sizes(self) -> list[int]:
        """Agents per team: 4 to 8, evenly."""
        return [4 + (i % 5) for i in range(self.teams)]

    @property
    def honest_memories(self) -> int:
        """Memories that the agents write themselves, if none falls silent."""
        return self.rounds * sum(self.team_sizes())

    @property
    def poison_count(self) -> int:
        """Poisoned memories in all."""
        if self.poison is not None:
            return self.poison
        return round(self.honest_memories * self.ratio / (1 - self.ratio))
