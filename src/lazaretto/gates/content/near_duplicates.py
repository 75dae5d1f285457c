"""When are two contents the same? Equal after normalising, or with most of their word triples in common.

MinHash narrows down, the exact Jaccard share decides. Forty lines of numpy: packages for it bring scipy and a server.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEAR = 0.7
"""Share of common shingles from which two contents count as the same."""
_PERMUTATIONS, _ROWS = 64, 4
_PRIME = (1 << 61) - 1
_SEED = 20_259
_random = np.random.default_rng(_SEED)
_A = _random.integers(1, 1 << 31, _PERMUTATIONS, dtype=np.uint64)
_B = _random.integers(0, 1 << 31, _PERMUTATIONS, dtype=np.uint64)


def normal(text: str) -> str:
    """The text without what copying changes: case, accents' encoding, punctuation, spacing."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded))


def normal_hash(text: str) -> str:
    """Equal for texts that are the same after normalising."""
    return hashlib.sha256(normal(text).encode("utf-8", "surrogatepass")).hexdigest()


def shingles(text: str) -> frozenset[int]:
    """Hashed word triples; character sextuples where a language writes without spaces or the text is very short."""
    words = normal(text)
    pieces = words.split()
    if len(pieces) >= 8:
        parts: Iterable[str] = (" ".join(pieces[i : i + 3]) for i in range(len(pieces) - 2))
    else:
        parts = (words[i : i + 6] for i in range(max(1, len(words) - 5)))
    return frozenset(zlib.crc32(part.encode("utf-8", "surrogatepass")) for part in parts)


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    """Share of common shingles."""
    return len(a & b) / len(a | b) if a or b else 1.0


def signature(parts: frozenset[int]) -> NDArray[np.uint64]:
    """The MinHash of a set of shingles."""
    values = np.fromiter(parts, dtype=np.uint64, count=len(parts)) if parts else np.zeros(1, dtype=np.uint64)
    minima: NDArray[np.uint64] = ((values[:, None] * _A + _B) % np.uint64(_PRIME)).min(axis=0)
    return minima


@dataclass(frozen=True, slots=True)
class DuplicateMatch:
    """Something already known that is the same content."""

    key: str
    share: float
    """1.0 when equal after normalising."""


class NearDuplicateIndex:
    """Finds the same content among many, in time that does not grow with their number."""

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self._bands: dict[tuple[int, bytes], list[str]] = {}
        self._shingles: dict[str, frozenset[int]] = {}

    def __len__(self) -> int:
        return len(self._shingles)

    def add(self, key: str, text: str) -> None:
        """Remember ``text`` under ``key``."""
        parts = shingles(text)
        self._shingles[key] = parts
        self._exact.setdefault(normal_hash(text), key)
        for band in _bands(parts):
            self._bands.setdefault(band, []).append(key)

    def find(self, text: str, near: float = NEAR) -> DuplicateMatch | None:
        """The best match at or above ``near``, or None."""
        exact = self._exact.get(normal_hash(text))
        if exact is not None:
            return DuplicateMatch(exact, 1.0)
        parts = shingles(text)
        candidates = {key for band in _bands(parts) for key in self._bands.get(band, ())}
        best = max(((jaccard(parts, self._shingles[key]), key) for key in candidates), default=(0.0, ""))
        return DuplicateMatch(best[1], best[0]) if best[0] >= near else None


def _bands(parts: frozenset[int]) -> list[tuple[int, bytes]]:
    minima = signature(parts)
    return [(start, minima[start : start + _ROWS].tobytes()) for start in range(0, _PERMUTATIONS, _ROWS)]
