"""Requests and statements made from the patterns of ``twins.toml``: what sounds harmful and is not, and the reverse."""

from __future__ import annotations

import random
import re
import tomllib
from importlib import resources
from typing import Any

from lazaretto.cases.records import InputKind
from lazaretto.gates.content.jury.views import clean
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS, Example

_SLOT = re.compile(r"\{(\w+)\}")
_PER_LINE = 9
"""How often one pattern is filled: more would teach the pattern instead of the difference."""


def load_twins(seed: int = 13) -> list[Example]:
    """Every pattern filled a few times, with the hazard or the benign context it was written for."""
    file = resources.files("lazaretto_lab.training.jury").joinpath("twins.toml")
    stored = tomllib.loads(file.read_text(encoding="utf-8"))
    rng = random.Random(seed)
    found: dict[tuple[str, str], Example] = {}
    for pattern in stored["pattern"]:
        for line in pattern["lines"]:
            for _ in range(_PER_LINE if _SLOT.search(line) or "pictures" in pattern else 1):
                text = clean(_filled(line, stored["slots"], rng))
                picture = clean(_filled(rng.choice(pattern.get("pictures", [""])), stored["slots"], rng))
                found.setdefault((text, picture), _example(text, picture, pattern, len(found)))
    return list(found.values())


def _filled(line: str, slots: dict[str, list[str]], rng: random.Random) -> str:
    words = _SLOT.sub(lambda slot: rng.choice(slots[slot.group(1)]), line)
    return words[:1].upper() + words[1:]


def _example(text: str, picture: str, pattern: dict[str, Any], number: int) -> Example:
    unsafe = pattern["label"] == "unsafe"
    hazard = HAZARDS.index(pattern["hazard"]) if unsafe else -1
    contexts = tuple(float(not unsafe and name == pattern["context"]) for name in CONTEXTS)
    kind = InputKind.PAIR if picture else InputKind.TEXT
    return Example(kind, text, picture, float(unsafe), "twins", f"twins-{number}", hazard=hazard, contexts=contexts)
