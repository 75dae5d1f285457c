"""Two blunt baselines of purification: throw everything away, or the newer half."""

from __future__ import annotations

from dataclasses import replace

from lazaretto.agents.turn import AgentState


def remove_all(agent: AgentState) -> AgentState:
    """Naive rollback: nothing infected is left, and nothing else."""
    return replace(agent, album=agent.album.rolled_back(len(agent.album)), history=agent.history.cleared())


def remove_newer_half(agent: AgentState) -> AgentState:
    """Tail rollback: the newer half of the album goes, the larger one of an odd album."""
    half = (len(agent.album) + 1) // 2
    return replace(agent, album=agent.album.rolled_back(half), history=agent.history.cleared())
