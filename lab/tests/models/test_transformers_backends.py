"""Tiny random networks of each architecture, made here, run through the real loading, batching and world code."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.errors import InputError, ModelUnavailable
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, ImageTextEmbedder, Message, Request
from lazaretto.models.scripted import HashingEmbedder
from lazaretto_lab.models.transformers_clip import TransformersClip
from lazaretto_lab.models.transformers_vlm import TransformersVlm
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.world import AlbumChat

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def picture(shade: int) -> bytes:
    """A small picture that differs for each shade."""
    pixels = np.random.default_rng(shade).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def ask(text: str, *images: bytes, tokens: int = 6) -> Request:
    return Request((Message("user", text, images),), max_tokens=tokens)


def complete(model: ChatModel, *requests: Request) -> list[Any]:
    return asyncio.run(model.complete(requests))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "internvl", "instructblip"])
def test_a_tiny_network_answers_sees_the_picture_and_runs_two_rounds(name: str, tiny: Callable[[str], str]) -> None:
    model = TransformersVlm(tiny(name), device="cpu", batch=3)
    one, other = picture(1), picture(2)
    alone = complete(model, ask("what is it", one))[0]
    assert not alone.fault
    assert 0 < alone.completion_tokens <= 6
    # left padding and batching must not change an answer; a text-only request may stand among picture requests
    mixed = complete(model, ask("a much longer question about what it is", other), ask("what is it", one), ask("plan"))
    assert [c.fault for c in mixed] == ["", "", ""]
    assert mixed[1].text == alone.text
    assert mixed[1].prompt_tokens == alone.prompt_tokens
    longer = complete(model, ask("what is it", one, tokens=12), ask("what is it", other, tokens=12))
    assert longer[0].text.startswith(alone.text)

    pool = [picture_item(picture(shade), f"picture {shade}") for shade in range(8)]
    agent_model = AgentModel(model, EmbeddingCache(HashingEmbedder()), max_tokens=5)
    world = AlbumChat(Scenario(agents=5, rounds=2, album=3, infected=0), agent_model, pool)
    outcome = asyncio.run(world.run())
    turns = [turn for trace in outcome.rounds for turn in trace.turns]
    assert len(turns) == 4  # five agents: two pairs a round, one sits out
    assert all(not turn.fault and turn.key for turn in turns)
    assert agent_model.spent.calls == 12 and agent_model.spent.faults == 0


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "internvl", "instructblip"])
def test_the_network_looks_at_the_pixels(name: str, tiny: Callable[[str], str]) -> None:
    """Two pictures must give different first-token scores, else the picture never reached the network."""
    model = TransformersVlm(tiny(name), device="cpu")
    scores = []
    for shade in (1, 2):
        job = model._job(0, ask("what is it", picture(shade)))
        with torch.inference_mode():
            scores.append(model._model(**model._inputs.tensors([job.prompt], job.pictures)).logits[0, -1])
    assert not torch.allclose(scores[0], scores[1], atol=1e-6)


def test_a_corrupt_picture_is_the_fault_of_its_own_request_alone(tiny: Callable[[str], str]) -> None:
    model = TransformersVlm(tiny("llava"), device="cpu")
    good, bad = complete(model, ask("what is it", picture(1)), ask("what is it", b"\x89PNG not a picture"))
    assert not good.fault
    assert "not a picture" in bad.fault and bad.text == ""


def test_a_model_of_one_picture_refuses_two(tiny: Callable[[str], str]) -> None:
    done = complete(TransformersVlm(tiny("instructblip"), device="cpu"), ask("compare", picture(1), picture(2)))
    assert "2 pictures" in done[0].fault


def test_a_batch_that_fails_is_tried_one_by_one(tiny: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = TransformersVlm(tiny("llava"), device="cpu")
    real = model._generate

    def small_memory(jobs: Any) -> Any:
        if len(jobs) > 1 or "greedy" in jobs[0].prompt:
            raise RuntimeError("CUDA out of memory")
        return real(jobs)

    monkeypatch.setattr(model, "_generate", small_memory)
    first, second = complete(model, ask("what is it", picture(1)), ask("greedy", picture(2)))
    assert not first.fault and second.fault == "RuntimeError: CUDA out of memory"


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_tiny_dual_encoders_give_unit_vectors_of_one_space(name: str, tiny: Callable[[str], str]) -> None:
    model = TransformersClip(tiny(name), device="cpu", batch=2)
    assert isinstance(model, ImageTextEmbedder)
    texts = model.embed_texts(["a red boat", "a dog", "a very long plan " * 60])
    images = model.embed_images([picture(shade) for shade in range(3)])
    assert texts.shape == images.shape == (3, model.dimension)
    np.testing.assert_allclose(np.linalg.norm(np.vstack([texts, images]), axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(model.embed_texts(["a dog"])[0], texts[1], atol=1e-5)
    assert not np.allclose(images[0], images[1], atol=1e-4)


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_a_world_retrieves_with_a_tiny_dual_encoder(name: str, tiny: Callable[[str], str]) -> None:
    pool = [picture_item(picture(shade), f"picture {shade}") for shade in range(8)]
    cache = EmbeddingCache(TransformersClip(tiny(name), device="cpu"))
    agent_model = AgentModel(TransformersVlm(tiny("llava"), device="cpu"), cache, max_tokens=4)
    outcome = asyncio.run(AlbumChat(Scenario(agents=4, rounds=2, album=4, infected=0), agent_model, pool).run())
    assert all(turn.key for trace in outcome.rounds for turn in trace.turns)
    assert cache.images_encoded <= len(pool)


def test_missing_weights_and_wrong_kinds_are_said_plainly(tmp_path: Path, tiny: Callable[[str], str]) -> None:
    with pytest.raises(ModelUnavailable, match="no folder"):
        TransformersVlm(str(tmp_path / "nowhere"), device="cpu")
    with pytest.raises(ModelUnavailable, match="cannot load the configuration"):
        TransformersVlm(str(tmp_path), device="cpu")
    with pytest.raises(ModelUnavailable, match="this backend knows"):
        TransformersVlm(tiny("clip"), device="cpu")
    with pytest.raises(ModelUnavailable, match="this backend knows"):
        TransformersClip(tiny("llava"), device="cpu")
    half = tmp_path / "half"
    half.mkdir()
    for file in Path(tiny("clip")).iterdir():
        if file.suffix != ".safetensors":
            (half / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelUnavailable, match="cannot load the weights"):
        TransformersClip(str(half), device="cpu")
    with pytest.raises(InputError, match="not a picture"):
        TransformersClip(tiny("clip"), device="cpu").embed_images([b"nothing"])


def test_a_gpu_that_is_not_there_is_said_plainly(tiny: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelUnavailable, match="no usable GPU"):
        TransformersVlm(tiny("llava"), device="cuda")
    with pytest.raises(ModelUnavailable, match="not a device"):
        TransformersClip(tiny("clip"), device="quantum")
