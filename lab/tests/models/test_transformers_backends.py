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
from lazaretto.models.embedding_cache import EmbeddingCache
from lazaretto.models.protocol import ChatModel, ImageTextEmbedder, Message, Request
from lazaretto.models.scripted import HashingEmbedder
from lazaretto_lab.models.transformers_clip import TransformersClip
from lazaretto_lab.models.transformers_vlm import TransformersVlm
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.world import AlbumChat

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIDE = 28
SMALL: dict[str, int] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
VISION = {**SMALL, "image_size": SIDE, "patch_size": 14}


def tokenizer(*special: str) -> Any:
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers import models as token_models

    made = Tokenizer(token_models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", "<pad>", "<s>", "</s>", *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["you are a friend who shows pictures of a red boat"] * 4, trainer)
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, additional_special_tokens=list(special), model_max_length=4096, **names
    )


def language(words: Any, **more: Any) -> dict[str, Any]:
    ids = {"pad_token_id": words.pad_token_id, "bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    return {
        **SMALL,
        "vocab_size": len(words),
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        **ids,
        **more,
    }


def llava(folder: Path) -> None:
    words = tokenizer("<image>")
    pictures = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    processor = transformers.LlavaProcessor(
        image_processor=pictures, tokenizer=words, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, projection_dim=32),
        text_config=transformers.LlamaConfig(**language(words)),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def qwen2_vl(folder: Path) -> None:
    marks = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|im_start|>", "<|im_end|>")
    words = tokenizer(*marks)
    start, end, image, video = (words.convert_tokens_to_ids(mark) for mark in marks[:4])
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = transformers.Qwen2VLConfig(
        text_config=language(words, rope_parameters=rope),
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 14},
        image_token_id=image, video_token_id=video, vision_start_token_id=start, vision_end_token_id=end,
    )  # fmt: skip
    transformers.Qwen2VLForConditionalGeneration(config).save_pretrained(folder)
    words.save_pretrained(folder)
    transformers.Qwen2VLImageProcessorPil(
        patch_size=14, merge_size=2, size={"shortest_edge": SIDE**2, "longest_edge": (2 * SIDE) ** 2}
    ).save_pretrained(folder)


def internvl(folder: Path) -> None:
    words = tokenizer("<img>", "</img>", "<IMG_CONTEXT>", "<|im_start|>", "<|im_end|>")
    config = transformers.InternVLConfig(
        vision_config=transformers.InternVLVisionConfig(**SMALL, image_size=[SIDE, SIDE], patch_size=[14, 14]),
        text_config=transformers.Qwen2Config(**language(words)),
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=1,
        downsample_ratio=0.5,
    )
    transformers.InternVLForConditionalGeneration(config).save_pretrained(folder)
    words.save_pretrained(folder)
    transformers.GotOcr2ImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


def instructblip(folder: Path) -> None:
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as token_models

    words = tokenizer("<image>")
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    reader = Tokenizer(token_models.WordPiece({w: i for i, w in enumerate(pieces)}, unk_token="[UNK]"))
    reader.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    reads = transformers.PreTrainedTokenizerFast(tokenizer_object=reader, unk_token="[UNK]", pad_token="[PAD]")
    pictures = transformers.BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    processor = transformers.InstructBlipProcessor(pictures, words, reads, num_query_tokens=4)
    config = transformers.InstructBlipConfig(
        vision_config=transformers.InstructBlipVisionConfig(**VISION, initializer_range=0.3),
        qformer_config=transformers.InstructBlipQFormerConfig(
            **SMALL, vocab_size=len(pieces), encoder_hidden_size=32, cross_attention_frequency=1, initializer_range=0.3
        ),
        text_config=transformers.LlamaConfig(**language(words)),
        initializer_range=0.3,  # three stages lie between pixels and words: with smaller weights nothing arrives
        num_query_tokens=4,
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )
    transformers.InstructBlipForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def clip(folder: Path) -> None:
    words = tokenizer()
    text = language(words, max_position_embeddings=77)
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    transformers.CLIPModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    ).save_pretrained(folder)


def siglip(folder: Path) -> None:
    words = tokenizer()
    text = language(words, max_position_embeddings=64)
    transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=VISION)).save_pretrained(folder)
    words.save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


BUILDERS: dict[str, Callable[[Path], None]] = {
    build.__name__: build for build in (llava, qwen2_vl, internvl, instructblip, clip, siglip)
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A folder with a tiny random network of the named architecture."""
    made: dict[str, str] = {}

    def folder(name: str) -> str:
        if name not in made:
            place = tmp_path_factory.mktemp(name)
            torch.manual_seed(7)
            BUILDERS[name](place)
            made[name] = str(place)
        return made[name]

    return folder


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
