"""A chat model that records the answers of another one, and one that replays them.

The same requests get the same answers, token counts included. A request that was never recorded is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from lazaretto.errors import InputError
from lazaretto.models.answer_cache import request_key
from lazaretto.models.protocol import ChatModel, Completion, Request


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
