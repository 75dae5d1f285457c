"""A chat model that remembers: the same question at temperature 0 is computed once.

An overrun world repeats itself (the same persona, the same picture, the same sentences in the history), and greedy
decoding would compute the same answer again. With a folder, answers survive the process: a batch is kept whole or not
at all, so that a run that was killed meets the very batches it would have met, and ends the same to the last bit.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from lazaretto.models.protocol import ChatModel, Completion, Request


class MemoChat:
    """Wraps a deterministic chat model; anything sampled or failed is asked again."""

    def __init__(
        self, chat: ChatModel, folder: Path | str | None = None, before: Mapping[str, Completion] | None = None
    ) -> None:
        """``before``: answers that another memory already holds, by request; they are looked up and never changed."""
        self.chat = chat
        self.name = chat.name
        self.computed = 0
        """Completions that the model itself made for this memory, earlier runs of the folder included."""
        self._known: dict[str, Completion] = {}
        self._before: Mapping[str, Completion] = before or {}
        self._file: Path | None = None
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._file = Path(folder) / "completions.jsonl"
            self._known, self.computed = _read(self._file)

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; equal ones share an answer."""
        keys = [request_key(request) for request in requests]
        fresh: dict[str, Request] = {}
        for place, (key, request) in enumerate(zip(keys, requests, strict=True)):
            if key not in self._known and key not in self._before:
                # what is sampled differs each time: it stands alone and is not remembered
                fresh.setdefault(key if request.temperature == 0 else f"{key}:{place}", request)
        made = await self.chat.complete(list(fresh.values())) if fresh else []
        answers = dict(zip(fresh, made, strict=True))
        self._remember({k: c for k, c in answers.items() if ":" not in k and not c.fault}, len(fresh))
        return [
            self._before.get(key) or self._known.get(key) or answers.get(key) or answers[f"{key}:{place}"]
            for place, key in enumerate(keys)
        ]

    @property
    def known(self) -> Mapping[str, Completion]:
        """Every answer of its own that it remembers, by request: the ``before`` of another memory."""
        return self._known

    def _remember(self, answers: dict[str, Completion], computed: int) -> None:
        self._known.update(answers)
        self.computed += computed
        if self._file is not None and computed:
            rows = [[k, c.text, c.prompt_tokens, c.completion_tokens] for k, c in answers.items()]
            body = orjson.dumps([computed, rows])
            with self._file.open("ab") as handle:
                handle.write(b"%08x %s\n" % (zlib.crc32(body), body))


def request_key(request: Request) -> str:
    """Names a request by everything that decides its answer."""
    digest = hashlib.sha256()
    for message in request.messages:
        digest.update(f"{message.role}\0{message.text}\0{len(message.images)}\0".encode())
        for image in message.images:
            digest.update(hashlib.sha256(image).digest())
    digest.update(orjson.dumps([request.max_tokens, request.temperature, request.schema], option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def _read(file: Path) -> tuple[dict[str, Completion], int]:
    """What earlier runs remembered; a batch that a crash cut short is cut off."""
    known: dict[str, Completion] = {}
    computed = whole = 0
    if not file.exists():
        return known, computed
    for line in file.read_bytes().splitlines(keepends=True):
        mark, body = line[:8], line[9:-1]
        if not line.endswith(b"\n") or mark != b"%08x" % zlib.crc32(body):
            break
        count, rows = orjson.loads(body)
        computed += count
        known.update({key: Completion(text, read, wrote) for key, text, read, wrote in rows})
        whole += len(line)
    if whole != file.stat().st_size:
        with file.open("r+b") as handle:
            handle.truncate(whole)
    return known, computed
