"""Any vision-language model and any dual encoder of transformers as one differentiable function of pixels.

What the pocket models have in ``pocket.gradients``, for LLaVA, Qwen2-VL, InternVL and InstructBLIP with CLIP or SigLIP:
how far a sentence is from being said, and where a picture lies among the texts. Torch is imported at the top: import
this module from inside functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lazaretto.errors import InputError, ModelUnavailable
from lazaretto.models.protocol import Request
from lazaretto_lab.models.own_pictures import first_frame_rgb
from lazaretto_lab.models.picture_tensors import PictureTensors
from lazaretto_lab.models.transformers_clip import TransformersClip
from lazaretto_lab.models.transformers_vlm import TransformersVlm

SIDE = 336
"""Side of the pictures in the published attacks, and what LLaVA-1.5 looks at."""


@dataclass(frozen=True)
class PromptTensors:
    """Prompts as the model takes them, all but the picture."""

    inputs: Mapping[str, Tensor]
    """One row per prompt in each."""
    said: Tensor
    """(n, s): the sentence and the end token."""


class TransformersGradients:
    """Both models, frozen, with gradients for the pixels of a square picture."""

    def __init__(self, vlm: TransformersVlm, clip: TransformersClip, side: int = SIDE) -> None:
        if side < 1:
            raise InputError("side", f"is {side}", "Give the side of the picture in pixels, for LLaVA-1.5 336")
        self.vlm, self.clip, self.side = vlm, clip, side
        self.device = torch.device(vlm.device)
        self._seen, self._placed = PictureTensors(vlm.picture_processor), PictureTensors(clip.picture_processor)
        for model in (vlm.network, clip.network):
            model.requires_grad_(False)
        self._keeps = "logits_to_keep" in inspect.signature(vlm.network.forward).parameters

    def pixels(self, data: bytes) -> NDArray[np.uint8]:
        """An encoded picture as (side, side, 3); one of another shape is fitted in whole, on white."""
        from PIL import ImageOps

        picture = first_frame_rgb(data)
        if picture.size != (self.side, self.side):
            picture = ImageOps.pad(picture, (self.side, self.side), color="white")
        return np.asarray(picture, dtype=np.uint8)

    def coded(self, sentence: str) -> list[int]:
        """The sentence and the end as the model would write them."""
        tokenizer = self.vlm.tokenizer
        end = self.vlm.network.generation_config.eos_token_id
        last = end[0] if isinstance(end, list) else end
        ids: list[int] = tokenizer(sentence, add_special_tokens=False)["input_ids"]
        return [*ids, int(tokenizer.eos_token_id if last is None else last)]

    def situations(self, requests: Sequence[Request], sentence: str) -> PromptTensors:
        """Prompts with one picture each, ready to be continued."""
        made = self.vlm.prompts(requests, self.side)
        values = made.pop("pixel_values")
        expected = len(requests) * (1 if not self._seen.patched else len(values) // len(requests))
        if len(values) != expected:
            raise ModelUnavailable(f"{self.vlm.name} cuts one picture into tiles; turn that off in its processor")
        inputs = {name: value.to(self.device) for name, value in made.items()}
        said = torch.tensor([self.coded(sentence)] * len(requests), device=self.device)
        return PromptTensors(inputs, said)

    def features(self, pixels: Tensor) -> Tensor:
        """The pictures themselves: the two models share nothing that could be computed once."""
        return pixels

    def place(self, features: Tensor) -> Tensor:
        """Unit vectors among the texts."""
        network = self.clip.network
        found = network.get_image_features(pixel_values=self._placed(features).to(network.dtype))
        found = getattr(found, "pooler_output", found)
        return torch.nn.functional.normalize(found.float(), dim=-1).to(self.device)

    def scores(self, features: Tensor, situations: PromptTensors, rows: Tensor) -> Tensor:
        """(pictures, rows, said, vocabulary): logits at each place of the sentence, for every picture in every row."""
        pictures, count, network = len(features), len(rows), self.vlm.network
        said = situations.said[rows].clamp(min=0)
        inputs = {name: value[rows] for name, value in situations.inputs.items()}
        more = {"input_ids": said[:, :-1], "attention_mask": torch.ones_like(said[:, :-1])}
        if "mm_token_type_ids" in inputs:
            more["mm_token_type_ids"] = torch.zeros_like(said[:, :-1])
        inputs |= {name: torch.cat([inputs[name], tail.to(inputs[name])], dim=1) for name, tail in more.items()}
        inputs = {name: value.repeat(pictures, *[1] * (value.dim() - 1)) for name, value in inputs.items()}
        seen = self._seen(features).to(network.dtype).repeat_interleave(count, dim=0)
        kept = {"logits_to_keep": said.shape[1]} if self._keeps else {}
        answer = network(**inputs, pixel_values=seen.flatten(0, 1) if self._seen.patched else seen, **kept)
        logits: Tensor = answer.logits[:, -said.shape[1] :].float()
        return logits.view(pictures, count, said.shape[1], -1)
