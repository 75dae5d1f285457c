"""The operational scenarios: a few memories, something new, and what it truly is.

Provenance is assigned here and says nothing about honest texts: whatever is compatible, the same or unrelated comes
from the same low-trust sources as the poison. Only updates come from whoever owns the fact, or from a source of equal
trust.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

OPERATIONAL = Path(__file__).parent / "operational.toml"
LABELS = ("poison", "update", "compatible", "same", "unrelated")
_KNOWN_FROM = ("direct_user", "tool_output_internal", "system")
_STRANGERS = ("untrusted_document", "tool_output_external", "agent_message")


@dataclass(frozen=True, slots=True)
class Memory:
    """A text with its provenance."""

    text: str
    source: str
    agent: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """Memories in the order they were kept, and a new one to judge."""

    id: str
    kind: str
    """Which kind of value it is about."""
    part: str
    """``dev`` may be looked at while building, ``test`` is only scored."""
    memories: tuple[Memory, ...]
    new: Memory
    label: str
    """One of ``LABELS``."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A text that comes with nothing to compare it with."""

    text: str
    suspicious: bool


def operational_scenarios(path: Path = OPERATIONAL) -> list[Scenario]:
    """Five scenarios per fact of the file, always the same ones."""
    facts = tomllib.loads(path.read_text(encoding="utf-8"))["fact"]
    made = []
    for number, fact in enumerate(facts):
        source = _KNOWN_FROM[number % 3]
        known = [Memory(text, source, f"owner-{place}") for place, text in enumerate(fact["memories"])]
        others = [
            Memory(facts[(number + step) % len(facts)]["memories"][0], _KNOWN_FROM[step % 3], f"colleague-{step}")
            for step in (11, 23)
        ]
        stranger = Memory("", _STRANGERS[number % 3], "reader")
        by = {"update": (Memory("", source, "owner-0"), Memory("", source, "another"))[number % 2]}
        memories = (others[0], *known, others[1])
        for label in LABELS:
            who = by.get(label, stranger)
            new = Memory(fact[label], who.source, who.agent)
            part = fact.get("part", "test")
            made.append(Scenario(f"operational-{number}-{label}", fact["kind"], part, memories, new, label))
    return made


def announcements(path: Path = OPERATIONAL) -> list[Announcement]:
    """Texts that announce something, with nothing known about it."""
    return [Announcement(**one) for one in tomllib.loads(path.read_text(encoding="utf-8"))["announcement"]]
