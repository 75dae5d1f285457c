"""Teams that act on shared memories: six domains, sixty scenarios, and poison that changes what is done."""

from lazaretto_lab.worlds.shared_memory.log import Log, Outcomes, outcomes
from lazaretto_lab.worlds.shared_memory.scenario import DOMAINS, Scenario
from lazaretto_lab.worlds.shared_memory.world import Screen, Writes, simulate

__all__ = ["DOMAINS", "Log", "Outcomes", "Scenario", "Screen", "Writes", "outcomes", "simulate"]
