"""The roles of a debate: five small protocols, and the panel that holds one of each.

A role may be a language model (``chat_roles``), a trained local model (``jury``) or a script (tests). It keeps no state
between debates and may serve many at once. A role that cannot answer returns its record with ``fault`` set; exceptions
are recorded the same way, so that one bad role never stops a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lazaretto.gates.content.records import ArbiterFinding, Briefing, Content, DebateState, PreparedContent, Speech


@runtime_checkable
class Preprocessor(Protocol):
    """Turns the content into words: description, words read off the picture, facts."""

    async def prepare(self, content: Content) -> PreparedContent:
        """The content as every later role will read it."""
        ...


@runtime_checkable
class Supporter(Protocol):
    """Grounds the debate: summary, precedents from the case library, cues, differences, patterns."""

    async def brief(self, prepared: PreparedContent) -> Briefing:
        """The briefing: precedents of similar content."""
        ...


@runtime_checkable
class Debater(Protocol):
    """Strict or Loose. Loose speaks after Strict in a round and sees Strict's latest speech."""

    async def argue(self, debate: DebateState) -> Speech:
        """This debater's speech in ``debate.round``."""
        ...


@runtime_checkable
class Arbiter(Protocol):
    """Rules by the protocol, from the content, the briefing, the speeches and the score trajectories."""

    async def decide(self, debate: DebateState) -> ArbiterFinding:
        """The finding."""
        ...


@runtime_checkable
class Glance(Protocol):
    """A look before any debate that may settle clearly harmless content."""

    async def settle(self, prepared: PreparedContent) -> ArbiterFinding | None:
        """The finding, or None when a debate has to be held."""
        ...


@dataclass(frozen=True, slots=True)
class Panel:
    """The roles and their holders. A debater or supporter set to None is an ablation: the debate goes on without it."""

    name: str
    """Shown in reports: ``embedded``, or the model names."""
    preprocessor: Preprocessor
    arbiter: Arbiter
    supporter: Supporter | None = None
    strict: Debater | None = None
    loose: Debater | None = None
    glance: Glance | None = None
    """None: a debate is held about everything."""
