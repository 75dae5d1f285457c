"""What a seat is. Five small protocols and the table they sit at.

A seat may be a language model (``chat_seats``), a trained local model (``jury``) or a scripted one (tests): the
debate does not know which. Every method is a coroutine, is given everything it may know, keeps no state between
hearings, and may be called for many hearings at once. A seat that cannot answer returns its record with ``fault``
set; an exception is caught by the engine and recorded the same way, so that one bad seat never stops a batch.

The embedded jury is made by ``lazaretto.gates.content.jury.embedded_table(library, precedents=3, without=(),
orders=None)``, where ``without`` names seats to leave empty (supporter, strict, loose) and ``library`` is None when
retrieval is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lazaretto.gates.content.records import Briefing, Exhibit, Finding, Hearing, Prepared, Turn


@runtime_checkable
class PreprocessorSeat(Protocol):
    """Turns the exhibit into words: description, words read off the picture, facts."""

    async def prepare(self, exhibit: Exhibit) -> Prepared:
        """The exhibit as every later seat will read it."""
        ...


@runtime_checkable
class SupporterSeat(Protocol):
    """Grounds the debate: summary, precedents from the case library, cues, differences, patterns."""

    async def brief(self, prepared: Prepared) -> Briefing:
        """What is known about content like this."""
        ...


@runtime_checkable
class DebaterSeat(Protocol):
    """Strict or Loose. Loose speaks after Strict in a round and sees what Strict just said."""

    async def argue(self, hearing: Hearing) -> Turn:
        """This debater's speech in ``hearing.round``."""
        ...


@runtime_checkable
class ArbiterSeat(Protocol):
    """Rules by the protocol, from the exhibit, the briefing, the turns and the score trajectories."""

    async def decide(self, hearing: Hearing) -> Finding:
        """The finding."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """Who sits where. A debater or supporter set to None is an ablation: the debate goes on without it."""

    name: str
    """Shown in reports: ``embedded``, or the model names."""
    preprocessor: PreprocessorSeat
    arbiter: ArbiterSeat
    supporter: SupporterSeat | None = None
    strict: DebaterSeat | None = None
    loose: DebaterSeat | None = None
