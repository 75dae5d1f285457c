"""pocket-vlm: a small vision-language model that plans, asks and answers in words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lazaretto.errors import InputError
from lazaretto.models.own_networks import torch_device
from lazaretto.models.protocol import Completion, Request
from lazaretto_lab.pocket.eyes import Eyes
from lazaretto_lab.pocket.tokenizer import WordTokenizer
from lazaretto_lab.pocket.weights import FOLDER, VLM_FILE, fingerprint, load_backbone, load_language, load_words

if TYPE_CHECKING:
    from lazaretto_lab.pocket.networks import Language
    from lazaretto_lab.pocket.prefill import Prompt

BATCH, GPU_BATCH = 64, 1024
"""Requests per forward pass: what a processor's memory bandwidth likes, and what fills an accelerator."""
SPEECH = 2
"""Counts up when prompts are read or sentences made in another way, so that kept answers are not taken for new ones."""
PICTURE_BEFORE = (
    "Your friend asks:",
    "Look at the picture and ask your friend one short question about it.",
    "Look at the picture and answer your friend in one short sentence.",
)
"""The picture's words stand before the first of these phrases; in any other prompt, at its end."""
SHARED_BEFORE = (
    "Your recent conversations:",
    "You have not talked to anyone yet.",
    "Your album holds:",
    "The note reads:",
    *PICTURE_BEFORE,
)
"""What stands before these, who an agent is and what was said last, begins several prompts."""


class PocketVlm:
    """A ``ChatModel``: greedy, batched, each distinct picture encoded once."""

    name = "pocket-vlm"

    def __init__(self, eyes: Eyes, language: Language, words: WordTokenizer, fingerprint: str = "") -> None:
        from lazaretto_lab.pocket.speech import Speaker

        self.eyes, self.language, self.words = eyes, language.to(eyes.device), words
        self._speaker = Speaker(self.language, words, SHARED_BEFORE)
        self.fingerprint = fingerprint
        """sha256 of the weights, where they came from a file."""
        self.answers = f"{fingerprint[:24]}-{SPEECH}-{eyes.device.partition(':')[0]}" if fingerprint else ""
        """Names everything but the request that decides an answer, so that answers may be shared under it."""

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; what is wrong with one request is that one's fault alone."""
        return await asyncio.to_thread(self.complete_now, requests)

    def complete_now(self, requests: Sequence[Request]) -> list[Completion]:
        """``complete`` for callers outside an event loop."""
        out: list[Completion | None] = [None] * len(requests)
        prompts: dict[int, Prompt] = {}
        for index, request in enumerate(requests):
            try:
                prompts[index] = self._prompt(request)
            except InputError as error:
                out[index] = Completion("", fault=str(error))
        # similar lengths together, so that little padding is computed
        order = sorted(prompts, key=lambda i: (len(prompts[i].tokens) + 49 * (prompts[i].patches is not None), i))
        batch = BATCH if self.eyes.device == "cpu" else GPU_BATCH
        for start in range(0, len(order), batch):
            chunk = order[start : start + batch]
            self._speak(chunk, prompts, requests, out)
        return [completion or Completion("", fault="no answer was made") for completion in out]

    def _speak(
        self,
        chunk: Sequence[int],
        prompts: dict[int, Prompt],
        requests: Sequence[Request],
        out: list[Completion | None],
    ) -> None:
        began = time.perf_counter()
        longest = max(requests[i].max_tokens for i in chunk)
        said = self._speaker.speak([prompts[i] for i in chunk], longest)
        each = (time.perf_counter() - began) * 1000 / len(chunk)
        for index, tokens in zip(chunk, said, strict=True):
            kept = tokens[: requests[index].max_tokens]
            out[index] = Completion(self.words.decode(kept), len(prompts[index].tokens), len(kept), ms=each)

    def _prompt(self, request: Request) -> Prompt:
        from lazaretto_lab.pocket.prefill import Prompt
        from lazaretto_lab.pocket.speech import picture_prompt

        images = [image for message in request.messages for image in message.images]
        if len(images) > 1:
            raise InputError("request", f"{len(images)} pictures", "pocket-vlm looks at one picture at a time")
        text = "\n".join(message.text for message in request.messages)
        tokens = picture_prompt(self.words, text, PICTURE_BEFORE, bool(images))
        room = self.language.size.limit - 49 * len(images) - 8
        if len(tokens) > room:
            raise InputError("request", f"{len(tokens)} tokens, the limit is {room}", "Shorten the prompt")
        return Prompt(tokens, self.eyes.patches(images)[0] if images else None)


def load_pocket_vlm(device: str = "cpu", eyes: Eyes | None = None, folder: Path = FOLDER) -> PocketVlm:
    """pocket-vlm with the shipped weights; ``eyes`` to share a backbone with pocket-clip."""
    eyes = eyes or Eyes(load_backbone(), torch_device(device))
    return PocketVlm(eyes, load_language(folder), load_words(folder), fingerprint(VLM_FILE, folder))
