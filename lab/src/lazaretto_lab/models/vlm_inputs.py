"""Words and pictures to tensors, for each family of vision-language model.

LLaVA and InstructBLIP come with processors that do all of it. Those of Qwen2-VL and InternVL insist on a video part,
and with it on torchvision, though no video is ever shown here: for those two the picture tokens are laid out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lazaretto.errors import ModelUnavailable
from lazaretto.models.protocol import Message
from lazaretto_lab.models.transformers_loading import load_part, transformers_module

PICTURE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for a picture in a prompt until the family's own tokens take its place."""


class Inputs(Protocol):
    """One family: how a chat becomes a prompt, and prompts with pictures become tensors."""

    tokenizer: Any
    picture_processor: Any
    """Turns pictures into tensors."""
    needs_picture: bool
    """Whether the model cannot run without a picture; a grey one is shown then."""

    def prompt(self, messages: Sequence[Message]) -> str:
        """The chat as one text, ``PICTURE`` where a picture stands, ready for the model to go on."""
        ...

    def tensors(self, prompts: Sequence[str], pictures: Sequence[Any]) -> dict[str, Any]:
        """Model inputs, padded on the left; pictures in the order in which the prompts name them."""
        ...


class LlavaInputs:
    """LLaVA-1.5 and its kin."""

    needs_picture = False

    def __init__(self, source: str, config: Any) -> None:
        self._processor, self.tokenizer, self.picture_processor = _processor(source)

    def prompt(self, messages: Sequence[Message]) -> str:
        """``USER: <image>\\n... ASSISTANT:``, as LLaVA-1.5 was tuned."""
        parts = [m.text if m.role == "system" else f"{_ROLES[m.role]}: {_with_pictures(m)}" for m in messages]
        return " ".join([*parts, "ASSISTANT:"])

    def tensors(self, prompts: Sequence[str], pictures: Sequence[Any]) -> dict[str, Any]:
        """By the model's own processor."""
        texts = [prompt.replace(PICTURE, self._processor.image_token) for prompt in prompts]
        shown = list(pictures) or None
        return dict(self._processor(text=texts, images=shown, padding=True, return_tensors="pt"))


class InstructBlipInputs:
    """InstructBLIP: one picture per prompt, always, and no chat markup."""

    needs_picture = True

    def __init__(self, source: str, config: Any) -> None:
        self._processor, self.tokenizer, self.picture_processor = _processor(source)

    def prompt(self, messages: Sequence[Message]) -> str:
        """The words alone; where the picture goes is not the prompt's business."""
        return "\n".join(_with_pictures(m) for m in messages)

    def tensors(self, prompts: Sequence[str], pictures: Sequence[Any]) -> dict[str, Any]:
        """By the model's own processor."""
        texts = [prompt.replace(f"{PICTURE}\n", "") for prompt in prompts]
        # the Q-Former reads the instruction too, through a window of 512 tokens; the language model gets all of it
        made = self._processor(text=texts, images=list(pictures), padding=True, return_tensors="pt")
        return {k: v[:, :512] if k.startswith("qformer") else v for k, v in made.items()}


class QwenInputs:
    """Qwen2-VL: as many picture tokens as the picture has merged patches."""

    needs_picture = False

    def __init__(self, source: str, config: Any) -> None:
        self.tokenizer, self.picture_processor = _tokenizer_and_pictures(source)
        self._token = self.tokenizer.convert_ids_to_tokens(config.image_token_id)
        self._image_id = config.image_token_id
        self._start = self.tokenizer.convert_ids_to_tokens(config.vision_start_token_id)
        self._end = self.tokenizer.convert_ids_to_tokens(config.vision_end_token_id)

    def prompt(self, messages: Sequence[Message]) -> str:
        """ChatML."""
        return _chatml(messages)

    def tensors(self, prompts: Sequence[str], pictures: Sequence[Any]) -> dict[str, Any]:
        """Patches of all pictures in one row, and the grid that says which belong to which."""
        seen: dict[str, Any] = dict(self.picture_processor(list(pictures), return_tensors="pt")) if pictures else {}
        counts = [int(g.prod()) // self.picture_processor.merge_size**2 for g in seen.get("image_grid_thw", ())]
        spans = [f"{self._start}{self._token * count}{self._end}" for count in counts]
        tokens = self.tokenizer(_filled(prompts, spans), padding=True, return_tensors="pt")
        kinds = (tokens["input_ids"] == self._image_id).int()
        return {**tokens, **seen, "mm_token_type_ids": kinds}


class InternInputs:
    """InternVL: a fixed number of picture tokens per tile, between start and end marks."""

    needs_picture = False

    def __init__(self, source: str, config: Any) -> None:
        self.tokenizer, self.picture_processor = _tokenizer_and_pictures(source)
        self._token = self.tokenizer.convert_ids_to_tokens(config.image_token_id)
        self._per_tile = int(config.image_seq_length)

    def prompt(self, messages: Sequence[Message]) -> str:
        """ChatML."""
        return _chatml(messages)

    def tensors(self, prompts: Sequence[str], pictures: Sequence[Any]) -> dict[str, Any]:
        """All tiles of all pictures in one stack."""
        seen: dict[str, Any] = {}
        tiles: list[int] = []
        if pictures:
            made = self.picture_processor(list(pictures), return_tensors="pt")
            seen["pixel_values"] = made["pixel_values"]
            tiles = [int(n) for n in made["num_patches"]]
        spans = [f"<img>{self._token * self._per_tile * count}</img>" for count in tiles]
        return {**self.tokenizer(_filled(prompts, spans), padding=True, return_tensors="pt"), **seen}


FAMILIES: dict[str, Callable[[str, Any], Inputs]] = {
    "llava": LlavaInputs,
    "instructblip": InstructBlipInputs,
    "qwen2_vl": QwenInputs,
    "internvl": InternInputs,
}
"""By the ``model_type`` of the configuration."""

_ROLES = {"user": "USER", "assistant": "ASSISTANT"}


def inputs_for(source: str, config: Any) -> Inputs:
    """The family a configuration belongs to."""
    family = FAMILIES.get(config.model_type)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise ModelUnavailable(f"{source} is a {config.model_type} model; this backend knows {known}")
    return family(source, config)


def _with_pictures(message: Message) -> str:
    return f"{PICTURE}\n" * len(message.images) + message.text.replace(PICTURE, "")


def _chatml(messages: Sequence[Message]) -> str:
    turns = "".join(f"<|im_start|>{m.role}\n{_with_pictures(m)}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"


def _filled(prompts: Sequence[str], spans: Sequence[str]) -> list[str]:
    """Each ``PICTURE`` replaced by the next picture's own tokens."""
    left = iter(spans)
    filled = []
    for prompt in prompts:
        first, *rest = prompt.split(PICTURE)
        filled.append(first + "".join(next(left) + text for text in rest))
    return filled


def _processor(source: str) -> tuple[Any, Any, Any]:
    """The model's own processor, with the tokenizer and the image processor in it."""
    processor = load_part("the processor", source, lambda: transformers_module().AutoProcessor.from_pretrained(source))
    processor.tokenizer.padding_side = "left"
    return processor, processor.tokenizer, processor.image_processor


def _tokenizer_and_pictures(source: str) -> tuple[Any, Any]:
    transformers = transformers_module()
    tokenizer = load_part("the tokenizer", source, lambda: transformers.AutoTokenizer.from_pretrained(source))
    tokenizer.padding_side = "left"
    pictures = load_part("the image processor", source, lambda: transformers.AutoImageProcessor.from_pretrained(source))
    return tokenizer, pictures
