"""The blunt baselines take what they say and nothing else."""

from __future__ import annotations

from lazaretto.agents.album import Album, note_item
from lazaretto.agents.prompts import persona_pool
from lazaretto.agents.turn import AgentState, History
from lazaretto_lab.studies.foresight.rollbacks import remove_all, remove_newer_half


def agent(notes: int) -> AgentState:
    album = Album(10, tuple(note_item(f"note {number}") for number in range(notes)))
    return AgentState("ada", persona_pool(1, seed=0)[0], album, History(3))


def test_everything_goes_or_the_newer_half_does() -> None:
    assert len(remove_all(agent(10)).album) == 0 and len(remove_newer_half(agent(10)).album) == 5
    assert [item.note for item in remove_newer_half(agent(3)).album] == ["note 0"]
