"""Pairs in which it is known which words are at odds: two texts that say the same, with something exchanged in one.

    python -m lazaretto_lab.training.claims.marked DATA LISTS OUT

Two texts say the same where annotators of a public set, or whoever wrote our statements and topics, said so. What both
name (a value, a name, a word) is exchanged in the newer one, for something that stands in other texts of its source:
then they contradict each other there, and the words are marked in both. Exchanged in both alike they agree as before;
with another thing to speak of (the name at the beginning) they do not exclude each other. Sets that describe
single scenes are left out: two scenes are no contradiction.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.comparison import compared
from lazaretto.gates.memory.claims.extraction import Claim, read_claim
from lazaretto.gates.memory.claims.values import Value, values_in
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.claims.changed import _AGAINST, _ONE_OF, _OPPOSITE, _other_address, _other_number
from lazaretto_lab.training.claims.facts_data import HELD_OUT, topics
from lazaretto_lab.training.claims.own_pairs import _NAMES, CONFLICT, part_of
from lazaretto_lab.training.claims.pairs import Pack, read_rows, save, scenario_pairs
from lazaretto_lab.training.claims.templates import AGREES, NO_CONFLICT
from lazaretto_lab.training.claims.transfer import LONGEST, _word_vectors, judged, stretches
from lazaretto_lab.training.written import statements

PUBLIC = ("mnli", "conj", "feversym", "infotabs", "facts")
"""Sets of pairs whose annotators know entailment, and that describe no single scenes."""
SCENARIOS = ("pararel", "templama", "poisonedrag", "conflictqa")
EACH = {"mnli": 3_000, "conj": 1_500, "feversym": 700, "infotabs": 2_500, "facts": 1_500}
VARIANTS = 4
SURE = {"value": 0.8, "name": 0.7, "opposite": 0.7, "thing": 0.5, "when": 0.3, "word": 0.0}
"""How much a label counts by what was exchanged: another word may mean the same, and another year another time."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_NEAR_WORDS = (2, 24)
"""Of the words nearest to a word, those that may stand in its place: the very nearest mean the same too often."""
Span = tuple[int, int]


@dataclass(frozen=True)
class Marked:
    """Two texts, how they stand, and where they are at odds (characters)."""

    old: str
    new: str
    label: int
    source: str
    sure: float = 1.0
    """How much the label counts against what the teachers say of the pair."""
    in_old: Span = (0, 0)
    in_new: Span = (0, 0)


def agreeing(data: Path, rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Texts of which somebody said that the first implies the second, or that both say the same."""
    for name in PUBLIC:
        rows = [row for row in read_rows(data / f"nli_{name}.jsonl.gz") if row["label"] == "entail"]
        for row in rng.sample(rows, min(EACH[name], len(rows))):
            source = row["id"].split("-")[0] if name == "facts" else name
            yield row["premise"], row["hypothesis"], f"m_{source}"
    for name in SCENARIOS:
        for row in read_rows(data / f"facts_{name}.jsonl.gz"):
            if row["label"] == "compatible":
                yield from (
                    (old, row["new"]["text"], f"m_{name}") for old, label in scenario_pairs(row) if label == AGREES
                )
    for one in statements():
        if one.relation == "restates":
            yield one.first, one.second, f"m_{one.fold}"
            yield one.second, one.first, f"m_{one.fold}"
    for topic in topics():
        if part_of(topic.work, topic.work in HELD_OUT) == "train":
            for again in topic.again:
                yield topic.says, again, "m_own"
                yield again, topic.says, "m_own"


def _find(text: str, words: str) -> Span | None:
    """Where words stand in a text, as whole words."""
    found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text)
    return found.span() if found else None


def _put(text: str, span: Span, words: str) -> tuple[str, Span]:
    start, end = span
    return text[:start] + words + text[end:], (start, start + len(words))


@cache
def _table() -> tuple[dict[str, int], dict[int, str], NDArray[np.float32]]:
    """Numbers of words, words of numbers, and their vectors in the encoder's table."""
    vocabulary = minilm_tokenizer().get_vocab()
    vectors = _word_vectors()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6
    return vocabulary, {number: word for word, number in vocabulary.items()}, vectors


@cache
def near_words(word: str) -> tuple[str, ...]:
    """Words near to a word in the encoder's table that are no form of it."""
    vocabulary, words, vectors = _table()
    if word not in vocabulary:
        return ()
    cosines = vectors @ vectors[vocabulary[word]]
    nearest = np.argpartition(-cosines, 60)[:60]
    found = [words[int(n)] for n in nearest[np.argsort(-cosines[nearest])][1:]]
    found = [w for w in found if w.isalpha() and len(w) > 2 and w[:4] != word[:4] and w[-4:] != word[-4:]]
    return tuple(found[slice(*_NEAR_WORDS)])


class Exchange:
    """What may stand in the place of what."""

    def __init__(self, texts: Sequence[str], rng: random.Random) -> None:
        self.rng = rng
        self.names = sorted({
            text[v.start : v.end] for text in texts for v in values_in(text) if v.kind == "name" and v.start > 0
        }) or list(_NAMES)  # fmt: skip

    def value(self, old: str, value: Value) -> str:
        """Another value of its kind, in its form."""
        words = old[value.start : value.end]
        if value.kind == "name":
            size = len(words.split())
            for _ in range(8):
                other = self.rng.choice(self.names if self.rng.random() < 0.7 else _NAMES)
                if len(other.split()) == size and other.lower() not in words.lower():
                    return other
            return self.rng.choice(_NAMES)
        change = _other_address if value.kind in ("host", "mail", "path", "package") else _other_number
        return change(words, self.rng)

    def word(self, word: str) -> str:
        """Another word that could stand there."""
        if word in _ONE_OF:
            return self.rng.choice([one for one in _ONE_OF[word] if one != word])
        several = near_words(word.lower())
        if not several:
            return word
        other = self.rng.choice(several)
        return other.capitalize() if word[0].isupper() else other


def _shared(old: str, new: str) -> list[tuple[str, str, Span, Span]]:
    """What both texts name: its kind, the words in the new one, and where it stands in each."""
    ours, theirs = values_in(old), values_in(new)
    found: list[tuple[str, str, Span, Span]] = []
    for value in theirs:
        same = [v for v in ours if (v.kind, v.norm) == (value.kind, value.norm)]
        if same:
            kind = "name" if value.kind == "name" else "when" if value.kind in ("year", "date") else "value"
            begins = kind == "name" and value.start < 5
            found.append((
                "thing" if begins else kind, new[value.start : value.end], (same[0].start, same[0].end),
                (value.start, value.end),
            ))  # fmt: skip
    taken = [span for _, _, _, span in found]
    for match in _WORD.finditer(new):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        there = _find(old, match[0])
        if there is not None and (match[0].islower() or match[0] in _ONE_OF):
            found.append(("word", match[0], there, match.span()))
    for match in _OPPOSITE.finditer(new):
        there = _find(old, match[0])
        if there is not None and _AGAINST[match[0]]:
            found.append(("opposite", match[0], there, match.span()))
    return found


def marked(old: str, new: str, source: str, exchange: Exchange) -> Iterator[Marked]:
    """The pair as it is, and with something exchanged."""
    rng = exchange.rng
    yield Marked(old, new, AGREES, source)
    shared = _shared(old, new)
    by_kind: dict[str, list[tuple[str, str, Span, Span]]] = {}
    for one in shared:
        by_kind.setdefault(one[0], []).append(one)
    for _ in range(VARIANTS if shared else 0):
        kind = rng.choice(sorted(by_kind))
        _, words, there, here = rng.choice(by_kind[kind])
        if kind == "word":
            other = exchange.word(words)
        elif kind == "opposite":
            other = _AGAINST[words]
        else:
            value = next(v for v in values_in(new) if (v.start, v.end) == here)
            other = exchange.value(new, value)
        if other.casefold() == words.casefold() or re.search(rf"(?<!\w){re.escape(other)}(?!\w)", old):
            continue
        changed, at = _put(new, here, other)
        label = NO_CONFLICT if kind == "thing" else CONFLICT
        yield Marked(old, changed, label, source, SURE[kind], there, at)
        if kind in ("name", "value", "thing") and old[there[0] : there[1]] == words and rng.random() < 0.4:
            yield Marked(_put(old, there, other)[0], changed, AGREES, source)  # in both alike


def _features(pair: tuple[str, str]) -> list[float]:
    return list(compared(_read(pair[0]), _read(pair[1])))


@lru_cache(100_000)
def _read(text: str) -> Claim:
    return read_claim(text)


def _tokens(text: str, span: Span) -> Span:
    """The word pieces of some characters."""
    if span == (0, 0):
        return 0, 0
    encoded = minilm_tokenizer().encode(text, add_special_tokens=False)
    inside = [n for n, (start, end) in enumerate(encoded.offsets) if start < span[1] and span[0] < end]
    return (inside[0], inside[-1] + 1) if inside and inside[-1] < 255 else (0, 0)


def marked_pack(data: Path, lists: Path, seed: int = 21) -> tuple[Pack, NDArray[np.uint8], NDArray[np.float32]]:
    """The pairs, packed, their marks (first and last word piece in the old text, and in the new one), and how much
    their labels count."""
    rng, out = random.Random(seed), judged(lists)
    clean = cache(lambda text: 0 < len(text) <= LONGEST and not stretches(text) & out)
    pairs = [one for one in agreeing(data, rng) if clean(one[0]) and clean(one[1]) and one[0] != one[1]]
    exchanges = {
        source: Exchange([text for one in pairs if one[2] == source for text in one[:2]], rng)
        for source in sorted({one[2] for one in pairs})
    }
    found = list(dict.fromkeys(m for old, new, source in pairs for m in marked(old, new, source, exchanges[source])))
    print(f"{len(found)} of {len(pairs)} pairs that agree", flush=True)
    pack = Pack()
    with multiprocessing.Pool(2) as pool:
        pack.features = pool.map(_features, [(one.old, one.new) for one in found], chunksize=1000)
    for one in found:
        pack.old.append(pack.number(one.old))
        pack.new.append(pack.number(one.new))
        pack.label.append(one.label)
        pack.source.append(one.source)
        pack.where.append((-1, -1, -1))
    marks = np.array([(*_tokens(one.old, one.in_old), *_tokens(one.new, one.in_new)) for one in found], np.uint8)
    return pack, marks, np.array([one.sure for one in found], np.float32)


def main() -> None:
    """Write ``marked.npz`` and ``marks.npz``."""
    data, lists, out = map(Path, sys.argv[1:4])
    pack, marks, sure = marked_pack(data, lists)
    save(pack, out / "marked.npz")
    np.savez_compressed(out / "marks.npz", marks=marks, sure=sure)


if __name__ == "__main__":
    main()
