"""Poison for structured memories: instruction, camouflage and mutually supporting lies; injected, altered or agreed."""

from lazaretto_lab.attacks.memory.craft import (
    CAMOUFLAGE_COSINE,
    CraftedPoison,
    Memories,
    camouflage,
    collusion,
    instruction,
)
from lazaretto_lab.attacks.memory.schedule import Injection, schedule

__all__ = [
    "CAMOUFLAGE_COSINE",
    "CraftedPoison",
    "Injection",
    "Memories",
    "camouflage",
    "collusion",
    "instruction",
    "schedule",
]
