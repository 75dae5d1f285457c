"""Vision-language models through transformers: LLaVA-1.5, InternVL, Qwen2-VL, InstructBLIP; from a path or the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.errors import InputError
from lazaretto.models.own_networks import torch_device
from lazaretto.models.protocol import Completion, Request
from lazaretto_lab.models.own_pictures import first_frame_rgb
from lazaretto_lab.models.transformers_loading import fingerprint, load_part, transformers_module
from lazaretto_lab.models.vlm_inputs import PICTURE, inputs_for

GREY = 127
"""Shown to a model that cannot run without a picture when a request has none."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One request, ready for the network."""

    place: int
    prompt: str
    pictures: tuple[Any, ...]
    request: Request

    @property
    def batch_key(self) -> tuple[bool, int, float]:
        """Requests that may share a batch: with or without pictures, same length limit, same temperature."""
        return bool(self.pictures), self.request.max_tokens, self.request.temperature


class TransformersVlm:
    """A vision-language model behind ``ChatModel``. Greedy at temperature 0; code from the hub is never run."""

    def __init__(self, source: str, device: str = "auto", batch: int = 8, dtype: str = "auto") -> None:
        transformers = transformers_module()
        self.device = torch_device(device)
        self.batch = batch
        self.name = f"transformers:{source}"
        # said outright: where nothing is said, a folder with code of its own asks on the terminal
        config = load_part(
            "the configuration",
            source,
            lambda: transformers.AutoConfig.from_pretrained(source, trust_remote_code=False),
        )
        self._inputs = inputs_for(source, config)
        wanted = "float32" if dtype == "auto" and self.device == "cpu" else dtype
        model = load_part(
            "the weights",
            source,
            lambda: transformers.AutoModelForImageTextToText.from_pretrained(source, dtype=wanted),
        )
        self._model: Any = model.eval().to(self.device)
        self.fingerprint = fingerprint(source, self._model)

    @property
    def network(self) -> Any:
        """The model itself, for who needs its gradients."""
        return self._model

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self._inputs.tokenizer

    @property
    def picture_processor(self) -> Any:
        """What turns a picture into tensors."""
        return self._inputs.picture_processor

    def prompts(self, requests: Sequence[Request], side: int) -> dict[str, Any]:
        """Requests with one picture each as the model takes them; a grey square stands for every picture."""
        from PIL import Image

        if any(sum(len(m.images) for m in request.messages) != 1 for request in requests):
            raise InputError("requests", "must show one picture each", "Give questions and answers about a picture")
        grey = Image.new("RGB", (side, side), (GREY, GREY, GREY))
        return self._inputs.tensors([self._inputs.prompt(r.messages) for r in requests], [grey] * len(requests))

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in batches of like requests; a request that cannot be served gets a fault."""
        return await asyncio.to_thread(self.complete_now, requests)

    def complete_now(self, requests: Sequence[Request]) -> list[Completion]:
        """The same without an event loop."""
        done: dict[int, Completion] = {}
        groups: dict[tuple[bool, int, float], list[_Job]] = {}
        for place, request in enumerate(requests):
            try:
                job = self._job(place, request)
            except InputError as error:
                done[place] = Completion("", fault=str(error))
            else:
                groups.setdefault(job.batch_key, []).append(job)
        for jobs in groups.values():
            for start in range(0, len(jobs), self.batch):
                part = jobs[start : start + self.batch]
                done.update(zip((job.place for job in part), self._attempt(part), strict=True))
        return [done[place] for place in range(len(requests))]

    def _job(self, place: int, request: Request) -> _Job:
        pictures = tuple(first_frame_rgb(data) for message in request.messages for data in message.images)
        prompt = self._inputs.prompt(request.messages)
        if self._inputs.needs_picture and len(pictures) != 1:
            if pictures:
                raise InputError("images", f"{len(pictures)} pictures", "This model looks at one picture at a time")
            from PIL import Image

            pictures = (Image.new("RGB", (224, 224), (GREY, GREY, GREY)),)
            prompt = f"{PICTURE}\n{prompt}"
        return _Job(place, prompt, pictures, request)

    def _attempt(self, jobs: Sequence[_Job]) -> list[Completion]:
        """A batch; when it fails (memory, usually), each alone, so that one bad request takes no other down."""
        try:
            return self._generate(jobs)
        except (RuntimeError, ValueError, IndexError) as error:
            if len(jobs) == 1:
                return [Completion("", fault=f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")]
            return [completion for job in jobs for completion in self._attempt([job])]

    def _generate(self, jobs: Sequence[_Job]) -> list[Completion]:
        import torch

        began = time.perf_counter()
        made = self._inputs.tensors([job.prompt for job in jobs], [p for job in jobs for p in job.pictures])
        inputs = {name: self._placed(value) for name, value in made.items()}
        asked = jobs[0].request
        sampling = (
            {"do_sample": True, "temperature": asked.temperature} if asked.temperature > 0 else {"do_sample": False}
        )
        tokenizer = self._inputs.tokenizer
        with torch.inference_mode():
            produced = self._model.generate(
                **inputs, max_new_tokens=asked.max_tokens, pad_token_id=tokenizer.pad_token_id, **sampling
            )
        prompt_length = inputs["input_ids"].shape[1]
        new = produced[:, prompt_length:]
        ms = (time.perf_counter() - began) * 1000 / len(jobs)
        read = inputs["attention_mask"].sum(dim=1).tolist()
        wrote = (new != tokenizer.pad_token_id).sum(dim=1).tolist()
        texts = tokenizer.batch_decode(new, skip_special_tokens=True)
        return [
            Completion(text.strip(), prompt_tokens=int(r), completion_tokens=int(w), ms=ms)
            for text, r, w in zip(texts, read, wrote, strict=True)
        ]

    def _placed(self, value: Any) -> Any:
        """On the model's device, and pixels in the model's number format."""
        moved = value.to(self.device)
        return moved.to(self._model.dtype) if moved.is_floating_point() else moved
