"""The open world: new pictures enter in benign life; the narrow one is as it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.errors import InputError
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto_lab.studies.outbreak.runner import _changes
from lazaretto_lab.studies.outbreak.settings import read_settings
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.trace import ARRIVAL
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

POOL = tuple(picture_item(f"tree {i}".encode(), f"tree {i}") for i in range(40))


def world(arrivals: float, folder: Path | None = None, rounds: int = 6) -> AlbumChat:
    model = AgentModel(ScriptedChatModel(lambda _: "tree"), EmbeddingCache(HashingEmbedder(lambda data: data.decode())))
    scenario = Scenario(agents=10, rounds=rounds, album=4, infected=0, seed=3, arrivals=arrivals)
    return AlbumChat(scenario, model, POOL, folder=folder)


def albums(outcome: Outcome) -> list[tuple[str, ...]]:
    return [tuple(k.key for k in agent.album) for agent in outcome.agents]


def test_what_arrives_is_new_recorded_and_nobodys_removal(tmp_path: Path) -> None:
    narrow, open_ = asyncio.run(world(0.0).run()), asyncio.run(world(0.5).run())
    assert not any(trace.changes for trace in narrow.rounds)
    came = [change for trace in open_.rounds for change in trace.changes]
    assert {change.reason for change in came} == {ARRIVAL} and 10 < len(came) < 50
    assert _changes(open_, []) == {"virus_removed": 0, "benign_removed": 0, "added": 0}
    held = [Counter(key for album in albums(outcome) for key in album) for outcome in (narrow, open_)]
    assert len(held[1]) > len(held[0])
    # stopped after three rounds and gone on: the same
    folder = tmp_path / "run"
    half = world(0.5, folder)
    for _ in range(3):
        asyncio.run(half.step())
    assert albums(asyncio.run(world(0.5, folder).run())) == albums(open_)


def test_the_narrow_world_keeps_its_name_and_wrong_settings_are_said() -> None:
    assert world(0.0).fingerprint != world(0.5).fingerprint
    with pytest.raises(InputError, match="arrivals"):
        Scenario(arrivals=1.5)
    with pytest.raises(InputError, match="arrivals"):
        read_settings({"arrivals": 0.1, "defence": "guard"})
