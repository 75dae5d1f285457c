"""Answers and embeddings remembered by content, in a SQLite file that many processes may use, or in memory.

Worlds and rows of an experiment repeat their questions. With a folder, processes share the answers and keep them.
Erasing clears the memory (``kept_texts``), never the folder: it is for runs over data of one's own.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lazaretto.errors import StoreDamaged
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.protocol import ChatModel, Completion, ImageTextEmbedder, Request, TextEmbedder, Vectors


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


# Embeddings remembered by content.
#
# From memory, and from a file when a folder is given, so that a resumed run does not pay again. Erasing clears the
# memory (``kept_texts``), never the file: a folder is for runs over data of one's own. It holds vectors and digests of
# pictures.


class EmbeddingCache:
    """An embedder that remembers. Wrap any text or image-text embedder in it."""

    def __init__(self, embedder: TextEmbedder, folder: Path | str | None = None, texts_kept: int = 65_536) -> None:
        """``texts_kept``: the most texts, and the most pictures, whose vectors stay in memory."""
        self.embedder = embedder
        self.name = embedder.name
        self.dimension = embedder.dimension
        self.images_encoded = 0
        """Pictures that went through the network: resumed runs count pictures of earlier runs too."""
        self.texts_encoded = 0
        most = texts_kept * (self.dimension * 4 + 16)
        self._texts: KeptTexts[NDArray[np.float32]] = KeptTexts(most, lambda row: int(row.nbytes))
        self._images: KeptTexts[NDArray[np.float32]] = KeptTexts(most, lambda row: int(row.nbytes))
        self._store = KeyValueStore(_file_for(embedder, folder)) if folder is not None else None
        if self._store is not None:
            self.images_encoded = len(self._store)

    @property
    def sees(self) -> bool:
        """Whether it places pictures too."""
        return isinstance(self.embedder, ImageTextEmbedder)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One row per text; only unseen texts are encoded."""
        rows = {t: row for t in dict.fromkeys(texts) if (row := self._texts.get(digest(t))) is not None}
        fresh = [t for t in dict.fromkeys(texts) if t not in rows]
        if fresh:
            self.texts_encoded += len(fresh)
            for text, row in zip(fresh, self.embedder.embed_texts(fresh), strict=True):
                rows[text] = np.array(row, np.float32)  # its own: a row of a matrix keeps the whole
                self._texts.put(digest(text), rows[text])
        return self._stack([rows[t] for t in texts])

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """One row per picture; only unseen pictures are encoded."""
        return self.embed_keyed([hashlib.sha256(data).hexdigest() for data in images], images)

    def embed_keyed(self, keys: Sequence[str], images: Sequence[bytes]) -> Vectors:
        """Like ``embed_images`` for a caller that already knows each picture's sha256."""
        rows = {k: row for k in dict.fromkeys(keys) if (row := self._images.get(digest(k))) is not None}
        known = set(rows)
        fresh: dict[str, bytes] = {k: i for k, i in zip(keys, images, strict=True) if k not in rows}
        if fresh and self._store is not None:
            rows |= {key: np.frombuffer(data, dtype="<f4") for key, data in self._store.find(fresh).items()}
            fresh = {k: i for k, i in fresh.items() if k not in rows}
        if fresh:
            made = self._image_embedder()(list(fresh.values()))
            added = {key: np.array(row, np.float32) for key, row in zip(fresh, made, strict=True)}
            rows |= added
            self.images_encoded += len(added)
            if self._store is not None:
                self._store.add({key: row.astype("<f4").tobytes() for key, row in added.items()})
        for key in rows.keys() - known:
            self._images.put(digest(key), rows[key])
        return self._stack([rows[k] for k in keys])

    def _image_embedder(self) -> Callable[[Sequence[bytes]], Vectors]:
        if not isinstance(self.embedder, ImageTextEmbedder):
            raise TypeError(f"{self.name} embeds texts only; pictures need an image-text embedder")
        return self.embedder.embed_images

    def _stack(self, rows: list[NDArray[np.float32]]) -> Vectors:
        return np.stack(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)


def _file_for(embedder: TextEmbedder, folder: Path | str) -> Path:
    """One file per embedder: vectors of two models must never meet."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    label = hashlib.sha256(f"{embedder.name}\0{embedder.dimension}".encode()).hexdigest()[:16]
    return root / f"embeddings-{label}.db"


# Bytes by key, in a SQLite file that many processes may use at once, or in memory.

_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
_BUSY_SECONDS = 120.0


class KeyValueStore:
    """Computed values by key. The first value of a key stays; a write that a kill cut short leaves nothing."""

    def __init__(self, file: Path | None = None) -> None:
        """Without a ``file`` nothing outlives the object."""
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        place = file or ":memory:"
        self._db = sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_TABLE)
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"{file}: {error}; delete it, and its values are computed again") from None

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The values that are there, by key."""
        rows = self._db.execute(
            "SELECT entries.* FROM json_each(?) AS asked JOIN entries ON entries.key = asked.value",
            (orjson.dumps(list(keys)).decode(),),
        )
        return dict(rows)

    def add(self, values: Mapping[str, bytes]) -> None:
        """Add values, all or none; one that is there already stays."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", values.items())
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
