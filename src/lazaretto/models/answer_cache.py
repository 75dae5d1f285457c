"""A chat model that remembers: the same question at temperature 0 is computed once.

An overrun world repeats itself (the same persona, the same picture, the same sentences in the history), rows of an
experiment repeat each other until an infection or a defence parts them, and greedy decoding would compute the same
answer again. With a folder, answers survive the process, and several processes may share them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from lazaretto.errors import StoreDamaged
from lazaretto.models.protocol import ChatModel, Completion, Request

FILE = "answers.db"
_TABLE = "CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, text TEXT, read INT, wrote INT) WITHOUT ROWID"
_BUSY_SECONDS = 120.0


class CachedChat:
    """Wraps a deterministic chat model; anything sampled or failed is asked again."""

    def __init__(self, chat: ChatModel, folder: Path | str | None = None) -> None:
        """``folder``: where answers are kept. Only what no other batch could change may be shared between runs."""
        self.chat = chat
        self.name = chat.name
        self.computed = 0
        """Completions that the model itself made for this object."""
        self._known: dict[str, Completion] = {}
        self._kept = _Answers(Path(folder)) if folder is not None else None

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; equal ones share an answer."""
        keys = [request_key(request) for request in requests]
        if self._kept is not None:
            self._known.update(self._kept.find({key for key in keys if key not in self._known}))
        fresh: dict[str, Request] = {}
        for place, (key, request) in enumerate(zip(keys, requests, strict=True)):
            if key not in self._known:
                # what is sampled differs each time: it stands alone and is not remembered
                fresh.setdefault(key if request.temperature == 0 else f"{key}:{place}", request)
        made = await self.chat.complete(list(fresh.values())) if fresh else []
        self.computed += len(fresh)
        answers = dict(zip(fresh, made, strict=True))
        self._remember({k: c for k, c in answers.items() if ":" not in k and not c.fault})
        return [self._known.get(key) or answers.get(key) or answers[f"{key}:{place}"] for place, key in enumerate(keys)]

    def _remember(self, answers: Mapping[str, Completion]) -> None:
        self._known.update(answers)
        if self._kept is not None and answers:
            self._kept.keep(answers)


class _Answers:
    """Answers in a SQLite file that many processes may use at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / FILE
        self._db = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_TABLE)
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"{file}: {error}; delete it, and its answers are computed again") from None

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """What is known of these requests."""
        rows = self._db.execute(
            "SELECT answers.* FROM json_each(?) AS asked JOIN answers ON answers.request = asked.value",
            (orjson.dumps(list(keys)).decode(),),
        )
        return {key: Completion(text, read, wrote) for key, text, read, wrote in rows}

    def keep(self, answers: Mapping[str, Completion]) -> None:
        """Add answers, all or none; one that is there already stays."""
        rows = [(key, c.text, c.prompt_tokens, c.completion_tokens) for key, c in answers.items()]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", rows)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def request_key(request: Request) -> str:
    """Names a request by everything that decides its answer."""
    digest = hashlib.sha256()
    for message in request.messages:
        digest.update(f"{message.role}\0{message.text}\0{len(message.images)}\0".encode())
        for image in message.images:
            digest.update(hashlib.sha256(image).digest())
    digest.update(orjson.dumps([request.max_tokens, request.temperature, request.schema], option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()
