"""Words, word pairs and runs of letters as numbered buckets, with numpy alone.

The buckets are those of scikit-learn's ``HashingVectorizer`` (MurmurHash3), so that weights fitted with it serve here,
where a package of its size is not wanted. A test holds both equal.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Counted = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Buckets, each once and rising, and how often each occurs."""
_WORD = re.compile(r"\b\w+\b")


def words_and_pairs(text: str) -> list[str]:
    """Every word, and every two neighbours."""
    words = _WORD.findall(text)
    return words + [f"{a} {b}" for a, b in itertools.pairwise(words)]


def letter_runs(text: str, shortest: int = 3, longest: int = 5) -> Iterator[str]:
    """Every run of letters inside a word, its edges marked by blanks."""
    for word in text.split():
        padded = f" {word} "
        for size in range(shortest, longest + 1):
            yield from (padded[i : i + size] for i in range(max(1, len(padded) - size + 1)))
            if len(padded) <= size:
                break  # a short word counts once


def count_buckets(parts: Iterable[str], buckets: int) -> Counted:
    """How often each bucket occurs."""
    found: dict[str, int] = {}
    for part in parts:
        found[part] = found.get(part, 0) + 1
    if not found:
        return np.zeros(0, np.int64), np.zeros(0)
    numbered = np.abs(murmur3(list(found)).astype(np.int64)) % buckets
    unique, place = np.unique(numbered, return_inverse=True)
    often = np.fromiter(found.values(), np.float64, len(found))
    return unique, np.bincount(place, weights=often).astype(np.float64)


def murmur3(parts: list[str]) -> NDArray[np.int32]:
    """MurmurHash3 (32 bits, seed 0) of each string's UTF-8 bytes."""
    encoded = [part.encode() for part in parts]
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
    hashes = np.zeros(len(encoded), np.uint32)
    with np.errstate(over="ignore"):
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            data = np.frombuffer(b"".join(encoded[i] for i in rows.tolist()), np.uint8).reshape(len(rows), size)
            hashes[rows] = _mixed(data.astype(np.uint32), size)
    return hashes.view(np.int32)


def _mixed(data: NDArray[np.uint32], size: int) -> NDArray[np.uint32]:
    h = np.zeros(len(data), np.uint32)
    whole = size // 4 * 4
    for at in range(0, whole, 4):
        h ^= _scrambled(_joined(data[:, at : at + 4]))
        h = (h << np.uint32(13)) | (h >> np.uint32(19))
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
    if size > whole:
        h ^= _scrambled(_joined(data[:, whole:]))
    h ^= np.uint32(size)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    return h ^ (h >> np.uint32(16))


def _joined(columns: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Up to four bytes as one number, the first lowest."""
    k = np.zeros(len(columns), np.uint32)
    for n in range(columns.shape[1]):
        k |= columns[:, n] << np.uint32(8 * n)
    return k


def _scrambled(k: NDArray[np.uint32]) -> NDArray[np.uint32]:
    k = k * np.uint32(0xCC9E2D51)
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    return k * np.uint32(0x1B873593)
