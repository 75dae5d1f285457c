"""Models that answer by a script or a recording: for tests, dry runs and users' own suites. Never a default."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import orjson

from lazaretto.errors import InputError
from lazaretto.models.caches import request_key
from lazaretto.models.protocol import ChatModel, Completion, Request, Vectors

Script = Callable[[Request], str | Completion]
"""Answers one request: words, or a whole completion (to play a fault)."""


class ScriptedChatModel:
    """A chat model whose every answer comes from a function of the request."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.name = name
        self._script = script
        self.batches: list[int] = []
        """Size of every batch it was given, in order."""

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One answer per request; a script that raises gives that request alone a fault."""
        self.batches.append(len(requests))
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Completion:
        try:
            answer = self._script(request)
        except Exception as error:
            return Completion("", fault=f"{type(error).__name__}: {error}")
        if isinstance(answer, Completion):
            return answer
        prompt = sum(len(m.text.split()) for m in request.messages)
        return Completion(answer, prompt_tokens=prompt, completion_tokens=len(answer.split()))


class HashingEmbedder:
    """Words hashed into a vector: texts that share words are near each other. Pictures are read by ``caption``.

    It needs no weights and gives the same numbers on every machine, which is all a test asks of it.
    """

    def __init__(self, caption: Callable[[bytes], str] | None = None, dimension: int = 64) -> None:
        self.name = f"hashing-{dimension}"
        self.dimension = dimension
        self._caption = caption or (lambda data: hashlib.sha256(data).hexdigest())

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without words gets a fixed direction."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.sha256(word.encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self.dimension] += 1.0 if digest[4] % 2 else -1.0
            if not row.any():
                row[0] = 1.0
            row /= np.linalg.norm(row)
        return rows

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """Each picture as the text its caption function reads in it."""
        return self.embed_texts([self._caption(data) for data in images])


# A chat model that records the answers of another one, and one that replays them.
#
# The same requests get the same answers, token counts included. A request that was never recorded is a fault.


class RecordingChat:
    """Passes requests on and appends each good answer to a file, one JSON line each."""

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.name = model.name
        self._model, self._path = model, path

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """The model's own answers; faults are not recorded."""
        answers = await self._model.complete(requests)
        with self._path.open("ab") as file:
            for request, answer in zip(requests, answers, strict=True):
                if not answer.fault:
                    file.write(orjson.dumps({"key": request_key(self.name, request), **asdict(answer)}) + b"\n")
        return answers


class RecordedChat:
    """Answers from a recording."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._answers: dict[str, Completion] = {}
        if not path.exists():
            raise InputError("recording", f"no file {path}", "Record one with RecordingChat")
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                body = orjson.loads(line)
                key = str(body.pop("key"))
                self._answers[key] = Completion(**body)
            except (orjson.JSONDecodeError, KeyError, TypeError):
                raise InputError(
                    "recording", f"line {number} of {path} is not a recorded answer", "Record it again"
                ) from None

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """The recorded answer of each request; a fault where there is none."""
        missing = Completion("", fault="this request is not in the recording")
        return [replace(self._answers.get(request_key(self.name, r), missing)) for r in requests]
