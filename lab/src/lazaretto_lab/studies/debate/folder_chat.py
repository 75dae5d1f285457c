"""A language model from a folder in every seat of a debate, as an endpoint would serve it to many debates at once."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from lazaretto.errors import InputError, MissingExtra
from lazaretto.models.protocol import Completion, Request

FOLDER = "LAZARETTO_CREWS_MODELS"
"""Names the folder that holds the folders of models."""
SLOTS = "LAZARETTO_SLOTS"
"""Answers that share a step of the model; default 80."""
_LONGEST = 12_000
"""Words of a prompt that are read; a longer one is refused."""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer with its size."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Backend(Protocol):
    """Answers prompts, many at once, in whatever order they are done."""

    def submit(self, messages: Sequence[tuple[str, str]], most: int) -> Future[Words]:
        """The answer to a chat (role and text of each turn), when it is there."""
        ...


class FolderModel:
    """A model of transformers from a folder, on the GPU where there is one; greedy."""

    def __init__(self, folder: Path, slots: int) -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            from lazaretto_lab.studies.debate.decoding import ATTENTION, Decoder
        except ImportError:
            raise MissingExtra("debates of local models", "models") from None
        self._torch: Any = torch
        device = os.environ.get("LAZARETTO_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
        kind = torch.float32 if device == "cpu" else torch.bfloat16
        self._tokens: Any = AutoTokenizer.from_pretrained(str(folder))
        found: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=kind, attn_implementation=ATTENTION)
        end = self._tokens.convert_tokens_to_ids("<|im_end|>")
        self._decoder = Decoder(found.to(device).eval(), {end, self._tokens.eos_token_id}, slots)
        self._waiting: queue.SimpleQueue[tuple[Any, Future[Words]]] = queue.SimpleQueue()
        self._asked: dict[int, tuple[Any, Future[Words]]] = {}
        self._count = 0
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, messages: Sequence[tuple[str, str]], most: int) -> Future[Words]:
        """As of ``Backend``."""
        from lazaretto_lab.studies.debate.decoding import Asked

        chat = [{"role": role, "content": text} for role, text in messages]
        prompt = self._tokens.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        ids = self._tokens(prompt, add_special_tokens=False)["input_ids"]
        answer: Future[Words] = Future()
        if len(ids) > _LONGEST:
            answer.set_exception(ValueError(f"the prompt has {len(ids)} words; at most {_LONGEST} are read"))
            return answer
        self._count += 1
        self._waiting.put((Asked(self._count, ids, most), answer))
        return answer

    def _work(self) -> None:
        """Takes in what waits, and steps, for ever."""
        while True:
            taken = self._take()
            try:
                self._decoder.admit(taken)
                done = self._decoder.run()
            except self._torch.OutOfMemoryError:
                self._start_again(taken)
                continue
            except Exception as error:  # whoever waits has to hear of it
                for _, answer in self._asked.values():
                    answer.set_exception(error)
                self._asked.clear()
                self._decoder.forget()
                continue
            for one in done:
                asked, answer = self._asked.pop(one.key)
                text = self._tokens.decode(one.made, skip_special_tokens=True).strip()
                answer.set_result(Words(text, len(asked.prompt), len(one.made)))

    def _take(self) -> list[Any]:
        """What waits and has a place; waits itself when nothing is under way."""
        taken: list[Any] = []
        while self._decoder.free > len(taken):
            try:
                one = self._waiting.get(block=not self._asked, timeout=None if not self._asked else 0)
            except queue.Empty:
                break
            self._asked[one[0].key] = one
            taken.append(one[0])
        return taken

    def _start_again(self, taken: Sequence[Any]) -> None:
        """After running out of memory: half of the places, and what was under way waits again."""
        under_way = {one.key: one for one in (*taken, *self._decoder.forget())}
        for key, one in under_way.items():
            one.made.clear()
            self._waiting.put((one, self._asked.pop(key)[1]))
        self._torch.cuda.empty_cache()
        self._decoder.slots = max(1, self._decoder.slots // 2)
        print(f"out of memory: {self._decoder.slots} places from now on", flush=True)


class FolderChat:
    """A backend as the product's chat model. Equal requests are asked once: a greedy model would say the same again,
    and the rows of an experiment share many."""

    def __init__(self, name: str, backend: Backend) -> None:
        self.name, self._backend = name, backend
        self._known: dict[tuple[tuple[tuple[str, str], ...], int], Future[Words]] = {}
        self.asked = 0
        """Requests that reached the model."""

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; the tokens of one that was asked before are counted again."""
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def _one(self, request: Request) -> Completion:
        if any(message.images for message in request.messages):
            return Completion("", fault="this model cannot see pictures")
        began = time.perf_counter()
        key = tuple((message.role, message.text) for message in request.messages), request.max_tokens
        if key not in self._known:
            self.asked += 1
            self._known[key] = self._backend.submit(*key)
        try:
            found = await asyncio.shield(asyncio.wrap_future(self._known[key]))
        except Exception as error:  # of the model: this request has no answer
            return Completion("", fault=f"{type(error).__name__}: {error}")
        ms = (time.perf_counter() - began) * 1000.0
        fault = "" if found.text else "empty answer"
        return Completion(found.text, found.prompt_tokens, found.completion_tokens, 0, ms, fault)


@lru_cache(maxsize=1)
def folder_chat(name: str) -> FolderChat:
    """``hf:FOLDER``: a path, or a name below ``LAZARETTO_CREWS_MODELS``."""
    rest = name.removeprefix("hf:")
    folder = Path(rest) if Path(rest).is_dir() else Path(os.environ.get(FOLDER, ".")) / rest
    if not name.startswith("hf:") or not (folder / "config.json").is_file():
        raise InputError("model", f"no model in {folder}", f"Use hf:FOLDER; {FOLDER} names the folder of folders")
    return FolderChat(folder.name, FolderModel(folder, int(os.environ.get(SLOTS, "80"))))
