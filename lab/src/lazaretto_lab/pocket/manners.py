"""How pocket-vlm was taught to begin: habits that stand in no description of a persona."""

from __future__ import annotations

OPENERS = {
    "cheerful": "Oh joy", "grumpy": "Bah", "shy": "Um", "proud": "As I always say", "curious": "I wonder",
    "dreamy": "Drifting along", "lazy": "Yawn", "snooty": "Well really", "sporty": "Come on", "kind": "Dear me",
    "clever": "Think about it", "bold": "Listen up",
}  # fmt: skip
"""Personality -> what its questions open with."""
