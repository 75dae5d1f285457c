"""The language models that play the agents, and how many cases share one.

Every case runs in a thread of its own and waits for its answers. ``Batcher`` collects the questions of all cases; when
every case that still runs is waiting, the model answers them as one batch. So batches do not depend on timing, and a
run can be repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from lazaretto.errors import InputError, MissingExtra
from lazaretto_lab.studies.crews.protocol import Chat

FOLDER = "LAZARETTO_CREWS_MODELS"
"""Names the folder that holds the folders of models."""
MOST_TOKENS = 72
"""Of one answer."""
BATCH = 128
"""Prompts that a local model reads at once."""
BATCH_LETTERS = 250_000
"""Letters of these prompts, each as long as the longest."""
AT_WORK = 8
"""Cases that are at work at a time; the others wait for their turn or for an answer."""
WAIT_S = 1800.0
"""Longest time that a case waits for an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and what it took."""

    text: str
    tokens_in: int
    tokens_out: int


class Model(Protocol):
    """Answers many prompts at once."""

    def answer(self, prompts: Sequence[Chat]) -> list[Answer]:
        """One answer per prompt, in order."""
        ...


class Batcher:
    """One model before many cases."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._at_work = threading.Semaphore(AT_WORK)
        self._state = threading.Condition()
        self._asked: dict[str, Chat] = {}
        self._answers: dict[str, Answer | Exception] = {}
        self._running = 0
        self.seconds = 0.0
        """Time that the model took."""
        self.batches = 0

    def run(self, cases: dict[str, Callable[[], None]]) -> None:
        """Every case to its end, each in a thread; a case names itself when it asks."""
        self._running = len(cases)
        threads = [threading.Thread(target=self._case, args=(work,), daemon=True) for work in cases.values()]
        for one in threads:
            one.start()
        while True:
            with self._state:
                self._state.wait_for(lambda: len(self._asked) >= self._running)
                if not self._running:
                    break
                asked, self._asked = dict(sorted(self._asked.items())), {}
            began = time.perf_counter()
            found: list[Answer] | list[Exception]
            try:
                found = self._model.answer(list(asked.values()))
            except Exception as error:  # every case that waits has to hear of it
                found = [error] * len(asked)
            self.seconds += time.perf_counter() - began
            self.batches += 1
            with self._state:
                self._answers.update(zip(asked, found, strict=True))
                self._state.notify_all()
        for one in threads:
            one.join()

    def _case(self, work: Callable[[], None]) -> None:
        try:
            with self._at_work:
                work()
        finally:
            with self._state:
                self._running -= 1
                self._state.notify_all()

    def ask(self, case: str, prompt: Chat) -> Answer:
        """The model's answer to a case; waits until all cases have asked. Meanwhile another case may work."""
        self._at_work.release()
        try:
            with self._state:
                self._asked[case] = prompt
                self._state.notify_all()
                if not self._state.wait_for(lambda: case in self._answers, WAIT_S):
                    raise TimeoutError(f"no answer for {case} within {WAIT_S:.0f} s")
                found = self._answers.pop(case)
        finally:
            self._at_work.acquire()
        if isinstance(found, Exception):
            raise found
        return found


class FolderModel:
    """A model of transformers from a folder, on the GPU where there is one; greedy, up to the end of the line. With
    ``one_line``, only an answer that begins with this word ends with its line, and others where the model ends them."""

    def __init__(self, folder: Path, most_tokens: int = MOST_TOKENS, one_line: str = "") -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError:
            raise MissingExtra("crews of local models", "models") from None
        self._torch: Any = torch
        self.device = os.environ.get("LAZARETTO_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
        kind = torch.float32 if self.device == "cpu" else torch.bfloat16
        self._tokens: Any = AutoTokenizer.from_pretrained(str(folder), padding_side="left")
        if self._tokens.pad_token_id is None:
            self._tokens.pad_token = self._tokens.eos_token
        self._model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=kind).to(self.device).eval()
        self._ends = self._line_ends()
        self._most_tokens, self._one_line = most_tokens, one_line

    def answer(self, prompts: Sequence[Chat]) -> list[Answer]:
        """Greedy answers; prompts of similar length share a batch."""
        texts = [one.chatml() for one in prompts]
        order = sorted(range(len(texts)), key=lambda place: (len(texts[place]), place))
        found: list[Answer | None] = [None] * len(texts)
        for places in _batches(order, [len(text) for text in texts]):
            for place, one in zip(places, self._fitting([texts[place] for place in places]), strict=True):
                found[place] = one
        if self.device != "cpu":
            self._torch.cuda.empty_cache()  # other processes share the GPU
        return [one for one in found if one is not None]

    def _fitting(self, texts: Sequence[str]) -> list[Answer]:
        """A batch, in halves where the memory of the GPU does not suffice: others may use it too."""
        try:
            return self._batch(texts)
        except self._torch.cuda.OutOfMemoryError:
            if len(texts) == 1:
                raise
        self._torch.cuda.empty_cache()
        half = len(texts) // 2
        return [*self._fitting(texts[:half]), *self._fitting(texts[half:])]

    def _batch(self, texts: Sequence[str]) -> list[Answer]:
        torch = self._torch
        given = self._tokens(list(texts), return_tensors="pt", padding=True).to(self.device)
        end = self._tokens.convert_tokens_to_ids("<|im_end|>")
        with torch.inference_mode():
            made = self._model.generate(
                input_ids=given["input_ids"], attention_mask=given["attention_mask"], max_new_tokens=self._most_tokens,
                do_sample=False, temperature=None, top_p=None, top_k=None, pad_token_id=self._tokens.pad_token_id,
                eos_token_id=[end, self._tokens.eos_token_id], stopping_criteria=[self._at_line_end(given)],
            )  # fmt: skip
        new = made[:, given["input_ids"].shape[1] :]
        said = self._tokens.batch_decode(new, skip_special_tokens=True)
        pad = self._tokens.pad_token_id
        counts = given["attention_mask"].sum(dim=1).tolist()
        made_counts = (new != pad).sum(dim=1).tolist()
        return [
            Answer(text.strip(), int(read), int(written))
            for text, read, written in zip(said, counts, made_counts, strict=True)
        ]

    def _line_ends(self) -> Any:
        """Which tokens end a line."""
        size = max(len(self._tokens), int(self._model.config.vocab_size))
        words = self._tokens.batch_decode([[place] for place in range(len(self._tokens))])
        flags = self._torch.zeros(size, dtype=self._torch.bool)
        flags[[place for place, word in enumerate(words) if "\n" in word]] = True
        return flags.to(self.device)

    def _at_line_end(self, given: Any) -> Callable[..., Any]:
        begun = given["input_ids"].shape[1] + 3  # an answer may begin with an empty line
        ends, torch = self._ends, self._torch
        single: Any = None

        def ended(ids: Any, scores: Any, **_: Any) -> Any:
            nonlocal single
            if ids.shape[1] <= begun:
                return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
            if single is None:
                said = self._tokens.batch_decode(ids[:, begun - 3 : begun])
                lines = [text.strip().startswith(self._one_line) for text in said]
                single = torch.tensor(lines, dtype=torch.bool, device=ids.device)
            return ends[ids[:, -1]] & single

        return ended


def _batches(order: Sequence[int], letters: Sequence[int]) -> list[list[int]]:
    """Places, the shortest text first, in batches that fit into the memory of a GPU."""
    found: list[list[int]] = []
    for place in order:
        if found and len(found[-1]) < BATCH and letters[place] * (len(found[-1]) + 1) <= BATCH_LETTERS:
            found[-1].append(place)
        else:
            found.append([place])
    return found


class EndpointModel:
    """A model behind an OpenAI-compatible endpoint; the key is in ``OPENAI_API_KEY`` where one is needed."""

    def __init__(self, url: str, name: str, at_once: int = 8, most_tokens: int = MOST_TOKENS) -> None:
        self._url, self._name, self._at_once = url.rstrip("/"), name, at_once
        self._most_tokens = most_tokens

    def answer(self, prompts: Sequence[Chat]) -> list[Answer]:
        """A request per prompt, some at once."""
        with ThreadPoolExecutor(self._at_once) as pool:
            return list(pool.map(self._one, prompts))

    def _one(self, prompt: Chat) -> Answer:
        import httpx

        key = os.environ.get("OPENAI_API_KEY", "")
        body = {
            "model": self._name, "messages": prompt.messages(), "temperature": 0,
            "max_tokens": self._most_tokens, "stop": ["\n\n"],
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        reply = httpx.post(f"{self._url}/chat/completions", json=body, headers=headers, timeout=300)
        reply.raise_for_status()
        found = reply.json()
        used = found.get("usage") or {}
        text = found["choices"][0]["message"]["content"] or ""
        return Answer(text.strip(), int(used.get("prompt_tokens", 0)), int(used.get("completion_tokens", 0)))


@lru_cache(maxsize=1)  # the next one takes its place in the memory of the GPU
def open_model(name: str, most_tokens: int = MOST_TOKENS, one_line: str = "") -> Model:
    """``hf:FOLDER`` (a path, or a name below ``LAZARETTO_CREWS_MODELS``), ``endpoint:URL#NAME``, or
    ``scripted:KIND``; ``most_tokens`` of an answer, and which answers of a local model are one line."""
    kind, _, rest = name.partition(":")
    if kind == "hf" and rest:
        folder = Path(rest) if Path(rest).is_dir() else Path(os.environ.get(FOLDER, ".")) / rest
        if not (folder / "config.json").is_file():
            raise InputError("model", f"no model in {folder}", f"Name a folder, or set {FOLDER}")
        return FolderModel(folder, most_tokens, one_line)
    if kind == "endpoint" and "#" in rest:
        url, _, model = rest.rpartition("#")
        return EndpointModel(url, model, most_tokens=most_tokens)
    if kind == "scripted":
        from lazaretto_lab.studies.crews.scripted import SCRIPTED

        if rest in SCRIPTED:
            return SCRIPTED[rest]()
    raise InputError("model", f"{name!r} is no model", "Use hf:FOLDER, endpoint:URL#NAME or scripted:obedient")
