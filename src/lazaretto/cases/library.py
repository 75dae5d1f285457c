"""The case library in memory: retrieval over precedents by words and by meaning, and when two contents are the same.

A library is a value: a set of cases whose version is the hash of their ids. ``casebook`` keeps its history.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from lazaretto.cases.records import Case, InputKind, Label, Precedent
from lazaretto.errors import InputError, StoreDamaged
from lazaretto.models.caches import KeyValueStore
from lazaretto.models.protocol import TextEmbedder
from lazaretto.reading.normalization import fold

_log = logging.getLogger(__name__)

_CANDIDATES = 40
_RANK_CONSTANT = 60.0
"""The constant of reciprocal rank fusion, 1 / (60 + rank): the usual value."""
_QUERY_WORDS = 48
_MEANING_WEIGHT = 2.0
"""Weight of a rank by meaning against a rank by words: contents share function words with every case."""
_FUNCTION_WORDS = (
    "a an and any are as at be been but by can could did do does for from had has have he her his how i if in into is "
    "it its just like may me more my no not of on one or our out she should so some than that the their them then "
    "there "
    "these they this to two up us was we were what when where which who why will with would you your"
)
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
FLOOR = 0.4
"""Similarity below which a case is not a precedent."""


def read_case(body: Mapping[str, Any], where: str = "case") -> Case:
    """A case from JSON data; errors say where and what."""
    try:
        label = Label(str(body["label"]))
    except (KeyError, ValueError):
        raise InputError(where, f"label {body.get('label')!r}", "Use 'safe' or 'unsafe'") from None
    case = Case(
        label,
        str(body.get("text") or ""),
        str(body.get("description") or ""),
        tuple(str(h) for h in body.get("hazards") or ()),
        tuple(str(c) for c in body.get("cues") or ()),
        str(body.get("summary") or ""),
        str(body.get("source") or ""),
    )
    if not case.words:
        raise InputError(where, "neither text nor description", "A case needs content")
    return case


def read_cases(data: bytes, name: str) -> tuple[Case, ...]:
    """Cases from JSON lines."""
    cases = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                body = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"{name} line {number}", f"not JSON ({error})", "One JSON object per line") from None
            cases.append(read_case(body, f"{name} line {number}"))
    return tuple(cases)


@cache
def starter_cases() -> tuple[Case, ...]:
    """The cases that ship: written for this project, for every MLCommons hazard, unsafe precedents and benign
    look-alikes.
    """
    file = resources.files("lazaretto.cases").joinpath("starter_cases.jsonl")
    return read_cases(file.read_bytes(), "starter_cases.jsonl")


class Precedents(Protocol):
    """A source of precedents."""

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """The nearest cases, best first."""
        ...


class CaseLibrary:
    """Precedents, and how to find the ones near the content. Safe to share between threads."""

    def __init__(
        self, cases: Iterable[Case], embedder: TextEmbedder | None = None, cache_folder: Path | None = None
    ) -> None:
        """Without an ``embedder`` retrieval is by words alone. ``cache_folder`` keeps vectors between runs."""
        unique = {case.id: case for case in cases}
        self.cases = tuple(unique[key] for key in sorted(unique))
        self.version = hashlib.sha256("\n".join(case.id for case in self.cases).encode()).hexdigest()[:16]
        self._embedder, self._cache = embedder, cache_folder
        self._vectors: NDArray[np.float32] | None = None
        self._lock = threading.Lock()
        self._index = self._build_index()

    def __len__(self) -> int:
        return len(self.cases)

    def _build_index(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter unicode61')")
        rows = ((number, case.words) for number, case in enumerate(self.cases, 1))
        connection.executemany("INSERT INTO words(rowid, body) VALUES (?, ?)", rows)
        return connection

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """The nearest cases: ranks by words and by meaning fused, cases of the same kind of input preferred."""
        if not self.cases or not words.strip() or limit < 1:
            return ()
        by_words = self._by_words(words)
        cosine = self._cosines(words)
        by_meaning = list(np.argsort(-cosine)[:_CANDIDATES]) if cosine is not None else []
        fused: dict[int, float] = {}
        for ranking, weight in ((by_words, 1.0), (by_meaning, _MEANING_WEIGHT)):
            for rank, number in enumerate(ranking):
                fused[int(number)] = fused.get(int(number), 0.0) + weight / (_RANK_CONSTANT + rank)
        for number in fused:
            if self.cases[number].kind is kind:
                fused[number] += 0.5 / _RANK_CONSTANT
        best = sorted(fused, key=lambda n: (-fused[n], n))[:limit]
        top = max(fused.values(), default=1.0)
        return tuple(Precedent(self.cases[n], float(cosine[n]) if cosine is not None else fused[n] / top) for n in best)

    def _by_words(self, words: str) -> list[int]:
        found = dict.fromkeys(re.findall(r"\w{2,}", words[:20_000].lower()))
        terms = [term for term in found if term not in _STOP_WORDS][:_QUERY_WORDS]
        if not terms:
            return []
        query = " OR ".join(f'"{term}"' for term in terms)
        with self._lock:
            rows = self._index.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT ?", (query, _CANDIDATES)
            ).fetchall()
        return [row[0] - 1 for row in rows]

    def _cosines(self, words: str) -> NDArray[np.float32] | None:
        if self._embedder is None:
            return None
        query = self._embedder.embed_texts([words[:20_000]])[0]
        scores: NDArray[np.float32] = self.vectors() @ query
        return scores

    def prepare(self) -> None:
        """Make everything retrieval needs now, not with the first question."""
        if self._embedder is not None:
            self.vectors()

    def vectors(self) -> NDArray[np.float32]:
        """One unit row per case, in the order of ``cases``; of the content alone, never of the label."""
        assert self._embedder is not None
        with self._lock:
            if self._vectors is None:
                self._vectors = self._load_vectors(self._embedder)
            return self._vectors

    def _load_vectors(self, embedder: TextEmbedder) -> NDArray[np.float32]:
        shape = (len(self.cases), embedder.dimension)
        key = f"{self.version} {embedder.name}"
        store = _vector_store(self._cache)
        held = store.find([key]).get(key)
        if held is not None:
            return np.frombuffer(held, dtype="<f4").reshape(shape)
        made = embedder.embed_texts([case.words for case in self.cases]) if self.cases else np.zeros(shape, np.float32)
        try:
            store.add({key: made.astype("<f4").tobytes()})
        except sqlite3.Error as error:
            _log.info("vectors of cases are not kept: %s", error)
        return made


def _vector_store(folder: Path | None) -> KeyValueStore:
    """The vectors that are kept; where none can be kept (a read-only home), they are made in each process."""
    if folder is None:
        return KeyValueStore()
    file = folder / "vectors.db"
    try:
        try:
            return KeyValueStore(file)
        except StoreDamaged:
            file.unlink()  # a damaged cache is made anew
            return KeyValueStore(file)
    except (OSError, sqlite3.Error, StoreDamaged) as error:
        _log.info("vectors of cases are not kept in %s: %s", folder, error)
        return KeyValueStore()


# When are two contents the same? Equal after normalising, or with most of their word triples in common.
#
# MinHash narrows down, the exact Jaccard share decides. Forty lines of numpy: packages for it bring scipy and a server.

NEAR = 0.7
"""Share of common shingles from which two contents count as the same."""
WITHIN = 0.9
"""Share of a text's shingles from which another text counts as holding it."""
_FEWEST = 6
"""Shingles of a text of eight words."""
_PERMUTATIONS, _ROWS = 64, 4
_PRIME = (1 << 61) - 1
_SEED = 20_259
_random = np.random.default_rng(_SEED)
_A = _random.integers(1, 1 << 31, _PERMUTATIONS, dtype=np.uint64)
_B = _random.integers(0, 1 << 31, _PERMUTATIONS, dtype=np.uint64)


def normal(text: str) -> str:
    """The text without what copying and disguise change: case, encoding, punctuation, spacing, hidden and look-alike
    letters."""
    return " ".join(re.findall(r"\w+", fold(text)))


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
        self._holders: dict[int, list[str]] = {}
        """The keys of each shingle; made when it is asked for."""

    def __len__(self) -> int:
        return len(self._shingles)

    def add(self, key: str, text: str) -> None:
        """Remember ``text`` under ``key``."""
        parts = shingles(text)
        self._shingles[key] = parts
        self._holders.clear()
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

    def within(self, text: str, share: float = WITHIN) -> DuplicateMatch | None:
        """What stands in ``text`` nearly whole, with other words around it; no text under eight words is found."""
        if not self._holders:
            for key, known in self._shingles.items():
                for part in known if len(known) >= _FEWEST else ():
                    self._holders.setdefault(part, []).append(key)
        counts = Counter(key for part in shingles(text) for key in self._holders.get(part, ()))
        best = max(((count / len(self._shingles[key]), key) for key, count in counts.items()), default=(0.0, ""))
        return DuplicateMatch(best[1], best[0]) if best[0] >= share else None


def _bands(parts: frozenset[int]) -> list[tuple[int, bytes]]:
    minima = signature(parts)
    return [(start, minima[start : start + _ROWS].tobytes()) for start in range(0, _PERMUTATIONS, _ROWS)]
