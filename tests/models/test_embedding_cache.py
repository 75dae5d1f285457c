"""No picture is encoded twice: not in a run, and not in one that goes on where another was killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.scripted import HashingEmbedder


class Counting(HashingEmbedder):
    """Counts what really goes through it."""

    def __init__(self, dimension: int = 64) -> None:
        super().__init__(lambda data: data.decode(), dimension)
        self.pictures: list[bytes] = []

    def embed_images(self, images: object) -> np.ndarray:
        self.pictures += list(images)  # type: ignore[call-overload]
        return super().embed_images(images)  # type: ignore[arg-type]


def test_each_content_is_encoded_once_and_rows_stay_in_order() -> None:
    plain = Counting()
    cache = EmbeddingCache(plain)
    asked = [b"boat", b"tree", b"boat"]
    rows = cache.embed_images(asked)
    again = cache.embed_images([b"tree", b"dog"])
    assert plain.pictures == [b"boat", b"tree", b"dog"]
    assert cache.images_encoded == 3
    np.testing.assert_array_equal(rows, HashingEmbedder(lambda d: d.decode()).embed_images(asked))
    np.testing.assert_array_equal(again[0], rows[1])
    assert cache.embed_images([]).shape == (0, 64)


def test_texts_are_kept_up_to_a_limit() -> None:
    cache = EmbeddingCache(Counting(), texts_kept=2)
    cache.embed_texts(["a", "b", "a"])
    assert cache.texts_encoded == 2
    rows = cache.embed_texts(["a", "c", "d", "e"])
    assert rows.shape == (4, 64) and cache.texts_encoded == 5
    cache.embed_texts(["e"])
    assert cache.texts_encoded == 5
    cache.embed_texts(["b"])
    assert cache.texts_encoded == 6


def test_a_second_process_finds_what_the_first_encoded(tmp_path: Path) -> None:
    first = EmbeddingCache(Counting(), tmp_path)
    rows = first.embed_images([b"boat", b"tree"])
    plain = Counting()
    second = EmbeddingCache(plain, tmp_path)
    np.testing.assert_array_equal(second.embed_images([b"tree", b"boat"]), rows[::-1])
    assert plain.pictures == [] and second.images_encoded == 2


def test_two_embedders_never_share_vectors(tmp_path: Path) -> None:
    EmbeddingCache(Counting(), tmp_path).embed_images([b"boat"])
    assert EmbeddingCache(Counting(32), tmp_path).embed_images([b"boat"]).shape == (1, 32)


def test_a_text_embedder_has_no_eyes() -> None:
    class TextOnly:
        name, dimension = "text", 2

        def embed_texts(self, texts: object) -> np.ndarray:
            return np.ones((1, 2), dtype=np.float32)

    with pytest.raises(TypeError, match="texts only"):
        EmbeddingCache(TextOnly()).embed_images([b"boat"])
