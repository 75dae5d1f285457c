"""Tiny random networks of the architectures that the hub ships, saved as ``from_pretrained`` reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import transformers
else:
    try:
        import transformers
    except ImportError:
        transformers = None

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
    """A folder with a tiny random network of the named architecture; the same weights every time."""
    torch = pytest.importorskip("torch")
    made: dict[str, str] = {}

    def folder(name: str) -> str:
        if name not in made:
            place = tmp_path_factory.mktemp(name)
            torch.manual_seed(7)
            BUILDERS[name](place)
            made[name] = str(place)
        return made[name]

    return folder
