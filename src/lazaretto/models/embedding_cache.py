"""Embeddings remembered by content.

From memory, and from a file when a folder is given, so that a resumed run does not pay again. Erasing clears the memory
(``kept_texts``), never the file: a folder is for runs over data of one's own. It holds vectors and digests of pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.key_value_store import KeyValueStore
from lazaretto.models.protocol import ImageTextEmbedder, TextEmbedder, Vectors


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
