"""What a defence may do in the world: look at everything before and after a round, and change agents.

A defence is an object that somebody hands to the world; the world imports none. ``before_round`` comes when the pairs
of the round are known and nobody has spoken, which is when a foresight gate rehearses; ``after_round`` comes when all
turns are remembered, which is when an output analyst has something to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.turn import AgentState, Turn
from lazaretto_lab.worlds.streams import Pair


@dataclass(frozen=True, slots=True)
class View:
    """The world as a defence sees it at one moment."""

    round_index: int
    agents: tuple[AgentState, ...]
    pairs: tuple[Pair, ...]
    """Who meets whom in this round: (questioner, answerer) by place in ``agents``."""
    agent_model: AgentModel
    """Rehearsals think with this; what they spend is counted as the defence's."""
    seed: int
    """Draw from ``streams.stream(seed, "<name of the defence>", round_index)`` and nothing else."""


@dataclass(frozen=True, slots=True)
class Change:
    """A defence puts an agent into another state."""

    state: AgentState
    """The agent as it is from now on; ``state.id`` says which."""
    reason: str
    """A few words for the trace, for example ``rollback`` or ``cure``."""


@runtime_checkable
class Defence(Protocol):
    """One defence over a whole run. Its own memory must fit into ``snapshot``, so that a run can be resumed."""

    name: str
    """Says which defence it is and with what settings: it is part of the run's fingerprint."""

    async def before_round(self, view: View) -> Sequence[Change]:
        """Called when the pairs are drawn, before anybody plans."""
        ...

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Called when all turns of the round are remembered; ``view`` holds the agents as they are then."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Everything it must remember, as JSON data."""
        ...

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Become what ``snapshot`` says; ``album_items`` holds all contents of the run by key."""
        ...


class NoDefence:
    """The undefended world."""

    name = "none"

    async def before_round(self, view: View) -> Sequence[Change]:
        """Does nothing."""
        return ()

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Does nothing."""
        return ()

    def snapshot(self) -> Mapping[str, Any]:
        """Nothing to remember."""
        return {}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Nothing to restore."""
