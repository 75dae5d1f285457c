"""A model-free epidemic of pictures among agents: who carries, who shows, who recovers. Exact, and fast."""

from lazaretto_lab.worlds.epidemic.scenario import Cure, Defence, Scenario
from lazaretto_lab.worlds.epidemic.world import Epidemic, simulate

__all__ = ["Cure", "Defence", "Epidemic", "Scenario", "simulate"]
