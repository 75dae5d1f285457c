"""A chat model that remembers: the same question at temperature 0 is computed once.

Worlds and rows of an experiment repeat their questions. With a folder, processes share the answers and keep them.
Erasing clears the memory (``kept_texts``), never the folder: it is for runs over data of one's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.key_value_store import KeyValueStore
from lazaretto.models.protocol import ChatModel, Completion, Request


def request_key(model: str, request: Request) -> str:
    """A digest of everything that decides the answer: the model, and every field of the request."""
    # orjson writes all fields of a dataclass, so a field that is added later is part of the key from its first day
    return hashlib.sha256(orjson.dumps([model, request], default=_plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a request")


FILE = "answers.db"
_KEPT_BYTES = 256 << 20


class CachedChat:
    """Wraps a deterministic chat model; anything sampled or failed is asked again."""

    def __init__(self, chat: ChatModel, folder: Path | str | None = None) -> None:
        """``folder``: where answers are kept. Share it between runs only where answers do not depend on their batch."""
        self.chat = chat
        self.name = chat.name
        self.computed = 0
        """Completions that the model itself made for this object."""
        self._source: str = getattr(chat, "source", chat.name)
        self._known: KeptTexts[Completion] = KeptTexts(_KEPT_BYTES, lambda answer: 500 + 4 * len(answer.text))
        self._store = KeyValueStore(Path(folder) / FILE) if folder is not None else None

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; equal ones share an answer."""
        keys = [request_key(self._source, request) for request in requests]
        known = self._recalled(set(keys))
        fresh: dict[str, Request] = {}
        for place, (key, request) in enumerate(zip(keys, requests, strict=True)):
            if key not in known:
                # a sampled answer differs each time: it is not shared and not remembered
                fresh.setdefault(key if request.temperature == 0 else f"{key}:{place}", request)
        made = await self.chat.complete(list(fresh.values())) if fresh else []
        self.computed += len(fresh)
        answers = dict(zip(fresh, made, strict=True))
        self._remember({k: c for k, c in answers.items() if ":" not in k and not c.fault})
        return [known.get(key) or answers.get(key) or answers[f"{key}:{place}"] for place, key in enumerate(keys)]

    def _recalled(self, keys: set[str]) -> dict[str, Completion]:
        """The answers that are known, by key."""
        known = {key: answer for key in keys if (answer := self._known.get(digest(key))) is not None}
        if self._store is not None and (unread := keys - known.keys()):
            read = {k: Completion(**orjson.loads(v)) for k, v in self._store.find(unread).items()}
            self._keep(read)
            known |= read
        return known

    def _keep(self, answers: Mapping[str, Completion]) -> None:
        for key, answer in answers.items():
            self._known.put(digest(key), answer)

    def _remember(self, answers: Mapping[str, Completion]) -> None:
        self._keep(answers)
        if self._store is not None and answers:
            self._store.add({key: orjson.dumps(asdict(answer)) for key, answer in answers.items()})
