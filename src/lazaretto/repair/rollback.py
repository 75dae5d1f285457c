"""Rollback: take back the newest. The published remedy for a recent infection, and two blunt baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from lazaretto.agents.turn import AgentState
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import RepairPlan, RepairStep


def roll_back(agent: AgentState, entries: int = 1) -> AgentState:
    """The agent without its newest memories and chat records."""
    return replace(agent, album=agent.album.rolled_back(entries), history=agent.history.rolled_back(entries))


def remove_all(agent: AgentState) -> AgentState:
    """Naive rollback: nothing infected is left, and nothing else."""
    return replace(agent, album=agent.album.rolled_back(len(agent.album)), history=agent.history.cleared())


def remove_newer_half(agent: AgentState) -> AgentState:
    """Tail rollback: the newer half of the album goes, the larger one of an odd album."""
    half = (len(agent.album) + 1) // 2
    return replace(agent, album=agent.album.rolled_back(half), history=agent.history.cleared())


@dataclass(frozen=True, slots=True)
class Rollback:
    """Removes the newest memories of whoever wrote the item."""

    name: ClassVar[str] = "rollback"
    entries: Annotated[int, Field(ge=1)] = 1
    """How many."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per entry, newest first."""
        agent = view.ledger.item(request.item).agent
        held = sorted(view.ledger.items(agent=agent, limit=None), key=lambda o: (o.time, o.id), reverse=True)
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(one.id, "remove") for one in held[: self.entries]),
            reason=request.reason,
            agents=(agent,),
        )
