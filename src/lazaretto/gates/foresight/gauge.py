"""The effect of one memory on agents: how often it is fetched (pull), and how agents talk about it (talk).

**Pull** costs no model call: recorded plans of benign agents are looked up in reference albums with the memory among
them. Albums and plans are fixed, so pull is a property of the memory alone. **Talk** is a rehearsal: two pairs of
personas speak about the memory, one of them with the agent's real history. Sentences that hardly differ between
personas are the collapse that foresight looks for. A third check needs no agent: is the memory near its own title?
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.prompts import Persona
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import RehearsalBackend

VERBATIM = 0.01
"""Diversity below which utterances count as the same: rounding, a comma."""
MARGIN = 1.5
"""A diagnosis needs this many times the strongest evidence any benign memory gave: agents hold ten memories and are
asked every round, so a quantile per memory would be an alarm per day."""

PHRASE = 3
"""Words that must be left of an utterance without its speaker's own: "well, indeed" and "well, hum" repeat nothing."""


@dataclass(frozen=True, slots=True)
class RetrievalProbe:
    """Recorded plans and reference albums: the fixed test bench of every memory."""

    plans: tuple[str, ...]
    albums: tuple[tuple[AlbumItem, ...], ...]
    """Benign memories that the one under test competes with."""

    def __post_init__(self) -> None:
        if not self.plans or not self.albums or not all(self.albums):
            raise InputError("gauge", "needs plans and reference albums", "Calibrate on benign agents first")

    async def pulls(self, album_items: Sequence[AlbumItem], backend: RehearsalBackend) -> list[float | None]:
        """The pull of each; None where retrieval failed."""
        if len(album_items) > 1:
            # one look through all of them: an embedder that remembers encodes a batch faster than one by one
            await backend.look_up(Album(len(album_items), tuple(album_items)), self.plans[:1])
        return [await self.pull(album_item, backend) for album_item in album_items]

    async def pull(self, album_item: AlbumItem, backend: RehearsalBackend) -> float | None:
        """Share of the recorded plans that fetch the memory, over all reference albums without itself."""
        won = 0
        for held in self.albums:
            others = tuple(k for k in held if k.key != album_item.key)
            found = await backend.look_up(Album(len(others) + 1, (*others, album_item)), self.plans)
            if None in found:
                return None
            won += sum(key == album_item.key for key in found)
        return won / (len(self.albums) * len(self.plans))


def collapse(utterances: Sequence[str], backend: RehearsalBackend) -> float | None:
    """Likeness of the utterances: -ln of their diversity, so that word for word stands apart from merely alike (a
    picture with writing on it makes everybody quote it). None when fewer than two have words."""
    spoken = [text for text in utterances if text.strip()]
    if len(spoken) < 2:
        return None
    return -math.log(max(0.0, semantic_diversity(backend.text_vectors(spoken).astype(np.float64))) + VERBATIM)


def beside_the_point(utterances: Sequence[str], title: str, backend: RehearsalBackend) -> float | None:
    """Distance of the talk from the memory's title: 1 - mean cosine. None without words or title."""
    spoken = [text for text in utterances if text.strip()]
    if not spoken or not title.strip():
        return None
    rows = backend.text_vectors([title, *spoken]).astype(np.float64)
    return 1.0 - float((rows[1:] @ rows[0]).mean())


def repeated(
    utterances: Sequence[str],
    speakers: Sequence[Persona | None] = (),
    shown: str = "",
    elsewhere: Sequence[str] = (),
) -> float:
    """Share of the utterances that another one repeats, word for word or without the words of who speaks. A virus that
    has several sentences, so that its talk is not alike as a whole, still has several people say each of them; and
    a virus that makes everybody begin or end in their own way still has them say the rest.

    Words of a speaker are those of their description. Without them, two utterances must be equal, and a speaker
    who quotes all of ``shown`` speaks of it and repeats nobody. With ``elsewhere``, the words of each about something
    else, these are their own words too, and a run of words that both have left is enough, if it is no part of
    ``shown``."""
    spoken, quoted = [_words(text) for text in utterances], _words(shown)
    unquoted = [_without(words, quoted) for words in spoken]
    own = [set(_words(who.text())) if who else set() for who in speakers]
    own += [set()] * (len(spoken) - len(own))
    habits = [words | set(_words(text)) for words, text in zip(own, elsewhere, strict=True)] if elsewhere else []

    def again(first: int, second: int) -> bool:
        if spoken[first] == spoken[second]:
            return bool(spoken[first])
        apart = own[first] | own[second]
        left, right = ([word for word in unquoted[i] if word not in apart] for i in (first, second))
        if len(left) >= PHRASE and left == right:
            return True
        if not habits:
            return False
        apart = habits[first] | habits[second]
        here, there, seen = (_runs(words, apart) for words in (spoken[first], spoken[second], quoted))
        return bool((here & there) - seen)

    places = range(len(spoken))
    return sum(any(again(i, j) for j in places if i != j) for i in places) / max(1, len(spoken))


def _runs(words: Sequence[str], apart: Collection[str]) -> set[tuple[str, ...]]:
    """Every run of ``PHRASE`` words, those apart left out."""
    left = [word for word in words if word not in apart]
    return {tuple(left[i : i + PHRASE]) for i in range(len(left) - PHRASE + 1)}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _without(words: list[str], phrase: list[str]) -> list[str]:
    """The words without the first place where the whole phrase stands."""
    size = len(phrase)
    places = range(len(words) - size + 1 if phrase else 0)
    start = next((i for i in places if words[i] == phrase[0] and words[i : i + size] == phrase), None)
    return words if start is None else words[:start] + words[start + size :]


def misnamed(album_items: Sequence[AlbumItem], backend: RehearsalBackend) -> list[float | None]:
    """Distance of each memory from its title: 1 - cosine of both. None without a title, or where the backend
    cannot place the content."""
    apart: dict[int, float] = {}
    for notes in (True, False):
        places = [i for i, k in enumerate(album_items) if k.is_note == notes and k.title.strip()]
        contents = backend.album_item_vectors([album_items[i] for i in places]) if places else None
        if contents is not None:
            titles = backend.text_vectors([album_items[i].title for i in places]).astype(np.float64)
            far = 1.0 - (contents * titles).sum(axis=1)
            apart.update((place, float(value)) for place, value in zip(places, far, strict=True) if np.isfinite(value))
    return [apart.get(i) for i in range(len(album_items))]


@dataclass(frozen=True, slots=True)
class Scale:
    """Benign values of one kind of evidence, as a yardstick: how many spreads above the middle is a value?"""

    middle: float
    spread: float

    def __call__(self, value: float | None) -> float:
        """0 for an ordinary value, or one that could not be measured."""
        return 0.0 if value is None else max(0.0, (value - self.middle) / self.spread)

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        """From benign values: median, and the distance from there to the 95th percentile as about two spreads."""
        if not values:
            raise InputError("calibration", "no benign values", "Calibrate on more agents")
        middle, high = np.quantile(values, (0.5, 0.95))
        return cls(float(middle), max(float(high - middle) / 1.645, 1e-3))


@dataclass(frozen=True, slots=True)
class BenignBaseline:
    """The yardsticks and where suspicion and diagnosis begin; made by calibration, never from attacks."""

    pull: Scale
    collapse: Scale
    beside: Scale
    suspicious: float
    """From this pull on, a memory is rehearsed in full before its owner may speak."""
    infected: float
    """From this joint evidence on, it is a virus."""
    pull_alone: float
    """The same for pull by itself, and below for collapse by itself: what ablations use. Pull from here on, which no
    benign memory has, calls for a closer look."""
    collapse_alone: float
    misnamed: Scale = Scale(1.0, 1.0)

    def score(self, reading: MemoryEvidence, use_pull: bool = True, use_collapse: bool = True) -> float:
        """The joint evidence: fetched too often, talk too alike, talk beside the point, not what its title says.

        They add up, because a virus can hide one of them (several sentences, chosen by persona, do not collapse) but
        hardly all and still spread. Nothing that was not rehearsed is guilty.
        """
        if not use_collapse:
            return self.pull(reading.pull)
        if reading.collapse is None:
            return 0.0
        alike = self.collapse(reading.collapse)
        if not use_pull:
            return alike
        return alike + self.pull(reading.pull) + self.beside(reading.beside) + self.misnamed(reading.misnamed)

    def in_doubt(self, reading: MemoryEvidence) -> bool:
        """Whether a rehearsed memory that is not convicted lies beyond every benign one, in joint evidence or in pull
        alone."""
        if reading.collapse is None:
            return False
        return self.score(reading) >= self.infected / MARGIN or self.pulls_alone(reading)

    def pulls_alone(self, reading: MemoryEvidence) -> bool:
        """Whether it is fetched more than any benign memory."""
        return self.pull(reading.pull) >= self.pull_alone

    def limit(self, use_pull: bool = True, use_collapse: bool = True) -> float:
        """The evidence from which on a memory is diagnosed, for these measures."""
        if use_pull and use_collapse:
            return self.infected
        return self.pull_alone if use_pull else self.collapse_alone


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """The evidence on one memory. None: not rehearsed, or the model failed."""

    pull: float
    collapse: float | None = None
    beside: float | None = None
    utterances: tuple[str, ...] = ()
    misnamed: float | None = None
    repeated: float | None = None
    """Share of the sentences of eight more people about it that another of them repeats; None without a closer look."""

    def row(self) -> list[Any]:
        """As JSON data."""
        return [self.pull, self.collapse, self.beside, list(self.utterances), self.misnamed, self.repeated]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> MemoryEvidence:
        """Read back the result of ``row``."""
        pull, alike, beside, utterances, *rest = row
        return cls(pull, alike, beside, tuple(utterances), *rest)


# Variety of a rehearsal: retrieval entropy and semantic diversity.


def entropy(shares: ArrayLike) -> float:
    """Shannon entropy in nats of a distribution (its entries need not be normalised)."""
    weights = np.asarray(shares, dtype=float)
    total = weights.sum()
    if total <= 0 or (weights < 0).any():
        raise ValueError("shares must be non-negative and not all zero")
    used = weights[weights > 0] / total
    return float(-(used * np.log(used)).sum()) + 0.0  # + 0.0 turns -0.0 into 0.0


def retrieval_entropy(retrieved: Iterable[Hashable]) -> float:
    """H = -sum p(I) ln p(I), p(I) the share of retrievals that fetched I. Nothing retrieved has no entropy: an
    error."""
    return entropy(list(Counter(retrieved).values()))


def semantic_diversity(embeddings: ArrayLike) -> float:
    """D = 1 - mean cosine over all pairs of records. Fewer than two records have no diversity: an error."""
    rows = _unit_rows(embeddings)
    count = len(rows)
    if count < 2:
        raise ValueError("diversity needs at least two records")
    total = rows.sum(axis=0)
    return float(1.0 - (total @ total - count) / (count * (count - 1)))


def record_rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    """Embeddings as a table, one row per record."""
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError("embeddings must be a non-empty table, one row per record")
    return rows


def _unit_rows(embeddings: ArrayLike) -> NDArray[np.float64]:
    rows = record_rows(embeddings)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any():
        raise ValueError("a record has a zero embedding")
    unit: NDArray[np.float64] = rows / norms
    return unit
