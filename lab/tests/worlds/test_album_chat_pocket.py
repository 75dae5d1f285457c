"""The world on the pocket models: real words about real pictures, resumed without a trace, in pictures and in notes."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import pytest

from lazaretto.agents.model import AgentModel
from lazaretto.errors import ModelUnavailable
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto_lab.pocket import PocketClip, PocketVlm, load_pocket_models
from lazaretto_lab.worlds.album_chat.pools import scene_notes, scene_pictures
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

pytest.importorskip("torch")
SMALL = Scenario(agents=6, rounds=2, album=5, infected=0, seed=4)


@cache
def models() -> tuple[PocketVlm, PocketClip]:
    return load_pocket_models()


def world(folder: Path | None = None) -> AlbumChat:
    vlm, clip = models()
    agent_model = AgentModel(CachedChat(vlm, folder), EmbeddingCache(clip, folder))
    return AlbumChat(SMALL, agent_model, scene_pictures(24, 5), folder=folder)


def turns(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(t.plan, t.question, t.answer) for trace in outcome.rounds for t in trace.turns]


@pytest.mark.slow
def test_agents_speak_of_what_they_see_and_a_resumed_run_says_the_same(tmp_path: Path) -> None:
    whole = asyncio.run(world().run())
    titles = {k.key: k.title for k in scene_pictures(24, 5)}
    spoken = [t for trace in whole.rounds for t in trace.turns]
    assert len(spoken) == 6 and not any(t.fault for t in spoken)
    about = [bool(set(titles[t.key].split()[1:3]) & set(t.question.replace(",", "").split())) for t in spoken]
    assert sum(about) >= 4  # colour or noun of the picture is in the question
    assert len({t.plan for t in spoken}) >= 4
    assert whole.pictures_encoded <= 24

    first = world(tmp_path)
    asyncio.run(first.step())
    resumed = asyncio.run(world(tmp_path).run())
    assert turns(resumed) == turns(whole) and resumed.agents == whole.agents


@pytest.mark.slow
def test_agents_talk_about_notes(tmp_path: Path) -> None:
    agent_model = AgentModel(models()[0], EmbeddingCache(models()[1].texts))
    outcome = asyncio.run(AlbumChat(SMALL, agent_model, scene_notes(24, 5)).run())
    notes = {k.key: k.note for k in scene_notes(24, 5)}
    spoken = [t for trace in outcome.rounds for t in trace.turns]
    about = [
        bool(set(notes[t.key].rstrip(".").split()[3:5]) & set(t.question.replace(",", "").split())) for t in spoken
    ]
    assert sum(about) >= 4
    assert outcome.pictures_encoded == 0


def test_missing_weights_are_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="weights are not there"):
        load_pocket_models(folder=tmp_path)
